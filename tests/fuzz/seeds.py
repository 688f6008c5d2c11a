"""Valid inputs for the readers of foreign bytes; the fuzzer derives other inputs from them."""

import hashlib
import io
import json
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from stackmem.core.messages import Text, ToolCall, ToolResult
from stackmem.doors.gateway.exchanges import RunClosed
from stackmem.formats.exports.inspect_log import write_inspect
from stackmem.trace.record import DIGEST_MARK
from tests.doors.gateway.test_telling import Tape
from tests.formats import foreign_runs
from tests.formats import test_other_agents as other_agents
from tests.golden.stories import calculator
from tests.stage import ROOT
from tests.trace.stories import compacted, family, folded, records
from tests.trace.stories import told as told_story


def chained(bodies: bytes) -> bytes:
    """Return lines as records with the digests they need: a forger's trace."""
    lines, previous = [], ""
    for body in bodies.splitlines():
        previous = hashlib.sha256(previous.encode() + body).hexdigest()
        lines.append(body[:-1] + DIGEST_MARK + previous.encode() + b'"}\n')
    return b"".join(lines)


@cache
def stories() -> list[bytes]:
    """Return runs as their facts, a record per line, without digests."""
    played = (family(), compacted(), folded(), calculator())
    return [b"\n".join(map(msgspec.json.encode, records(each.events))) for each in played]


def packs() -> list[bytes]:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("r/trace.jsonl", chained(stories()[0]))
        archive.writestr("r/run.json", b"{}")
        archive.writestr("r/history.git/objects/ab/cd", b"x")
    return [made.getvalue()]


def inspected() -> list[bytes]:
    """Return an Inspect log, if its library is installed."""
    if find_spec("inspect_ai") is None:
        return []
    with TemporaryDirectory() as place:
        write_inspect(told_story("calculator"), "a-run", Path(place) / "log.eval")
        return [(Path(place) / "log.eval").read_bytes()]


def recordings(name: str) -> list[bytes]:
    """Return files that the importer of this name accepts."""
    samples = ROOT / "tests" / "formats" / "samples"
    text: dict[str, list[Any]] = {
        "swe-agent": [foreign_runs.swe_agent()],
        "mini": [foreign_runs.mini_1(), (samples / "mini.traj.json").read_text()],
        "chat": [foreign_runs.tau()],
        "terminal": [foreign_runs.TERMINAL],
        "openhands": [foreign_runs.openhands_0(), foreign_runs.openhands_sdk()],
        "codex": [foreign_runs.codex()],
        "gemini-cli": [foreign_runs.gemini()],
        "atif": [(samples / "atif.json").read_text()],
        "claude-code": [(samples / "claude_code.jsonl").read_text()],
        "aider": [other_agents.AIDER],
        "goose": [other_agents.lines(*other_agents.GOOSE), json.dumps({"id": "g", "conversation": other_agents.GOOSE})],
        "opencode": [other_agents.OPENCODE],
        "pi": [other_agents.lines(*other_agents.PI)],
        "inspect": [
            json.dumps({"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "samples": []})
        ],
    }
    spelled = [each if isinstance(each, str) else json.dumps(each) for each in text[name]]
    return [each.encode() for each in spelled] + (inspected() if name == "inspect" else [])


SWEBENCH = {
    "instance_id": "a__b-1", "repo": "a/b", "base_commit": "a" * 40, "problem_statement": "It fails.", "patch": "diff",
    "test_patch": "diff --git a/t.py b/t.py\n", "FAIL_TO_PASS": '["t.py::test_a"]', "PASS_TO_PASS": "[]",
    "version": "1",
}  # fmt: skip


def programs(ends: str) -> list[bytes]:
    found = [
        path
        for folder in ("examples", "tests/compliance", "tests/languages/running")
        for path in (ROOT / folder).rglob("*")
    ]
    texts = [path.read_bytes() for path in sorted(found) if path.name.endswith(ends)]
    return sorted(texts, key=len)[:5]


def compliance(name: str, *keys: str) -> list[bytes]:
    """Return the short programs of the compliance cases."""
    found: list[bytes] = []
    for path in sorted((ROOT / "tests" / "compliance" / name).glob("*.yaml")):
        text = path.read_text("utf-8")
        for block in text.split("\n- ")[1:40:3]:
            for key in keys:
                body = block.partition(f"{key}: |\n")[2]
                lines = [line for line in body.splitlines() if not line or line.startswith("    ")]
                found += ["\n".join(line[4:] for line in lines).encode()] if lines else []
    return found[:12]


def dap_messages() -> list[bytes]:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"adapterID": "a"}), ("launch", {"program": "/nowhere.pb", "stopOnEntry": True}),
        ("setBreakpoints", {"source": {"path": "/nowhere.pb"}, "breakpoints": [{"line": 3}], "sourceModified": False}),
        ("setExceptionBreakpoints", {"filters": []}), ("configurationDone", {}), ("threads", {}),
        ("stackTrace", {"threadId": 1, "levels": 1}), ("scopes", {"frameId": 1}),
        ("variables", {"variablesReference": 1}),
        ("evaluate", {"expression": "$a", "frameId": 0}), ("stepBack", {"threadId": 1}), ("next", {"threadId": 1}),
        ("disconnect", {"terminateDebuggee": True}),
    ]  # fmt: skip
    sent = b""
    for number, (command, arguments) in enumerate(asked, 1):
        body = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        sent += b"Content-Length: %d\r\n\r\n" % len(body) + body
    return [sent]


