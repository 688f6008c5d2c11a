"""Every kind of mending is a fact of the run: replay, resume, fork and export keep it, and the statistics count it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem import open_run, replay
from stackmem.core.facts import ModelReplied
from stackmem.run.fork import ForkChanges, fork
from stackmem.run.resume import resume
from tests.providers.chat_server import ChatServer, call_piece, chunks
from tests.run.killed import stackmem_environ
from tests.stage import SOLVED, Stage, events

KINDS = {
    "a refused field": "sent the request without parallel_tool_calls",
    "a repeated id": "renamed the call id 'c' to call_1_0, because it was used before",
    "almost JSON": "faults that have one meaning",
    "a number as text": "read start_line '1' as 1",
    "a part of no use": "left out a part of the kind 'image_url'",
    "a second choice": "took the calls from choice 1 of the reply",
}


def read(arguments: str, identity: str = "c") -> dict[str, object]:
    return call_piece(arguments, id=identity, name="read_file")


def in_choice(number: int, delta: dict[str, object]) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': number, 'delta': delta}]})}\n\n".encode()


ODD = (
    chunks(read('{"path": "a.txt"}'), finish="tool_calls"),
    chunks(read('{"path": "a.txt",}'), finish="tool_calls"),
    chunks(read('{"path": "a.txt", "start_line": "1"}', "d"), finish="tool_calls"),
    chunks({"content": [{"type": "image_url", "image_url": {"url": "u"}}]}, read('{"path": "a.txt"}', "e"),
           finish="tool_calls"),
    in_choice(0, {"content": "I look."}) + in_choice(1, read('{"path": "b.txt"}', "f"))
    + chunks(finish="tool_calls"),
)  # fmt: skip
LAST = chunks(call_piece('{"result": "Done."}', id="g", name="pop_frame"), finish="tool_calls")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(*ODD, LAST, *[LAST] * 5, unknown=("parallel_tool_calls",)) as server:
        yield server


@pytest.fixture
def run(stage: Stage, server: ChatServer) -> Path:
    """Return a run that a limit stopped after its odd replies."""
    task = stage.task(test=SOLVED, files={"a.txt": "a\n", "b.txt": "b\n"})
    result = stage.solve(task, model="llamacpp/odd", base_url=f"{server.url}/v1", max_steps=len(ODD), strategy="full")
    assert result.ending == "limit:steps"
    return Path(result.run_dir)


def mendings(run: str | Path) -> str:
    replies = events(run, ModelReplied)
    lists = [notes for reply in replies for notes in (reply.mended, reply.repairs) if isinstance(notes, tuple)]
    return "\n".join(note for notes in lists for note in notes)


def counted(stage: Stage, run: str | Path) -> int:
    printed = stage.call("trace", "stats", str(run), "--json")
    assert printed.returncode == 0, printed.stderr
    return json.loads(printed.stdout)["metrics"]["mendings"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mending_is_a_fact_with_its_reason(run: Path, kind: str) -> None:
    assert KINDS[kind] in mendings(run)


def test_replay_has_the_same_prompts_without_the_server(run: Path, server: ChatServer) -> None:
    before = len(server.bodies)
    assert replay(run).prompts == len(ODD)
    assert len(server.bodies) == before


def test_the_statistics_count_each_mending(stage: Stage, run: Path) -> None:
    assert counted(stage, run) == len(mendings(run).splitlines()) >= len(KINDS)


def test_a_resumed_run_keeps_its_mendings_and_its_ids(stage: Stage, run: Path, server: ChatServer) -> None:
    before = mendings(run)
    again = resume(run, {"max_steps": "+5"}, stackmem_environ()).result
    assert again.outcome == "solved"
    assert mendings(run).startswith(before)
    assert replay(run).outcome == "solved"
    sent = [call["id"] for message in server.bodies[-1]["messages"] for call in message.get("tool_calls", ())]
    assert len(sent) == len(set(sent)) == len(ODD)
    assert counted(stage, run) == len(mendings(run).splitlines())


def test_a_fork_starts_with_the_mendings_before_its_cut(run: Path, server: ChatServer) -> None:
    child = fork(run, 3, ForkChanges(), os.environ).result
    assert replay(child.run_dir).prompts >= 4
    digests = [
        [record.event.prompt_digest for record in open_run(one).records() if isinstance(record.event, ModelReplied)]
        for one in (run, child.run_dir)
    ]
    assert digests[0][:4] == digests[1][:4]
    assert KINDS["a repeated id"] in mendings(run)


@pytest.mark.parametrize(
    ("form", "more"), [("atif", ()), ("otel", ("--content",)), ("mini", ())], ids=["atif", "otel", "mini"]
)
def test_an_export_has_each_mending(stage: Stage, run: Path, form: str, more: tuple[str, ...]) -> None:
    printed = stage.call("export", str(run), "--format", form, *more)
    assert printed.returncode == 0, printed.stderr
    assert all(words in printed.stdout for words in KINDS.values()), printed.stdout


def test_spans_without_content_count_mendings(stage: Stage, run: Path) -> None:
    printed = stage.call("export", str(run), "--format", "otel")
    assert "stackmem.mendings" in printed.stdout
    assert KINDS["almost JSON"] not in printed.stdout
