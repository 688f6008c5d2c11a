"""Sessions of aider, pi, opencode and Goose, and lines of Claude Code that are written twice or were rewound."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.formats.recordings import IMPORTERS, guess
from stackmem.formats.recordings.session import RecordedReply, RecordedSession, RecordedText, RecordingFile

Json = dict[str, Any]


def read(text: str, kind: str) -> list[RecordedSession]:
    file = RecordingFile(text.encode(), "file")
    assert guess(file) == kind
    return IMPORTERS[kind](file)


def lines(*values: Json) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def replies(session: RecordedSession) -> list[RecordedReply]:
    return [turn for turn in session.turns if isinstance(turn, RecordedReply)]


AIDER = """
# aider chat started at 2026-03-01 10:00:00

> /usr/bin/aider --model sonnet
> Aider v0.86.1
> Main model: claude-sonnet-4 with diff edit format

#### rename the function
#### and its test

I rename it.

app.py
```python
<<<<<<< SEARCH
def a():
=======
def b():
>>>>>>> REPLACE
```

> Tokens: 2.5k sent, 1.0k cache write, 500 cache hit, 120 received. Cost: $0.01 message, $0.01 session.
> Applied edit to app.py

#### thanks

You are welcome.

> Tokens: 2.6k sent, 9 received. Cost: $0.02 message, $0.03 session.

# aider chat started at 2026-03-02 10:00:00

> Aider v0.86.1

# aider chat started at 2026-03-03 10:00:00

#### hello

