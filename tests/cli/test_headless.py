"""Tests for work without a terminal: standard input, one request of a conversation, and the stream of events."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from stackmem import replay
from stackmem.cli.screen.event_stream import stream_schema
from stackmem.core.facts import Event, ToolReturned
from stackmem.core.person_facts import PersonDecided, PersonSaid
from tests.groups import group_script, together
from tests.stage import ROOT, Stage, call, command, events, mounted, pop

SCHEMA = json.loads((ROOT / "docs" / "stream-json.schema.json").read_text("utf-8"))


def says(text: str) -> dict[str, Any]:
    return {"text": text}


@pytest.fixture
def mine(stage: Stage) -> Path:
    folder = stage.root / "mine"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def run(stage: Stage, *arguments: object, stdin: bytes | int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    ran = subprocess.run(
        stage.arguments(*arguments), cwd=stage.elsewhere, env=stage.environ(), capture_output=True, timeout=100,
        check=False, **given,
    )  # fmt: skip
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def lines_of(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the lines of a stream, each of which must fit the published schema."""
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    for line in lines:
        Draft202012Validator(SCHEMA).validate(line)
    return lines


def test_one_request_prints_the_answer_alone_on_stdout(stage: Stage, mine: Path):
    ran = run(stage, "chat", mine, "-p", "How many lines?", "--model", stage.script(says("One.")), "--network", "none")
    assert (ran.returncode, ran.stdout) == (0, "One.\n")
    assert f"continue with: stackmem chat --resume {stage.only_run().name}" in ran.stderr
    assert [event.text for event in events(stage.only_run(), PersonSaid)] == ["How many lines?"]
    replay(stage.only_run())


def test_piped_data_follows_the_request_and_a_dash_is_the_request(stage: Stage, mine: Path):
    script = stage.script(says("Fine."))
    given = ("chat", mine, "--model", script, "--network", "none", "--quiet")
    run(stage, *given, "-p", "Review this.", stdin=b"$(touch /tmp/no) `x`\n")
    (said,) = events(stage.only_run(), PersonSaid)
    assert said.text == "Review this.\n\n<standard-input>\n$(touch /tmp/no) `x`\n\n</standard-input>"
    stage.runs = stage.root / "more"
    run(stage, *given, "-p", "-", stdin="Grüße\n".encode())
    assert [event.text for event in events(stage.only_run(), PersonSaid)] == ["Grüße\n"]


def test_a_task_is_read_from_standard_input(stage: Stage, mine: Path):
    script = stage.script(pop("Done."))
    ran = run(stage, "solve", mine, "-t", "-", "--model", script, "--json", stdin=b"Do it; rm -rf x\n")
    assert (ran.returncode, json.loads(ran.stdout)["result"]) == (0, "Done.")
    started = (stage.only_run() / "trace.jsonl").read_text("utf-8").splitlines()[0]
    assert "Do it; rm -rf x" in started


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        (b"", "standard input is empty"),
        (b" \n", "standard input is empty"),
        (b"\xff\xfe", "not UTF-8 text (byte 0)"),
        (b"a\0b", "contains a NUL byte"),
        (b"x" * ((1 << 20) + 1), "over 1 MiB"),
    ],
    ids=["nothing", "blank", "binary", "nul", "long"],
)
def test_input_that_is_not_a_text_is_refused_before_a_run(stage: Stage, mine: Path, stdin, says):
    for arguments in (["solve", mine, "-t", "-"], ["chat", mine, "-p", "-"]):
        ran = run(stage, *arguments, "--model", stage.script(pop()), stdin=stdin)
        assert ran.returncode == 2
        assert says in ran.stderr
        assert "Traceback" not in ran.stderr
    assert stage.left_behind() == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-p", ""], "-p has an empty text"),
        (["--json"], "--json needs a request"),
        (["--stream-json"], "--stream-json needs a request"),
        (["-p", "x", "--json", "--stream-json"], "exclude each other"),
        ([], "stackmem chat FOLDER -p TEXT"),
    ],
)
def test_flags_that_do_not_fit_are_refused(stage: Stage, mine: Path, arguments, says):
    ran = run(stage, "chat", mine, *arguments)
    assert (ran.returncode, says in ran.stderr) == (2, True)


def test_every_line_of_the_stream_fits_the_schema_and_the_last_has_the_result(stage: Stage, mine: Path):
    script = stage.script(command("echo hi"), call("read_file", path="nope"), pop("All done."))
    ran = run(stage, "solve", mine, "-t", "Do it.", "--model", script, "--stream-json", "--network", "none")
    lines = lines_of(ran)
    assert ran.returncode == 0, ran.stderr
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["v"] for line in lines} == {1}
    assert [line["type"] for line in lines] == ["start", *["event"] * (len(lines) - 2), "result"]
    run_dir = stage.only_run()
    assert lines[0]["run"] == run_dir.name
    recorded = events(run_dir, *Event.__args__)  # type: ignore[attr-defined]
    assert [line["fact"] for line in lines[1:-1]] == [type(event).__name__ for event in recorded]
    assert [line["text"] for line in lines if line.get("fact") == "ToolReturned"] == [
        event.text for event in events(run_dir, ToolReturned)
    ]
    assert [line["failed"] for line in lines if line.get("fact") == "ToolReturned"] == [False, True]
    assert next(line["calls"] for line in lines if line.get("fact") == "ModelReplied") == [
        {"name": "run_command", "arguments": {"command": "echo hi"}}
    ]
    assert (lines[-1]["answer"], lines[-1]["exit_code"]) == ("All done.", 0)
    assert lines[-1]["result"]["run"] == run_dir.name


