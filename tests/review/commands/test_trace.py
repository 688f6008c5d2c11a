"""Tests for ``stackmem trace show`` and ``stats``."""

import json
import re

import msgspec
import pytest

from stackmem.cli.screen.text import align
from stackmem.core.facts import RunStarted
from stackmem.core.messages import ToolCall
from stackmem.review.measure.frames import FrameRow, frames
from stackmem.review.measure.metrics import METRICS, measure
from stackmem.review.measure.timeline import timeline
from stackmem.review.trace_tables import frame_tree, metric_table, step_table
from tests.build import PRICE, alloc, play, pop, push, reply, started
from tests.review.measure.runs import seen
from tests.run.people import Scripted, talk
from tests.stage import Stage, call, rechain, records
from tests.stage import pop as ends
from tests.stage import push as pushes

HOSTILE = "</script>\x1b[31m\u202e\r\nred" + "x" * 10_000


def tree(*replies, **more):
    return frame_tree(frames(seen(play(*replies, **more))))


def row(name: str, frame: str, parent: str = "", **more) -> FrameRow:
    return FrameRow(frame, name, 0, parent, "", 1, 1, pushed_at=0.0, **more)


def plain(lines: list[str]) -> list[str]:
    """Return the lines without stackmem's own colors."""
    return [re.sub("\x1b\\[(3[123]|0)m", "", line) for line in lines]


def test_columns_are_as_wide_as_their_widest_cell_on_a_terminal():
    assert align([("a", "b", "c"), ("wide", "100", "")], left=(0,)) == ["a       b  c", "wide  100"]
    assert align([("語", "1", ""), ("abc", "1", "")], left=(0,)) == ["語   1", "abc  1"]
    assert align([], left=()) == []


def test_a_line_is_cut_in_its_last_column_to_the_width_of_the_terminal():
    rows = [("a", "語語語語"), ("b", "x" * 50), ("c", "")]
    assert align(rows, left=(0,), width=10) == ["a  語語語…", "b  xxxxxx…", "c"]
    assert align(rows, left=(0,), width=1) == ["a  …", "b  …", "c"]


def test_an_outcome_has_its_colour_unless_she_wants_none(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert align([("a", "solved", "x")], left=(0, 1), outcomes=1) == ["a  \x1b[32msolved\x1b[0m  x"]
    assert align([("a", "forced: window")], left=(0,), outcomes=1) == ["a  \x1b[31mforced\x1b[0m: window"]
    assert align([("a", "solvedness")], left=(0,), outcomes=1) == ["a  solvedness"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert align([("a", "solved", "x")], left=(0, 1), outcomes=1) == ["a  solved  x"]


def test_every_step_is_a_line_with_what_came_of_it():
    run = seen(play(alloc("a"), push(name="part"), reply("hm", stop="end"), pop(), pop(), start=started(price=PRICE)))
    lines = plain(step_table(timeline(run)))
    assert [line.split()[:2] for line in lines] == [
        ["step", "frame"], ["1", "root"], ["2", "root"], ["3", "part"], ["4", "part"], ["5", "root"],
    ]  # fmt: skip
    assert lines[1].endswith("ok: heap_alloc a")
    assert lines[2].endswith("pushed (frame-1): push_frame part")
    assert lines[3].endswith("nudged (no_call): no call")
    assert "$0.0001" in lines[1]


def test_hostile_calls_stay_on_their_line():
    lines = step_table(timeline(seen(play(reply(ToolCall("", HOSTILE, {"name": HOSTILE})), alloc("a")))))
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) < 300 for line in plain(lines))


def test_frames_stand_below_the_one_that_pushed_them():
    rows = (
        row("root", "0"), row("one", "1", "0"), row("deep", "2", "1"), row("deeper", "3", "2"), row("two", "4", "0"),
    )  # fmt: skip
    names = [line[:15].split("  1")[0].rstrip() for line in frame_tree(rows)]
    assert names == ["frame", "root", "├─ one", "│  └─ deep", "│     └─ deeper", "└─ two"]


def test_a_frame_shows_its_cost_if_the_price_is_known():
    assert "unknown" in tree(alloc("a"), pop())[1]
    assert "$0.0003" in tree(alloc("a"), pop(), start=started(price=PRICE))[1]


def test_a_frame_without_a_reply_has_no_steps():
    assert tree()[1].split()[:3] == ["root", "-", "0"]


def test_estimated_tokens_are_marked():
    guessed = msgspec.structs.replace(pop(), usage=msgspec.structs.replace(pop().usage, estimated=True))
    assert "~120" in tree(guessed)[1]


def test_hostile_text_cannot_leave_its_line_or_colour_the_terminal():
    lines = tree(push(), pop(HOSTILE[:900]), reply(HOSTILE, stop="end"), pop(HOSTILE[:900]))
    assert len(lines) == 3
    assert all(line.isprintable() and len(line) < 250 for line in plain(lines))


def test_a_metric_shows_its_unit_once():
    lines = metric_table(measure(seen(play(alloc("a"), pop(), start=started(price=PRICE)))))
    assert len(lines) == len(METRICS)
    by_name = {line.split()[0]: line.split()[1:] for line in lines}
    assert by_name["steps"] == ["2", "replies"]
    assert by_name["output_tokens"] == ["40"]
    assert by_name["memory_call_share"][0] == "50.0%"
    assert by_name["cost_usd"] == ["0.0003"]


