"""Tests for the `stackmem report` command."""

import subprocess
import sys

from stackmem.foreign.installing import install_command
from tests.review.report.bench_rows import bench, row


def test_a_report_is_written_into_the_folder_of_its_bench(stage):
    folder = bench(stage.elsewhere / "zoo", [row(), row("stackheap")])
    ran = stage.call("report", folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    page = folder / "report.html"
    assert ran.stdout == f"wrote {page} (2 trials, {page.stat().st_size / 1000:,.0f} kB)\n"


def test_a_report_is_what_the_end_of_its_name_says(stage):
    folder = bench(stage.elsewhere / "zoo", [row(), row("stackheap")])
    starts = {"md": "# Strategies side by side", "csv": "model,noise,set", "html": "<!doctype html>"}
    for kind, start in starts.items():
        ran = stage.call("report", folder, "-o", f"r.{kind}", "--baseline", "stackheap", "--read-multiple", "0.05")
        assert ran.returncode == 0, ran.stderr
        assert (stage.elsewhere / f"r.{kind}").read_text(encoding="utf-8").startswith(start)


def test_a_folder_without_a_bench_is_reported_in_one_sentence(stage):
    ran = stage.call("report", stage.elsewhere)
    assert ran.returncode == 2
    assert ran.stderr.startswith("stackmem: ")
    assert "stackmem bench -o DIR creates one" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_baseline_that_was_not_run_is_reported_in_one_sentence(stage):
    ran = stage.call("report", bench(stage.elsewhere / "zoo", [row(), row("stackheap")]), "--baseline", "stakheap")
    assert (ran.returncode, ran.stderr) == (
        2,
        "stackmem: the bench has no trials of --baseline 'stakheap'; did you mean stackheap?\n",
    )


def test_without_the_extra_it_says_what_to_install(tmp_path):
    without = (
        "import sys; sys.modules['scipy'] = sys.modules['numpy'] = None; from stackmem.cli.main import main; main()"
    )
    command = [sys.executable, "-c", without, "report", str(bench(tmp_path, [row(), row("stackheap")]))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"stackmem: statistics need the extra 'bench'; install it: {install_command('bench')}\n"
