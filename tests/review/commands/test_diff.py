"""Tests for the ``stackmem diff`` command."""

import json

from tests.build import alloc, do, play, pop, started
from tests.stage import Stage
from tests.trace.kept import keep, tree

HOSTILE = "\x1b]0;owned\x07\u202eevil\r\x9b1m"


def test_two_runs_stand_side_by_side_and_hostile_text_can_do_nothing(stage: Stage, tmp_path):
    folder = tmp_path / "kept"
    for name, said in (("a", "Done."), ("b", HOSTILE)):
        start = started(tree=tree(folder / name, {f"{name}{HOSTILE}": HOSTILE}))
        keep(folder / name, play(alloc("spec", said), do(said), pop(said), start=start).events)
    ran = stage.call("diff", folder / "a", folder / "b")
    assert ran.returncode == 0, ran.stderr
    assert "they diverge after 0 equal events:" in ran.stdout
    assert "\nsteps                    3" in ran.stdout
    assert f"heap spec: A 5 chars, B {len(HOSTILE)} chars, other content" in ran.stdout
    assert "files that differ at the end: 2" in ran.stdout
    assert not set(ran.stdout) & set("\x1b\x07\u202e\r\x9b")
    told = json.loads(stage.call("diff", folder / "a", folder / "b", "--json").stdout)
    assert (told["a"]["run"], told["parting"]["a"]["step"]) == ("a", 1)


def test_a_run_that_is_not_there_is_named(stage: Stage):
    ran = stage.call("diff", "nobody", "last")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
