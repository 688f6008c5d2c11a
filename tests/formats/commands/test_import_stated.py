"""An imported recording's stated strategy and cost appear in every export and comparison of its run."""

import csv
import io
import json
from pathlib import Path

import pytest

from stackmem.formats.export import export_run
from stackmem.formats.import_ import import_file
from stackmem.review.diff import diff_runs
from stackmem.trace.open_run import Run
from tests.formats.test_recordings import SAMPLES, text_of
from tests.stage import Stage, pop

SHOWN = "rolling (stated by the recording)"


def stated_run(stage: Stage, place: Path) -> Path:
    """Create a run from a recording that states its strategy and cost, by a model without a price."""
    recording = json.loads(text_of("atif").replace("claude-haiku-4-5", "somebody-elses"))
    recording["agent"].setdefault("extra", {})["strategy"] = "rolling"
    (place / "stated.json").write_text(json.dumps(recording), "utf-8")
    (run,) = import_file(place / "stated.json", None, stage.runs)
    assert (run.strategy, run.recorded_usd) == ("rolling", 0.0042)
    return Path(run.run_dir)


def exported(run: Path, spelled: str) -> str:
    pieces: list[bytes] = []
    export_run(run, spelled, pieces.append, out=None, endpoint=None, content=False)
    return b"".join(pieces).decode()


def test_exports_write_the_stated_strategy_and_cost(stage, tmp_path):
    run = stated_run(stage, tmp_path)
    atif, mini = json.loads(exported(run, "atif")), json.loads(exported(run, "mini"))
    assert atif["agent"]["extra"]["strategy"] == SHOWN
    assert atif["final_metrics"]["total_cost_usd"] == 0.0042
    assert mini["info"]["config"]["agent"]["strategy"] == SHOWN
    assert mini["info"]["model_stats"]["instance_cost"] == 0.0042
    assert {row["strategy"] for row in csv.DictReader(io.StringIO(exported(run, "csv")))} == {SHOWN}
    assert {json.loads(line)["strategy"] for line in exported(run, "sft").splitlines()} == {SHOWN}
    assert SHOWN in exported(run, "otel")
    assert '"full"' not in exported(run, "otel")


def test_whatif_names_the_stated_strategy(stage, tmp_path):
    run = stated_run(stage, tmp_path)
    for named in (run, tmp_path / "stated.json"):
        (result,) = json.loads(stage.call("whatif", named, "--strategies", "full,rag", "--json").stdout)
        rows = result["rows"]
        assert [(row["strategy"].split(":")[0], row["recorded"]) for row in rows] == [
            (SHOWN, True), ("full", False), ("rag", False),
        ]  # fmt: skip


def test_an_inspect_log_has_the_stated_strategy_and_cost(stage, tmp_path):
    from inspect_ai.log import read_eval_log

    run, file = stated_run(stage, tmp_path), tmp_path / "log.eval"
    export_run(run, "inspect", print, out=file, endpoint=None, content=False)
    log = read_eval_log(str(file))
    assert log.eval.metadata is not None
    assert log.samples
    assert log.eval.metadata["strategy"] == log.samples[0].metadata["strategy"] == SHOWN
    assert [usage.total_cost for usage in log.stats.model_usage.values()] == [0.0042]


def test_a_recording_without_a_strategy_is_named_by_its_format(stage):
    (run,) = import_file(SAMPLES / "mini.traj.json", None, stage.runs)
    assert json.loads(exported(Path(run.run_dir), "mini"))["info"]["config"]["agent"]["strategy"] == "imported:mini"
    (Path(run.run_dir) / "imported.json").unlink()
    assert json.loads(exported(Path(run.run_dir), "mini"))["info"]["config"]["agent"]["strategy"] == "imported:mini"


@pytest.mark.parametrize("read", ["diff", "trace"])
def test_other_readers_name_it_too(stage, tmp_path, read):
    run = stated_run(stage, tmp_path)
    if read == "trace":
        assert f"strategy {SHOWN}" in stage.call("trace", "show", run).stdout
    else:
        side = diff_runs(Run(run), Run(run)).a
        assert (side.strategy, side.usd) == (SHOWN, 0.0042)


def test_a_planted_file_changes_nothing_in_a_run_of_our_own(stage, tmp_path):
    run = Path(stage.solve(stage.task(pop())).run_dir)
    before = exported(run, "atif")
    (run / "imported.json").write_text('{"origin": "atif 1", "strategy": "evil", "recorded_usd": 9}', "utf-8")
    assert exported(run, "atif") == before
