"""Runs whose trace, verdict or result was changed later by somebody who knows the format."""

import json
from pathlib import Path

import msgspec
import pytest

from stackmem.core.facts import ChecksReturned
from stackmem.run.result import RunResult
from stackmem.trace.lineage import RunReader
from tests.stage import UNSOLVED, Stage, command, pop, rechain, records


@pytest.fixture
def unsolved(stage: Stage) -> RunResult:
    return stage.solve(stage.task(command("echo x > made"), pop("Done."), test=UNSOLVED))


def forge_verdict(run: Path) -> None:
    """Return the same trace with another verdict and recomputed digests."""
    *kept, judged = records(run)
    assert isinstance(judged.event, ChecksReturned)
    rechain(run / "trace.jsonl", [*kept, msgspec.structs.replace(judged, event=ChecksReturned({"reward": 1.0}))])


def rewrite_result(run: Path, **changed: object) -> None:
    path = run / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changed), encoding="utf-8")


def test_a_forged_verdict_next_to_an_untouched_result_exits_7(stage: Stage, unsolved):
    forge_verdict(Path(unsolved.run_dir))
    replayed = stage.call("replay", "last")
    assert (replayed.returncode, replayed.stdout) == (7, "")
    assert "one of the two was modified; restore an earlier copy" in replayed.stderr
    assert unsolved.digest[:16] in replayed.stderr
    assert stage.call("resume", "last").returncode == 7


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"outcome": "solved"}, "has outcome 'solved', but its trace gives 'unsolved'"),
        ({"steps": 1}, "has steps 1, but its trace gives 2"),
        ({"result": "x" * 9_000}, "has result 'xxx"),
        ({"records": 3}, "has the digest"),
        ({"digest": "0" * 64}, "has the digest"),
    ],
    ids=["outcome", "steps", "result", "records", "digest"],
)
def test_a_changed_result_next_to_an_untouched_trace_exits_7_with_both_values(stage, unsolved, changed, says):
    assert stage.call("replay", "last").returncode == 0
    rewrite_result(Path(unsolved.run_dir), **changed)
    replayed = stage.call("replay", "last")
    assert replayed.returncode == 7
    assert says in replayed.stderr
    assert len(replayed.stderr) < 600


def test_a_verdict_forged_in_both_is_found_by_judging_again(stage: Stage, unsolved):
    run = Path(unsolved.run_dir)
    judged = stage.call("replay", "last", "--checks")
    assert (judged.returncode, "as recorded: reward 0" in judged.stdout) == (0, True), judged.stderr
    forge_verdict(run)
    reader = RunReader(run)
    assert list(reader)
    rewrite_result(run, outcome="solved", digest=reader.digest)
    assert stage.call("replay", "last").returncode == 7  # the signatures contradict both
    (Path(unsolved.run_dir) / "signatures.jsonl").unlink()
    assert stage.call("replay", "last").returncode == 0  # the folder is consistent in itself
    judged = stage.call("replay", "last", "--checks")
    assert judged.returncode == 6
    assert "reward 0; recorded: reward 1" in judged.stdout
    assert json.loads(stage.call("replay", "last", "--checks", "--json").stdout)["now"] == {"reward": 0.0}


def test_only_a_run_that_was_judged_is_judged_again(stage: Stage):
    folder = stage.root / "folder"
    folder.mkdir()
    stage.solve(folder, "Do it.", model=stage.script(pop("Done.")))
    refused = stage.call("replay", "last", "--checks")
    assert refused.returncode == 2
    assert "was not judged by checks" in refused.stderr
    assert "cannot be combined" in stage.call("replay", "last", "--checks", "--step", "1").stderr


@pytest.mark.parametrize("text", ["", '{"outcome": "solved"', "\ufeff{}", '{"records": 1e999}'])
def test_a_result_that_cannot_be_read_is_said_to_hold_nothing_against_the_trace(stage: Stage, unsolved, text):
    (Path(unsolved.run_dir) / "result.json").write_text(text, encoding="utf-8")
    replayed = stage.call("replay", "last")
    assert replayed.returncode == 0
    assert "its result.json cannot be read and was not compared; stackmem resume" in replayed.stdout
    assert "completed the end of" in stage.call("resume", "last").stderr
    assert "result.json" not in stage.call("replay", "last").stdout