Hi.
"""


def test_each_chat_of_aider_with_a_reply_is_a_session() -> None:
    first, last = read(AIDER, "aider")
    assert (first.origin, first.model, first.task) == (
        "aider 0.86.1", "claude-sonnet-4", "rename the function\nand its test",
    )  # fmt: skip
    one, two = replies(first)
    assert "<<<<<<< SEARCH" in str(one.parts)
    assert one.usage == Usage(uncached=1_000, cache_write_5m=1_000, cache_read=500, output=120)
    assert (two.usage.output, first.usd) == (9, 0.03)
    assert [turn.text for turn in first.turns if isinstance(turn, RecordedText)] == ["thanks"]
    assert (last.task, last.model, len(replies(last))) == ("hello", "", 1)
    assert any("in the text of its replies" in note for note in first.left_out)


PI = [
    {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-04-06T04:00:00.000Z", "cwd": "/w"},
    {"type": "model_change", "id": "m", "parentId": None, "modelId": "gpt-5"},
    {"type": "message", "id": "a", "parentId": "m", "message": {"role": "user", "content": "look"}},
    {"type": "message", "id": "b", "parentId": "a", "message": {
        "role": "assistant", "model": "gpt-5", "stopReason": "toolUse", "timestamp": 1775448000200,
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "toolCall", "id": "c1", "name": "read",
                                                             "arguments": {"path": "p"}}],
        "usage": {"input": 10, "output": 20, "cacheRead": 3, "cacheWrite": 1, "cost": {"total": 0.5}}}},
    {"type": "message", "id": "c", "parentId": "b", "message": {
        "role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "found"}], "isError": True}},
    {"type": "message", "id": "x", "parentId": "c", "message": {"role": "assistant", "content": "left"}},
    {"type": "message", "id": "d", "parentId": "c", "message": {"role": "assistant", "content": "done",
                                                                "stopReason": "stop"}},
]  # fmt: skip


def test_the_last_branch_of_a_session_of_pi_is_read() -> None:
    (session,) = read(lines(*PI), "pi")
    call, done = replies(session)
    assert (session.id, session.workspace, session.task) == ("s1", "/w", "look")
    assert [each.name for each in call.calls] == ["read"]
    assert (call.usage, call.usd, call.stop) == (Usage(10, 3, 1, 0, 20), 0.5, "call")
    assert [(answer.text, answer.failed) for answer in call.answers] == [("found", True)]
    assert "done" in str(done.parts)
    assert "1 entries of branches that the user left (rewound)" in session.left_out
    assert "entries of the kind 'model_change': 1" in session.left_out


def step(*parts: Json, **tokens: Any) -> list[Json]:
    return [{"type": "step-start"}, *parts, {"type": "step-finish", "cost": 0.25, "tokens": tokens}]


TOOL = {"type": "tool", "callID": "c1", "tool": "bash", "state": {"status": "error", "input": {"command": "ls"},
                                                                "error": "no"}}  # fmt: skip


OPENCODE = {"info": {"id": "ses_1", "version": "1.4.3", "directory": "/w"}, "messages": [
    {"info": {"role": "user", "time": {"created": 1000}}, "parts": [{"type": "text", "text": "fix it"}]},
    {"info": {"role": "assistant", "modelID": "m", "cost": 0.5, "tokens": {"input": 1}}, "parts": [
        *step({"type": "reasoning", "text": "hm"}, TOOL, input=10, output=5, reasoning=2,
              cache={"read": 100, "write": 7}),
        {"type": "patch", "files": []},
        *step({"type": "text", "text": "ok"}, input=3, output=1)]},
]}  # fmt: skip


def test_an_export_of_opencode_has_a_reply_for_each_step() -> None:
    (session,) = read(json.dumps(OPENCODE), "opencode")
    first, last = replies(session)
    assert (session.task, session.model, session.began) == ("fix it", "m", 1.0)
    assert (first.usage, first.usd) == (Usage(10, 100, 7, 0, 7), 0.25)
    assert [(answer.call_id, answer.text, answer.failed) for answer in first.answers] == [("c1", "no", True)]
    assert last.usage == Usage(uncached=3, output=1)
    assert session.left_out == ["parts of the kind 'patch': 1"]


GOOSE = [
    {"role": "user", "created": 5, "content": [{"type": "text", "text": "list"}]},
    {"role": "assistant", "created": 6, "content": [
        {"type": "toolRequest", "id": "c1", "toolCall": {"status": "success", "value": {
            "name": "developer__shell", "arguments": {"command": "ls"}}}}]},
    {"role": "user", "created": 7, "content": [{"type": "toolResponse", "id": "c1", "toolResult": {
        "status": "success", "value": [{"type": "text", "text": "a.txt"}]}}]},
    {"role": "assistant", "created": 8, "content": [{"type": "text", "text": "One file."}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        lines({"working_dir": "/w", "description": "d", "message_count": 4, "total_tokens": 9}, *GOOSE),
        json.dumps({"id": "g", "working_dir": "/w", "conversation": GOOSE, "model_config": {"model_name": "m"}}),
    ],
)
def test_a_session_of_goose_is_read_in_both_forms(text: str) -> None:
    (session,) = read(text, "goose")
    call, done = replies(session)
    assert (session.workspace, session.task) == ("/w", "list")
    assert [(each.name, each.arguments) for each in call.calls] == [("developer__shell", {"command": "ls"})]
    assert [answer.text for answer in call.answers] == ["a.txt"]
    assert "One file." in str(done.parts)
    assert "tokens per reply" in session.left_out[0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("aider", "# aider chat started at 2026-03-01 10:00:00\n"),
        ("pi", lines(PI[0])),
        ("opencode", json.dumps({"info": {"id": "s"}, "messages": []})),
        ("goose", lines({"working_dir": "/w", "message_count": 0})),
    ],
)
def test_a_session_without_a_reply_is_refused_in_a_sentence(kind: str, text: str) -> None:
    with pytest.raises(UsageError, match="does not contain a reply"):
        read(text, kind)


def line(kind: str, uuid: str, parent: str | None, at: int, message: Json) -> Json:
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": f"2026-01-01T00:00:{at:02d}Z",
            "sessionId": "s", "message": message}  # fmt: skip


def said(identity: str, *content: Json) -> Json:
    return {"role": "assistant", "id": identity, "model": "m", "content": [*content],
            "usage": {"input_tokens": 10, "output_tokens": 5}}  # fmt: skip


TALK = [
    line("user", "u1", None, 1, {"role": "user", "content": "start"}),
    line("assistant", "a1", "u1", 2, said("m1", {"type": "text", "text": "I look."})),
    line("assistant", "a2", "a1", 3, said("m1", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}})),
    line("assistant", "a3", "a2", 3, said("m1", {"type": "tool_use", "id": "t2", "name": "Read", "input": {}})),
    line("user", "r1", "a2", 4, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"}]}),
    line("user", "r2", "a3", 5, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t2", "content": "two"}]}),
    line("assistant", "a4", "r2", 6, said("m2", {"type": "text", "text": "First answer."})),
    line("user", "u2", "a4", 7, {"role": "user", "content": "go on"}),
    line("assistant", "a5", "u2", 8, said("m3", {"type": "text", "text": "More of it."})),
]  # fmt: skip
REWOUND = [
    line("user", "u3", "a4", 9, {"role": "user", "content": "no, otherwise"}),
    line("assistant", "a6", "u3", 10, said("m4", {"type": "text", "text": "Second answer."})),
]


def test_lines_that_a_resumed_session_writes_again_count_once() -> None:
    again = [{**one, "uuid": f"{one['uuid']}x", "parentUuid": one["parentUuid"] and f"{one['parentUuid']}x"}
             for one in TALK]  # fmt: skip
    (session,) = read(lines(*TALK, *again), "claude-code")
    found = replies(session)
    assert [reply.reply_id for reply in found] == ["m1", "m2", "m3"]
    assert [call.id for call in found[0].calls] == ["t1", "t2"]
    assert [answer.text for answer in found[0].answers] == ["one", "two"]
    assert [turn.text for turn in session.turns if isinstance(turn, RecordedText)] == ["go on"]
    assert session.left_out == []


def test_blocks_of_a_reply_that_are_written_again_later_count_once() -> None:
    later = [{**one, "uuid": f"{one['uuid']}y", "timestamp": "2026-01-02T00:00:00Z"} for one in TALK[1:4]]
    (session,) = read(lines(*TALK, *later), "claude-code")
    assert [call.id for call in replies(session)[0].calls] == ["t1", "t2"]


def test_of_a_branch_that_the_user_rewound_only_the_cost_counts() -> None:
    (session,) = read(lines(*TALK, *REWOUND), "claude-code")
    assert [reply.reply_id for reply in replies(session)] == ["m1", "m2", "m3", "m4"]
    assert replies(session)[2].parts == ()
    assert replies(session)[2].usage is not None
    assert "go on" not in [turn.text for turn in session.turns if isinstance(turn, RecordedText)]
    assert "2 lines of branches that the user rewound; their cost counts" in session.left_out
