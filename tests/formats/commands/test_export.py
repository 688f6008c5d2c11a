"""Tests ``stackmem export`` to a file, to stdout and to a collector, and its error messages."""

import json
import threading

import pytest

from tests.formats.test_export_otel import Collector
from tests.stage import Stage
from tests.trace.stories import cut_short, keep, told


@pytest.fixture
def run(stage: Stage):
    return keep(stage.runs / "a-run", told("family"))


def test_a_run_goes_to_stdout_and_to_a_file_with_the_same_bytes(stage, run):
    shown = stage.call("export", "last", "--format", "atif")
    out = stage.root / "out.json"
    out.write_text("old")
    written = stage.call("export", "a-run", "--format", "atif", "-o", out)
    assert (shown.returncode, written.returncode) == (0, 0), shown.stderr + written.stderr
    assert out.read_text("utf-8") == shown.stdout
    assert json.loads(shown.stdout)["session_id"] == "a-run"
    assert written.stdout == f"a-run: written to {out}\n"


def test_text_of_every_script_reaches_a_terminal_that_knows_only_ascii(stage, run):
    ran = stage.call(
        "export", "last", "--format", "sft", env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    )
    assert ran.returncode == 0, ran.stderr


def test_a_record_torn_by_a_crash_is_reported_and_skipped(stage, run):
    with (run / "trace.jsonl").open("ab") as trace:
        trace.write(b'{"seq":')
    ran = stage.call("export", "last", "--format", "csv")
    assert ran.returncode == 0
    assert "last 7 bytes of the trace are incomplete" in ran.stderr


def test_a_broken_line_is_named_and_leaves_no_file(stage):
    folder = keep(stage.runs / "broken", cut_short())
    trace = folder / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b"outer", b"other", 1))
    out = stage.root / "out.csv"
    ran = stage.call("export", "broken", "--format", "csv", "-o", out)
    assert ran.returncode == 7
    assert "is broken" in ran.stderr
    assert [path.name for path in stage.root.iterdir() if "out.csv" in path.name] == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--format", "yaml"], "no format 'yaml'; known: atif, chrome, csv, inspect, mini, otel, sft, swebench"),
        (["--format", "csv", "--content"], "are for --format otel, not csv"),
        (["--format", "csv", "--endpoint", "http://127.0.0.1:1"], "are for --format otel, not csv"),
        (["--format", "otel", "--endpoint", "http://127.0.0.1:1", "-o", "x"], "give one of them"),
        (["--format", "inspect"], "name it with -o FILE.eval"),
        (["--format", "inspect", "-o", "x.json"], "a file name that ends in .eval"),
        (["--format", "swebench"], "has no patch"),
        (["--format", "swebench", "--content"], "are for --format otel, not swebench"),
        (["--format", "otel", "--endpoint", "localhost"], "is not the address of a collector"),
        (["--format", "csv", "-o", "no/such/folder/x"], "cannot be written or read"),
        (["--format", "csv", "-o", "."], "cannot be written or read"),
        ([], "missing option '--format'"),
    ],
)
def test_impossible_requests_print_one_sentence(stage, run, more, says):
    ran = stage.call("export", "last", *more)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_pipe_is_written_to_and_not_replaced(stage, run):
    # Needs a process: in the test process, /dev/stdout is pytest's own file, which would be replaced.
    ran = stage.run("export", "last", "--format", "csv", "-o", "/dev/stdout")
    assert ran.returncode == 0
    assert ran.stdout.startswith("step,seq,")


def test_a_link_is_written_through_and_stays_a_link(stage, run, tmp_path):
    (tmp_path / "kept").write_text("before")
    (tmp_path / "link").symlink_to("kept")
    assert stage.call("export", "last", "--format", "csv", "-o", str(tmp_path / "link")).returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept").read_text().startswith("step,seq,")


def test_spans_are_sent_to_a_collector(stage, run):
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ran = stage.call("export", "last", "--format", "otel", "--content", "--endpoint", server.url)
        server.shutdown()
    assert ran.returncode == 0, ran.stderr
    assert "spans sent to" in ran.stdout
    assert server.got
