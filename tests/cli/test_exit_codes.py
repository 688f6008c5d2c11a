"""Tests every exit code of the program, and that help documents it."""

import json
import re
import signal
import sys

import pytest
from msgspec.structs import replace

from stackmem.core.facts import FramePushed, ModelReplied, ToolReturned
from tests.stage import UNSOLVED, Stage, command, eventually, fails, pop, push, rechain, records

CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 130, 143)


def test_the_help_names_every_exit_code(stage: Stage):
    shown = " ".join(stage.call("--help").stdout.split()).partition("Exit codes:")[2]
    assert tuple(map(int, re.findall(r"(?:^|;) (\d+) ", shown))) == CODES


@pytest.mark.parametrize(
    ("replies", "test", "flags", "code", "outcome"),
    [
        ([pop()], None, [], 0, "solved"),
        ([pop()], UNSOLVED, [], 1, "unsolved"),
        ([pop()], "exit 0\n", [], 1, "unsolved"),
        ([{"text": "Hm."}] * 3, UNSOLVED, [], 1, "unsolved"),
        ([command("true")] * 3, UNSOLVED, ["--max-steps", 2], 3, "unsolved"),
        ([command("true")], None, [], 4, "model_error"),
        ([{**pop(), "expect": {"depth": 9}}], None, [], 4, "model_error"),
    ],
    ids=["solved", "unsolved", "no reward", "stalled", "limit", "dry", "expect"],
)
def test_a_runs_ending_is_its_exit_code(stage: Stage, replies, test, flags, code, outcome):
    task = stage.task(*replies, **({"test": test} if test else {}))
    ran = stage.call("solve", task, "--model", "demo", "--json", "--quiet", *flags)
    assert (ran.returncode, json.loads(ran.stdout)["outcome"]) == (code, outcome)


def test_finished_without_checks_is_0(stage: Stage):
    ran = stage.call("solve", ".", "-t", "Do it.", "--model", stage.script(pop()))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("finished, not checked (popped)")


def test_a_failed_expectation_shows_its_diff_on_stderr(stage: Stage):
    task = stage.task({**pop(), "expect": {"contains": "Build a pocket calculator"}}, text="Build a calculator.\n")
    ran = stage.call("solve", task, "--model", "demo", "--json", "--quiet")
    assert ran.returncode == 4
    assert "expected otherwise" in ran.stderr
    assert "contains: the prompt has no 'Build a pocket calculator'" in ran.stderr
    assert "Build a calculator" in ran.stderr
    assert json.loads(ran.stdout)["failure"].strip() in ran.stderr.removeprefix("stackmem: ")


def test_an_isolation_that_cannot_be_had_is_5_and_leaves_nothing(stage: Stage):
    """The home folder must be hidden from commands, but Python is installed inside it."""
    ran = stage.run("solve", stage.task(pop()), "--model", "demo", env={"HOME": sys.base_prefix})
    assert (ran.returncode, ran.stdout) == (5, "")
    assert "run stackmem with a Python in a separate folder" in ran.stderr
    assert stage.left_behind() == []


@pytest.fixture
def run(stage: Stage):
    """Return a finished run's folder, and the output and exit code of ``replay``."""
    result = stage.solve(stage.task(fails("429"), push(), command("echo hi"), pop(), pop()))
    return stage.only_run(), lambda: stage.call("replay", result.run, "--json")


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        (FramePushed, {"intent": "Do something else."}, "recorded FramePushed"),
        (ModelReplied, {"prompt_digest": "0" * 64}, "the prompt differs"),
        (ToolReturned, {"text": "bye"}, "the prompt differs"),
    ],
)
def test_a_whole_chain_that_the_rules_do_not_derive_is_6(run, kind, changes, says):
    folder, replayed = run
    kept = records(folder)
    index = next(index for index, record in enumerate(kept) if isinstance(record.event, kind))
    kept[index] = replace(kept[index], event=replace(kept[index].event, **changes))
    rechain(folder / "trace.jsonl", kept)
    ran = replayed()
    assert ran.returncode == 6
    assert says in json.loads(ran.stdout)["error"]
    assert "Traceback" not in ran.stderr


def broken(lines: list[bytes]) -> dict[str, list[bytes]]:
    flipped = bytearray(lines[4])
    flipped[len(flipped) // 2] ^= 4
    return {
        "flipped": [*lines[:4], bytes(flipped), *lines[5:]],
        "doubled": [*lines[:3], lines[2], *lines[3:]],
        "missing": [*lines[:3], *lines[4:]],
        "swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "empty": [],
        "garbage": [b"\x00\xff garbage\n"],
        "no start": lines[1:],
    }


@pytest.mark.parametrize("how", list(broken([b"....."] * 6)))
def test_a_broken_trace_is_7(run, how):
    folder, replayed = run
    trace = folder / "trace.jsonl"
    trace.write_bytes(b"".join(broken(trace.read_bytes().splitlines(keepends=True))[how]))
    ran = replayed()
    assert ran.returncode == 7
    assert json.loads(ran.stdout)["outcome"] == "error"
    assert ran.stderr.count("\n") == 1


def test_a_torn_last_line_is_reported_without_an_error(run):
    folder, replayed = run
    trace = folder / "trace.jsonl"
    lines = trace.read_bytes().splitlines(keepends=True)
    trace.write_bytes(b"".join(lines[:-1]) + lines[-1][:30])
    assert replayed().returncode == 7  # the result was saved after that line was written, so the line is missing
    for name in ("result.json", "signatures.jsonl"):
        (folder / name).unlink()  # as if a crash cut the run short before it was signed
    ran = replayed()
    assert ran.returncode == 0
    told = json.loads(ran.stdout)
    assert (told["torn_bytes"], told["events"]) == (30, len(lines) - 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_was_stopped_ends_with_its_signals_code(stage: Stage, number, code):
    process = stage.start("solve", stage.task(command("sleep 60"), pop()), "--model", "demo", "--json", "--quiet")
    eventually(lambda: stage.written() == 2)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=100)
    assert process.returncode == code, stderr
    assert json.loads(stdout)["ending"] == "interrupted"
