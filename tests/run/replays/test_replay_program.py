"""Repeating a program's run in a fresh copy of its files, as for an agent's run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied
from stackmem.core.program_facts import ToolAnswered
from stackmem.review.replays.live import replay_live
from stackmem.review.replays.model import replay_model
from stackmem.settings.tools.own_tools import TOOLS, tool
from stackmem.trace.open_run import Run
from tests.languages import tiny
from tests.languages.running.test_run import Desk, folder_of
from tests.stage import rechain, records

WHOLE = """\
load lib.tiny
write made one
shell cat made; echo two >> made
ask first?
both ask a? & read made & ask b?
use outside {}
frame Do it.
user who?
shell cat made; echo three >> made
ask last?
say $it
"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tiny.install()
    kept = dict(TOOLS)
    yield Desk(tmp_path)
    tiny.remove()
    TOOLS.clear()
    TOOLS.update(kept)


@pytest.fixture
def run(desk: Desk) -> Run:
    calls: list[int] = []

    @tool
    def outside() -> int:
        calls.append(1)
        assert len(calls) == 1, "it was called a second time"
        return 7

    desk.write("a library", "lib.tiny")
    popped = {"call": "pop_frame", "args": {"result": '{"n": 1}'}}
    ran = {"call": "run_command", "args": {"command": "cat made"}}
    desk.script({"text": "1"}, {"text": "2"}, {"text": "3"}, ran, popped, {"text": "6"})
    return Run(folder_of(desk.run(WHOLE, ("me",))))


def forged(run: Run, place: int, **changes: Any) -> Run:
    """Alter the nth tool answer of a run and recompute the chain."""
    kept = records(run.folder)
    where = [index for index, record in enumerate(kept) if isinstance(record.event, ToolAnswered)][place]
    kept[where] = replace(kept[where], event=replace(kept[where].event, **changes))
    rechain(run.folder / "trace.jsonl", kept)
    return Run(run.folder)


def nothing_left(desk: Desk) -> bool:
    return not [path for path in (desk.root / "work").iterdir() if path.name.startswith("replay-")]


@pytest.mark.parametrize(("first", "calls"), [(1, 6), (2, 4), (5, 1), (6, 1)])
def test_the_programs_calls_and_the_agents_are_executed_again_from_a_step_on(desk: Desk, run: Run, first, calls):
    found = replay_live(run, os.environ, first)
    assert (found.difference, found.missing) == ("", ())
    assert found.calls == calls
    assert nothing_left(desk)


def test_a_program_that_asks_no_model_is_executed_again(desk: Desk) -> None:
    before = desk.run("shell echo x > made\nread made")
    told = []
    assert replay_live(Run(folder_of(before)), os.environ, observe=told.append).calls == 2
    assert [effect.tool for effect in told] == ["shell", "read_file"]


def test_the_first_answer_that_differs_is_named_with_what_differs(desk: Desk, run: Run) -> None:
    said = {"stdout": "other", "stderr": "", "exit_code": 0}
    found = replay_live(forged(run, 1, value=said), os.environ)
    assert (found.calls, found.call) == (1, "shell cat made; echo two >> made")
    assert '"other"' in found.difference
    assert '"one"' in found.difference


def test_file_differences_after_a_call_are_reported(run: Run) -> None:
    found = replay_live(forged(run, 0, tree=run.start.tree), os.environ)
    assert found.difference.splitlines()[1] == "  made: added now"


@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6])
def test_the_program_makes_the_same_facts_of_the_same_replies(desk: Desk, run: Run, first: int) -> None:
    found = replay_model(run, os.environ, first)
    assert (found.difference, found.outcome, found.recorded_outcome) == ("", "finished", "finished")
    assert found.steps == 7 - first
    assert nothing_left(desk)


def test_what_the_program_makes_otherwise_is_named_and_it_plays_on(run: Run) -> None:
    said = {"stdout": "other", "stderr": "", "exit_code": 0}
    found = replay_model(forged(run, 5, value=said), os.environ, 4)
    assert (found.step, found.outcome) == (5, "finished")
    assert "ToolAnswered with different fields:" in found.difference


def test_answers_of_a_group_are_compared_in_the_order_in_which_they_came(run: Run) -> None:
    kept = records(run.folder)
    at = [index for index, record in enumerate(kept) if isinstance(record.event, ModelReplied)]
    one, other = kept[at[1]], kept[at[2]]
    kept[at[1]], kept[at[2]] = replace(one, event=other.event), replace(other, event=one.event)
    rechain(run.folder / "trace.jsonl", kept)
    assert replay_model(Run(run.folder), os.environ, 1).difference == ""


def test_the_command_tells_both(desk: Desk) -> None:
    from tests.languages.commands.test_programs import stackmem

    (desk.folder / "main.apl").write_text("main:\n  - {name: one, tool: shell, command: 'date +%N'}\n", "utf-8")
    dirs = ("--runs-dir", desk.flags["runs_dir"], "--sandbox-dir", desk.flags["sandbox_dir"])
    assert stackmem(desk.root, "run", "here", *dirs).returncode == 0
    done = stackmem(desk.root, "replay", "last", "--tools", "live", "--runs-dir", desk.flags["runs_dir"])
    assert done.returncode == 6
    assert "step 0, record" in done.stdout
    assert "shell date +%N" in done.stdout