def passed() -> list[bytes]:
    tape = Tape()
    tape.turn(Text("Do both."), reply=(called(1), called(2)), kind="new", strategy="mask:2,poll=1")
    tape.turn(Text("Part 1."), reply=(Text("First."),), conversation=2, kind="child", parent=1, call_id="c1")
    tape.turn(ToolResult("c2", "Second."), ToolResult("c1", "First."), reply=(Text("Both done."),), dropped=1)
    return [b"".join(msgspec.json.encode(one) + b"\n" for one in (*tape.passed, RunClosed(9.0)))]


def called(number: int) -> ToolCall:
    return ToolCall(f"c{number}", "task", {"prompt": f"Part {number}."})


def encoded(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def _stream(*events: object) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def requests_of(wire: str) -> list[bytes]:
    tool = {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}
    call: dict[str, Any]
    if wire == "anthropic-messages":
        said = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Well."},
                {"type": "tool_use", "id": "c1", "name": "run", "input": {"n": 1}}]  # fmt: skip
        back = [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x" * 300}]}]
        turns = [{"role": "user", "content": "Mend it."}]
        turns += [{"role": "assistant", "content": said}, {"role": "user", "content": back}] * 4  # type: ignore[dict-item]
        return encoded(
            {
                "model": "m",
                "max_tokens": 9,
                "system": [{"type": "text", "text": "s"}],
                "tools": [tool],
                "messages": turns,
            }
        )
    if wire == "openai-chat":
        call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"n": 1}'}}
        one = [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "x" * 300},
        ]
        turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "Mend it."}, *one * 4]  # type: ignore[list-item]
        return encoded({"model": "m", "messages": turns, "tools": [{"type": "function", "function": tool}]})
    if wire == "gemini":
        asked = {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"n": 1}}}]}
        back = [{"functionResponse": {"name": "run", "response": {"output": "x" * 300}}}]
        contents = [{"role": "user", "parts": [{"text": "Mend it."}]}, *[asked, {"role": "user", "parts": back}] * 4]
        declared = [{"functionDeclarations": [{"name": "run", "parameters": {"type": "object"}}]}]
        return encoded({"contents": contents, "tools": declared, "systemInstruction": {"parts": [{"text": "s"}]}})
    call = {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"n": 1}'}
    turn = [{"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"}, call,
            {"type": "function_call_output", "call_id": "c1", "output": "x" * 300}]  # fmt: skip
    first = {"role": "user", "content": [{"type": "input_text", "text": "Mend it."}]}
    return encoded(
        {"model": "m", "instructions": "s", "input": [first, *turn * 4], "tools": [{"type": "function", **tool}]}
    )