def test_the_tree_and_the_metrics_of_a_run_are_printed_and_given_as_json(stage: Stage):
    task = stage.task(pushes("part"), call("heap_alloc", name="a", content="x"), ends(), ends())
    run = stage.solve(task).run
    shown = stage.call("trace", "show", "last")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(f"{run}: solved after 4 steps, model demo, strategy adaptive")
    assert "\n└─ part" in shown.stdout
    stats = json.loads(stage.call("trace", "stats", "last", "--json").stdout)
    assert (stats["run"], stats["outcome"], stats["metrics"]["steps"]) == (run, "solved", 4)
    steps = json.loads(stage.call("trace", "show", "last", "--steps", "--json").stdout)["steps"]
    assert [one["tool"] for one in steps] == ["push_frame", "heap_alloc", "pop_frame", "pop_frame"]
    assert "ok: heap_alloc a" in stage.call("trace", "show", "last", "--steps").stdout
    frames_told = json.loads(stage.call("trace", "show", run, "--json").stdout)["frames"]
    assert [(one["name"], one["steps"]) for one in frames_told] == [("root", 2), ("part", 2)]


def test_a_scripted_run_has_a_bill_under_any_model_of_the_table(stage: Stage):
    stage.solve(stage.task(pushes("part"), call("heap_alloc", name="a", content="x"), ends(), ends()))
    told = stage.call("trace", "stats", "last", "--simulate", "claude-sonnet-5-5")
    assert told.returncode == 0, told.stderr
    assert "simulated cache of claude-sonnet-5-5, which stores prefixes of at least 512 tokens" in told.stdout
    assert "1 did not: new conversation" in told.stdout
    found = json.loads(stage.call("trace", "stats", "last", "--simulate", "claude-fable-5-2", "--json").stdout)["cache"]
    assert (found["bill"]["usd"], found["bill"]["requests"], len(found["steps"])) == (None, 4, 4)
    wrong = stage.call("trace", "stats", "last", "--simulate", "gpt")
    assert (wrong.returncode, wrong.stdout) == (2, "")


@pytest.mark.parametrize("command", ["show", "stats"])
def test_a_broken_trace_is_one_sentence_and_exit_7(stage: Stage, command):
    stage.solve(stage.task(ends()))
    trace = stage.only_run() / "trace.jsonl"
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(lines[0] + lines[1].replace(b"Done", b"Dung") + b"".join(lines[2:]))
    failed = stage.call("trace", command, "last")
    assert (failed.returncode, failed.stdout) == (7, "")
    assert failed.stderr.startswith("stackmem: line 2 is broken")
    assert failed.stderr.endswith("; stackmem trace recover RUN saves the lines before it\n")
    assert len(failed.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["show", "stats"])
def test_a_missing_run_argument_exits_2(stage: Stage, command):
    assert stage.call("trace", command, "nothing").returncode == 2


def test_a_trace_with_contradicting_records_exits_7(stage: Stage):
    stage.solve(stage.task(ends()))
    path, kept = stage.only_run() / "trace.jsonl", records(stage.only_run())
    for wrong, says in (
        ([kept[1]], "the first record is not RunStarted"),
        ([kept[0], kept[2], kept[1]], "record 3 cannot follow"),
    ):
        rechain(path, [msgspec.structs.replace(one, seq=number) for number, one in enumerate(wrong, 1)])
        failed = stage.call("trace", "show", "last")
        assert (failed.returncode, failed.stdout) == (7, "")
        assert says in failed.stderr


def test_a_run_in_a_folder_with_an_undecodable_name_is_shown(stage: Stage):
    stage.solve(stage.task(ends()))
    odd = stage.only_run().rename(stage.runs / "caf\udce9")
    for flags in ([], ["--json"], ["--steps"]):
        shown = stage.call("trace", "show", odd, *flags)
        assert shown.returncode == 0, shown.stderr
    assert stage.call("trace", "stats", odd, "--json").returncode == 0
    assert r"caf\xe9" in stage.call("runs").stdout


def test_a_hostile_start_is_shown_on_one_line(stage: Stage):
    stage.solve(stage.task(ends()))
    path = stage.only_run() / "trace.jsonl"
    kept = records(stage.only_run())
    start = kept[0].event
    assert isinstance(start, RunStarted)
    forged = msgspec.structs.replace(start, model=HOSTILE, task_name=HOSTILE)
    rechain(path, [msgspec.structs.replace(kept[0], event=forged), *kept[1:]])
    shown = stage.call("trace", "show", "last")
    assert shown.returncode == 0
    assert all(line.isprintable() for line in shown.stdout.splitlines())


def test_a_conversations_simulated_bill_is_listed_by_request(stage: Stage):
    talked = talk(stage, Scripted("Look.", "Go on."), stage.script(call("list_files"), {"text": "Done."}, ends()))
    told = stage.call("trace", "stats", talked.run_dir, "--simulate", "claude-sonnet-5-5").stdout
    rows = [line.split() for line in told.partition("request  steps")[2].splitlines()[1:]]
    assert [row[:2] for row in rows] == [["1", "2"], ["2", "1"]]
    cache = json.loads(
        stage.call("trace", "stats", talked.run_dir, "--simulate", "claude-sonnet-5-5", "--json").stdout
    )["cache"]
    assert sum(one["usage"]["output"] for one in cache["requests"]) == cache["bill"]["usage"]["output"]
    assert [step["request"] for step in cache["steps"]] == [1, 1, 2]
    alone = stage.call("trace", "stats", stage.solve(stage.task(ends())).run_dir, "--simulate", "claude-sonnet-5-5")
    assert "looks repeated" not in alone.stdout
