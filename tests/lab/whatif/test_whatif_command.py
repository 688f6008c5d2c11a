"""``stackmem whatif`` prints a table for each recording, or one array, and accepts other agents' files unchanged."""

import json

import pytest

from stackmem.lab.whatif.recorded import WhatIfQuestion, parse_strategies, what_if
from stackmem.memory import STRATEGIES, open_strategy
from tests.formats.test_recordings import FILES, SAMPLES
from tests.stage import ROOT, Stage
from tests.trace.stories import keep, told


@pytest.fixture
def run(stage: Stage):
    return keep(stage.runs / "a-run", told("calculator"))


def test_a_run_is_a_row_for_each_strategy_after_the_answer_the_cheapest_first(stage, run):
    ran = stage.call("whatif", "last", "--strategies", "full,stackheap", "--price", "claude-opus-4-8")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == "full would cost 19 % less than stackheap, which was recorded."
    assert lines[1] == "a-run: 14 steps, 2 frames"
    assert lines[2].startswith("prices and cache of claude-opus-4-8, tokens counted as")
    assert [line.split()[0] for line in lines[5:8]] == ["strategy", "full", "stackheap"]
    assert "2 frames as one conversation" in lines[6]
    assert "~" not in ran.stdout


def test_a_missing_summary_makes_its_row_an_estimate(stage, run):
    ran = stage.call("whatif", "last", "--strategies", "rolling_summary:2")
    assert "~ an estimate: summaries are not recorded" in ran.stdout
    row = next(line for line in ran.stdout.splitlines() if line.startswith("rolling_summary"))
    assert "summaries" in row
    assert row.split()[1].startswith("~")


def test_json_holds_every_figure_of_every_recording(stage, run):
    ran = stage.call("whatif", "last", SAMPLES / "mini.traj.json", "--json", "--latency", "30")
    own, other = json.loads(ran.stdout)
    assert {row["strategy"].split(":")[0] for row in own["rows"]} == set(STRATEGIES)
    first = own["rows"][0]
    assert (first["recorded"], first["ratio"]) == (True, 1.0)
    assert set(first["outcome"]) >= {"peak_tokens", "mean_tokens", "usage", "usd", "loss", "summaries", "too_long_from"}
    assert (own["imported"], own["latency_seconds"]) == ("", 30.0)
    assert other["imported"].startswith("mini")


def test_several_recordings_also_get_a_combined_table(stage, run):
    keep(stage.runs / "b-run", told("mishaps-full"))
    ran = stage.call("whatif", "a-run", "b-run", "--strategies", "full,stackheap,rolling_summary:2")
    text = ran.stdout[ran.stdout.index("2 recordings in total") :]
    assert [line.split()[:2] for line in text.splitlines()[3:]] == [
        ["stackheap", "2"], ["full", "2"], ["rolling_summary:turns=2", "2"],
    ]  # fmt: skip
    each = [one for name in ("a-run", "b-run") for one in what_if(name, stage.runs, WhatIfQuestion(("full",)))]
    bills = [row.outcome.usd for found in each for row in found.rows if row.strategy == "full"]
    assert f"${sum(bills):,.4f}" in text


@pytest.mark.parametrize("name", FILES)
def test_another_agents_file_is_analyzed_but_not_stored(stage, name):
    (found,) = what_if(str(SAMPLES / FILES[name]), stage.runs, WhatIfQuestion(("window:2", "full")))
    assert found.imported.startswith(name)
    assert {row.strategy for row in found.rows} >= {"full", open_strategy("window:2").name}
    assert not stage.runs.exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("full", ("full",)),
        ("full, stackheap", ("full", "stackheap")),
        ("mask:10,poll=5,full", ("mask:10,poll=5", "full")),
        ("stackheap:index=tail,window:7,step=1,full,full", ("stackheap:index=tail", "window:7,step=1", "full")),
    ],
)
def test_a_comma_within_parameters_separates_nothing(text, names):
    assert parse_strategies(text) == tuple(open_strategy(name).name for name in names)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["last", "--strategies", "nonsense"], "no strategy 'nonsense'"),
        (["last", "--strategies", ""], "no strategy ''"),
        (["last", "--price", "nobody"], "no model 'nobody' in the price table"),
        (["nothing-like-it"], "no run 'nothing-like-it'"),
        ([SAMPLES / "README.md"], "has an unknown format"),
        (["last", "--latency", "-1"], "latency"),
        (["last", "--latency", "inf"], "latency"),
        ([], "missing argument"),
    ],
)
def test_impossible_requests_print_one_sentence(stage, run, arguments, says):
    ran = stage.call("whatif", *arguments)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_run_without_a_reply_has_nothing_to_tell(stage):
    keep(stage.runs / "begun", told("calculator")[:1])
    ran = stage.call("whatif", "begun")
    assert ran.returncode == 2
    assert "begun does not contain replies of a model" in ran.stderr


@pytest.mark.parametrize("command", [("whatif",), ("trace", "show"), ("trace", "stats")])
def test_a_trace_whose_first_record_was_cut_short_is_one_sentence(stage, command):
    keep(stage.runs / "torn", told("calculator")[:1])
    trace = stage.runs / "torn" / "trace.jsonl"
    trace.write_bytes(trace.read_bytes()[:-20])
    ran = stage.call(*command, "torn")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (7, 1)
    assert "the run torn never began and has no records" in ran.stderr


def test_a_strategy_that_does_not_apply_has_a_row_that_says_why(stage):
    program = ROOT / "examples" / "sexp" / "repair-loop"
    assert stage.call("run", str(program), "--model", f"script:{program / 'script.yaml'}").returncode == 0
    ran = stage.call("whatif", "last", "--strategies", "full,stack")
    assert ran.returncode == 0, ran.stderr
    full, stack = (
        next(line for line in ran.stdout.splitlines() if line.startswith(name)) for name in ("full ", "stack ")
    )
    assert full.split(maxsplit=1) == ["full", "does not apply: frames of a program have separate tasks"]
    assert "of the program with its own prompts" in stack
