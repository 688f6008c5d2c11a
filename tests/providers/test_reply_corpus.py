"""Recorded replies of real models, replayed through the reader and the machine.

Calls are performed or answered with a correction, and answers are not performed. A row of ``corpus/replies.jsonl`` is a
reply by Qwen2.5-Coder with a label: ``call`` with the intended name and arguments, ``answer``, or ``unreadable``.
Replies that are one valid JSON call were labelled by a script, the others by reading them. ``explains`` marks a call
that an explanation follows. ``scripts/reply_corpus.py`` takes more rows from recordings.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts.reply_corpus import replies
from stackmem.core.budgets import Budgets
from stackmem.core.facts import CallRejected, ModelReplied, ReplyNudged
from stackmem.core.messages import Text, ToolCall, ToolSpec, Usage
from stackmem.core.requests import AskModel
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import CALLS
from stackmem.providers.calls.text_calls import with_calls
from stackmem.run.run_folder import EXCHANGES
from tests.build import play, slots, started
from tests.doors.gateway.test_telling import Tape

CORPUS = Path(__file__).parent / "corpus" / "replies.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
CALL_ROWS = [row for row in ROWS if row["label"] == "call"]
OTHER_ROWS = [row for row in ROWS if row["label"] != "call"]
MIN_SHARE = 0.95


def tools_of(row: dict[str, Any]) -> tuple[ToolSpec, ...]:
    return tuple(spec(CALLS[name], slots(Budgets())) for name in row["tools"])


def read(row: dict[str, Any], *, expects: str) -> ModelReplied:
    """Return the reply as a run records it; a reply cut by the recording's limit is read up to there."""
    begun = started("full", tools=tools_of(row))
    asked: AskModel = play(start=begun).asked[0]
    said = ModelReplied((Text(row["text"]),), "end", Usage(output=1))
    return with_calls(said, AskModel(asked.view, step=1, facts=0, expects=expects))


def comes_to(row: dict[str, Any]) -> str:
    """Return the machine's reaction: ``performed``, the code of a refusal, or ``nudged``."""
    played = play(read(row, expects="call"), start=started("full", tools=tools_of(row)))
    following = next((event for event in played.events if isinstance(event, CallRejected | ReplyNudged)), None)
    if isinstance(following, ReplyNudged):
        return "nudged"
    return following.code if isinstance(following, CallRejected) else "performed"


def first_call(reply: ModelReplied) -> ToolCall | None:
    return next((part for part in reply.parts if isinstance(part, ToolCall)), None)


def test_calls_are_performed_or_answered_with_a_lesson(record_property):
    outcomes = [comes_to(row) for row in CALL_ROWS]
    named = exact = 0
    for row in CALL_ROWS:
        call = first_call(read(row, expects="call"))
        named += call is not None and call.name == row["name"]
        exact += call is not None and (call.name, call.arguments) == (row["name"], row["arguments"])
    share = named / len(CALL_ROWS)
    counted = {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
    record_property("share_of_calls_accepted", share)
    sys.stdout.write(
        f"\n{len(CALL_ROWS)} calls: {named} read ({share:.1%}), {exact} with exactly the arguments meant; {counted}\n"
    )
    assert share >= MIN_SHARE
    assert outcomes.count("nudged") <= len(CALL_ROWS) * (1 - MIN_SHARE)


@pytest.mark.parametrize("expects", ["call", "any"])
def test_no_answer_is_performed(expects: str):
    performed = [row["text"] for row in OTHER_ROWS if first_call(read(row, expects=expects)) is not None]
    assert performed == []


def test_a_conversation_shows_a_recorded_call_only_within_an_explanation():
    """A reply that explains further after its calls could be an answer that quotes them, so a user reads it."""
    shown = [
        row["text"] for row in CALL_ROWS if row["name"] in row["tools"] and not first_call(read(row, expects="any"))
    ]
    assert shown == [row["text"] for row in CALL_ROWS if row.get("explains")]


def test_rows_are_labelled_differ_and_say_nothing_of_a_machine():
    assert {row["label"] for row in ROWS} <= {"call", "answer", "unreadable"}
    assert len({(row["model"], row["text"]) for row in ROWS}) == len(ROWS)
    assert not re.search(r"/(?:tmp|home|root|Users|work)/", CORPUS.read_text("utf-8"))


def test_the_script_takes_replies_out_of_a_recording_without_this_machines_folders(tmp_path: Path):
    tape = Tape()
    tools = (ToolSpec("read_file", "", "{}"),)
    written = '{"name": "read_file", "arguments": {"path": "/home/ann/project/a.py"}}'
    tape.turn(Text("Go."), reply=(Text(written),), kind="new", wire="openai-chat", tools=tools)
    tape.turn(Text("On."), reply=(ToolCall("c", "read_file", {}),), wire="openai-chat")
    (tmp_path / EXCHANGES).write_bytes(b"".join(msgspec.json.encode(passed) + b"\n" for passed in tape.passed))
    assert list(replies(tmp_path / EXCHANGES, "m")) == [
        {"model": "m", "tools": ["read_file"], "stop": "end", "text": written.replace("/home/ann/project", "/project"),
         "label": ""}
    ]  # fmt: skip