def test_an_error_is_the_last_line_of_the_stream(stage: Stage):
    ran = run(stage, "solve", stage.root / "missing", "-t", "x", "--stream-json")
    (line,) = lines_of(ran)
    assert (line["type"], line["exit_code"], ran.returncode) == ("error", 2, 2)
    assert line["error"] in ran.stderr


def test_the_published_schema_is_that_of_the_code():
    assert json.loads(json.dumps(stream_schema())) == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)
    wrong = {"type": "event", "n": 1, "v": 1, "fact": "ModelReplied"}
    assert not Draft202012Validator(SCHEMA).is_valid(wrong)
    assert not Draft202012Validator(SCHEMA).is_valid({"type": "error", "error": "x", "exit_code": 2, "n": 0, "v": 2})


def test_a_question_ends_with_8_and_the_next_request_answers_it(stage: Stage, mine: Path):
    script = stage.script(call("ask_user", question="Which file?"), says("Mended."))
    given = ("--network", "none", "--quiet")
    ran = run(stage, "chat", mine, "-p", "Mend it.", "--model", script, *given)
    assert (ran.returncode, ran.stdout) == (8, "Which file?\n"), ran.stderr
    again = run(stage, "chat", mine, "--continue", "-p", "a.txt", "--quiet")
    assert (again.returncode, again.stdout) == (0, "Mended.\n"), again.stderr
    replay(stage.only_run())


def test_a_conversation_is_continued_with_a_second_request(stage: Stage, mine: Path):
    script = stage.script(says("First."), says("Second."))
    run(stage, "chat", mine, "-p", "One.", "--model", script, "--network", "none", "--quiet")
    again = run(stage, "chat", mine, "--continue", "-p", "Two.", "--stream-json", "--quiet")
    assert again.returncode == 0, again.stderr
    assert lines_of(again)[-1]["answer"] == "Second."
    assert [event.text for event in events(stage.only_run(), PersonSaid)] == ["One.", "Two."]


def test_a_call_that_needs_approval_is_denied(stage: Stage, mine: Path):
    script = stage.script(call("write_file", path="a.txt", content="two\n"), says("It was not allowed."))
    given = ("--model", script, "--network", "none", "--approve", "writes", "--json", "--quiet")
    ran = run(stage, "chat", mine, "-p", "Write it.", *given)
    result = json.loads(ran.stdout)
    assert (result["result"], result["changed"], ran.returncode) == ("It was not allowed.", [], 0)
    assert [event.allow for event in events(stage.only_run(), PersonDecided)] == [False]


def test_a_reader_that_goes_away_interrupts_the_run_in_good_order(stage: Stage, mine: Path):
    script = stage.script(*[command("sleep 0.2")] * 40, pop("Done."))
    started = stage.start(
        "solve", mine, "-t", "Do it.", "--model", script, "--stream-json", "--network", "none", "--quiet"
    )
    assert started.stdout is not None
    assert json.loads(started.stdout.readline())["type"] == "start"
    started.stdout.close()
    assert started.wait(60) == 130
    assert started.stderr is not None
    assert "Traceback" not in started.stderr.read()
    started.stderr.close()
    assert json.loads((stage.only_run() / "result.json").read_text())["ending"] == "interrupted"
    replay(stage.only_run())


def test_a_pipe_that_stays_open_says_what_it_waits_for(stage: Stage, mine: Path):
    reads, writes = os.pipe()
    script = stage.script(says("Read."))
    started = stage.start("chat", mine, "-p", "Go.", "--model", script, "--network", "none", stdin=reads)
    os.close(reads)
    assert started.stderr is not None
    assert "reading standard input until its end" in started.stderr.readline()
    os.close(writes)
    out, _ = started.communicate(timeout=60)
    assert (started.returncode, out) == (0, "Read.\n")


@mounted
def test_the_stream_has_a_line_for_each_fact_of_a_parallel_frame(stage: Stage, mine: Path):
    frames = {name: [call("write_file", path="a.txt", content=name), pop(f"Did {name}.")] for name in "ab"}
    script = group_script(stage, [together("a", "b"), pop("Done.")], frames)
    given = ("--model", script, "--stream-json", "--network", "none", "--parallel-frames", "2")
    for arguments in (["solve", mine, "-t", "Do it.", "--strategy", "stackheap"], ["chat", mine, "-p", "Do it."]):
        ran = run(stage, *arguments, *given)
        lines = lines_of(ran)
        assert ran.returncode == 0, ran.stderr
        assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
        start, *_, last = lines
        assert (start["type"], last["type"], last["answer"]) == ("start", "result", "Done.")
        for name, end in (("a", "merged"), ("b", "conflict")):
            own = [line for line in lines if line["type"] == "frame" and line["name"] == name]
            facts = [type(event).__name__ for event in events(stage.runs / own[0]["run"])]
            assert [line["fact"] for line in own] == [*facts, "FramesMerged"]
            assert own[0]["run"] == f"{start['run']}.{own[0]['frame']}"
            assert [own[-2]["status"], own[-1]["status"]] == ["done", end]
            assert (own[-1]["steps"], own[-1]["failed"]) == (2, name == "b")
            assert [each["name"] for line in own for each in line["calls"]] == ["write_file", "pop_frame"]
            assert own[-1]["line"] == ("conflict in a.txt" if name == "b" else "merged")