def answers_of(wire: str) -> list[bytes]:
    usage = {"input_tokens": 5, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}
    used = {"type": "tool_use", "id": "c", "name": "run", "input": {}}
    given = {"type": "input_json_delta", "partial_json": '{"n": 1}'}
    if wire == "anthropic-messages":
        return [_stream(
            {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": used},
            {"type": "content_block_delta", "index": 1, "delta": given},
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"}),
            _stream({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})]  # fmt: skip
    if wire == "openai-chat":
        part = {"index": 0, "id": "c", "type": "function", "function": {"name": "run", "arguments": '{"n": 1}'}}
        return [_stream(
            {"id": "a", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hm."}}]},
            {"id": "a", "choices": [{"index": 0, "delta": {"tool_calls": [part]}}]},
            {"id": "a", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"id": "a", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
        ) + b"data: [DONE]\n\n"]  # fmt: skip
    if wire == "gemini":
        parts = [{"text": "Hm.", "thought": True}, {"functionCall": {"name": "run", "args": {"n": 1}}}]
        ended = {"content": {"parts": parts}, "finishReason": "STOP"}
        counts = {"promptTokenCount": 5, "cachedContentTokenCount": 1, "candidatesTokenCount": 2}
        return [_stream(
            {"candidates": [{"content": {"parts": [{"text": "Well."}]}}]},
            {"candidates": [ended], "usageMetadata": counts}),
            _stream({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}})]  # fmt: skip
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "run", "arguments": '{"n": 1}'}
    text = {"type": "message", "id": "i", "content": [{"type": "output_text", "text": "Hm."}]}
    answer = {"id": "r", "status": "completed", "output": [text, call], "usage": usage}
    return [_stream(
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": text},
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": answer})]  # fmt: skip


MCP_RESULTS = (
    {"content": [{"type": "text", "text": "[1]"}], "structuredContent": {"result": [1]}},
    {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}, {"type": "text", "text": "a"}],
     "isError": True},
    {"content": [{"type": "resource_link", "name": "n", "uri": "file:///a", "description": "d"},
                 {"type": "resource", "resource": {"uri": "file:///a", "blob": "aGk="}}]},
)  # fmt: skip


ACP_LINE = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "a" * 32, "prompt": [
    {"type": "text", "text": "Mend it."},
    {"type": "resource_link", "name": "f", "uri": "file:///a/f.py"}]}}  # fmt: skip


RESULT = {"run": "r", "run_dir": "/r", "task": "t", "model": "m", "strategy": "s", "ending": "popped",
    "outcome": "solved", "steps": 1, "frames": 0, "usage": {"uncached": 1}, "cost_usd": None,
    "wall_seconds": 1.0, "isolation": "none",
    "result": "ok", "workspace": "", "records": 40, "digest": "a" * 64}  # fmt: skip


SIGNATURE = {
    "kind": "end",
    "records": 3,
    "digest": "a" * 64,
    "signature": "b" * 128,
    "files": {"result.json": "c" * 64},
    "key": "a" * 64,
}


HELLO = (
    b"\x16\x03\x01\x00\x45\x01\x00\x00\x41\x03\x03"
    + bytes(32)
    + b"\x00\x00\x02\x13\x01\x01\x00\x00\x16\x00\x00\x00\x12\x00\x10\x00\x00\x0dhost.example\x00"
)


PROGRAMS = {
    "APL": ("main.apl", "apl", lambda: programs(".apl") + compliance("apl", "program", "text")),
    "S-expressions": ("main.sexp", "sexp", lambda: programs(".sexp") + compliance("sexp", "program", "text")),
    "playbooks": ("main.pb", "playbook", lambda: programs(".pb")),
    "loop agents": (
        "main.agent.yaml",
        "loop_agent",
        lambda: programs(".agent.yaml") + compliance("loop_agent", "agent", "program"),
    ),
}
