"""Results as Parquet: the values of ``results.sqlite`` and of a study's rows, with types."""

import subprocess
import sys

from pyarrow import parquet

from stackmem.foreign.installing import install_command
from stackmem.lab.bench.evidence import RecordingEntry, StrategyBill
from stackmem.lab.bench.results import columns
from stackmem.lab.comparison.results import read_bench
from tests.review.report.bench_rows import bench, row


def test_trials_are_written_with_their_columns_and_types(stage):
    folder = bench(stage.elsewhere / "zoo", [row(), row("stackheap")])
    ran = stage.call("report", folder, "-o", "trials.parquet")
    assert (ran.returncode, ran.stderr) == (0, "")
    table = parquet.read_table(stage.elsewhere / "trials.parquet")
    assert table.column_names == list(columns())
    assert [str(table.schema.field(name).type) for name in ("id", "horizon", "bill_usd", "steps")] == [
        "string", "int64", "double", "double",
    ]  # fmt: skip
    for written, trial in zip(table.to_pylist(), read_bench(folder).trials, strict=True):
        assert {name: value for name, value in written.items() if value is not None} == {
            name: value for name, value in trial.row.items() if value is not None and name in columns()
        }


def test_a_value_of_another_type_is_an_error_and_no_file_is_left(stage):
    folder = bench(stage.elsewhere / "zoo", [row() | {"steps": "many"}])
    ran = stage.call("report", folder, "-o", "trials.parquet")
    assert ran.returncode == 2
    assert "cannot be written as Parquet" in ran.stderr
    assert not (stage.elsewhere / "trials.parquet").exists()


def test_recordings_have_one_row_per_strategy_and_case(tmp_path):
    from stackmem.lab.comparison.evidence import write_evidence

    bill = StrategyBill((0.3, 0.2, 0.1), 5_000, 7, 2, frames=1, across=3, rereads=1)
    entry = RecordingEntry("a.jsonl", "s", "m", "t", "codex 1.0", 4, bills={"full": bill, "adaptive middle": bill})
    write_evidence([entry], tmp_path / "e.parquet")
    rows = parquet.read_table(tmp_path / "e.parquet").to_pylist()
    assert [(each["strategy"], each["case"], each["agent"]) for each in rows] == [
        ("full", "", "codex"), ("adaptive", "middle", "codex"),
    ]  # fmt: skip
    assert [rows[1][f"usd_at_{read}"] for read in ("0.1", "0.05", "0.025")] == [0.3, 0.2, 0.1]
    assert (rows[1]["lost"], rows[1]["frames"], rows[1]["again"]) == (2, 1, 1)


def test_without_the_extra_it_says_what_to_install(tmp_path):
    without = "import sys; sys.modules['pyarrow'] = None; from stackmem.cli.main import main; main()"
    folder = bench(tmp_path, [row()])
    command = [sys.executable, "-c", without, "report", str(folder), "-o", str(tmp_path / "t.parquet")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert install_command("parquet") in ran.stderr
