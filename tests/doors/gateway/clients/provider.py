"""A scripted loopback provider for third-party clients: it makes them call a shell, over four wire formats.

It refuses what a real provider refuses, fails once, bills by a prefix cache, and makes clients that support sub-agents
start one.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from stackmem.core.messages import Text, ToolSpec, Usage
from stackmem.core.pricing import cost_usd
from stackmem.doors.gateway.wires import model_in, wire_of
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.wire import ForeignRequest, WireFormat
from stackmem.models.catalog import lookup
from tests.doors.gateway.clients.spelling import OUTPUT, Call, Json, Reply, call_id, spoken
from tests.doors.gateway.strict_rules import binds_thinking, fault
from tests.doors.gateway.upstream import RawAnswer
from tests.providers.api_rules import signature

TASK = "Count the lines of every file, one command at a time, and say how many there are."
SUBTASK = "SUBTASK: list the folder once and report what it holds."
SUMMARY = "total = 7; next = the last file"
DONE = "All is counted: 7 files."
CALLS = 10
ASKS = b"COMPACTION REQUEST"
SHELLS = ("bash", "run_shell_command", "shell_command", "shell", "exec_command", "run_command", "run")
AGENTS = ("agent", "task")


FAREWELL = Reply(DONE)


class ScriptedProvider:
    """Answers requests by their content.

    Attributes:
        last: The end of the work: a reply without a call, if a client needs nothing else.
        talks: Texts for a client without tools: it receives these in turn, then the last word.
        refused: A sentence per refused request; ``seen`` contains the accepted bodies.
        billed: The sums of the tokens that the answers stated: uncached, read from the cache, written to it, output.
        usd: Their price; None once a model has no known price.
        texts: The replies without a call, with their tokens and price.
    """

    def __init__(self, last: Reply = FAREWELL, talks: tuple[str, ...] = ()) -> None:
        self.last, self.talks = last, talks
        self.refused: list[str] = []
        self.refused_bodies: list[bytes] = []
        self.seen: list[bytes] = []
        self.billed = [0, 0, 0, 0]
        self.usd: float | None = 0.0
        self.texts: list[tuple[Reply, tuple[int, ...], float]] = []
        self._given: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._cached: list[bytes] = []
        self._calls = self._failures = self._sub = 0

    def answer(self, path: str, body: bytes) -> RawAnswer:
        """Answer a request at a path."""
        wire = wire_of(path)
        with self._lock:
            if wire is None:
                given = {"input_tokens": len(body) // 4} if path.endswith("count_tokens") else {"data": []}
                return _json(200, given)
            value = json.loads(body)
            if wire is GEMINI:  # the path says what the other formats say in the body
                value |= {"stream": ":stream" in path, "model": model_in(path)}
            asked = wire.read(body)
            if refusal := fault(wire, value, self._given):
                self.refused.append(refusal)
                self.refused_bodies.append(body)
                return _json(400, wire.error("invalid_request_error", refusal))
            if self._fails_now(asked, body):
                self._failures += 1
                return _json(500, wire.error("api_error", "try again"))
            self.seen.append(body)
            thoughts = self._thoughts(wire, value)
            if wire is MESSAGES:
                self._given[call_id(wire, len(self.seen))] = thoughts
            used = self._usage(wire, asked, body)
            self.billed = [whole + part for whole, part in zip(self.billed, (*used, OUTPUT), strict=True)]
            row = lookup(value["model"])
            price = row.price if row else None
            charged = cost_usd(Usage(used[0], used[1], used[2], 0, OUTPUT), price) if price else None
            self.usd = None if self.usd is None or charged is None else self.usd + charged
            reply = self._reply(asked, body)
            if not reply.calls:
                self.texts.append((reply, (*used, OUTPUT), charged or 0.0))
            return spoken(wire, value, reply, used, len(self.seen), thoughts)

    def _fails_now(self, asked: ForeignRequest, body: bytes) -> bool:
        return self._calls == 4 and not self._failures and ASKS not in body

    def _thoughts(self, wire: WireFormat, value: Json) -> list[Json]:
        """Return the thinking that begins the next reply, signed as the model signs it."""
        if wire is not MESSAGES or value.get("thinking", {}).get("type") not in ("enabled", "adaptive"):
            return []
        words = f"Thought {len(self.seen)}."
        bound = binds_thinking(value["model"])
        return [{"type": "thinking", "thinking": words,
                 "signature": signature(value, len(value["messages"]), words) if bound else "c2lnbmVk"}]  # fmt: skip

    def _reply(self, asked: ForeignRequest, body: bytes) -> Reply:
        if ASKS in body:
            return Reply(SUMMARY)
        opening = " ".join(part.text for one in asked.messages[:3] for part in one.parts if isinstance(part, Text))
        if asked.wants_json or (not asked.tools and not self.talks):
            return Reply('{"title": "Counting", "isNewTopic": true}')
        if SUBTASK in opening and TASK not in opening:
            self._sub += 1
            return self._call(asked, "ls") if self._sub == 1 else Reply("It holds seven files.")
        self._calls += 1
        if self.talks:
            return Reply(self.talks[self._calls - 1]) if self._calls <= len(self.talks) else self.last
        agent = named(asked, AGENTS)
        if self._calls == 2 and agent is not None:
            given = {"prompt": SUBTASK, "description": "List", "subagent_type": "general-purpose"}
            return Reply("I have it listed.", (Call(agent.name, filled(agent, given)),))
        if self._calls <= CALLS:
            return self._call(asked, f"seq {self._calls} {self._calls + 500}")
        return self.last

    def _call(self, asked: ForeignRequest, command: str) -> Reply:
        shell = named(asked, SHELLS)
        if shell is None:
            return Reply(f"No shell tool among {[tool.name for tool in asked.tools]}.")
        given = {"command": command, "cmd": command, "description": "Counts."}
        return Reply(f"Step {self._calls}.", (Call(shell.name, filled(shell, given)),))

    def _usage(self, wire: WireFormat, asked: ForeignRequest, body: bytes) -> tuple[int, int, int]:
        """Return the tokens of a prompt (uncached, read from the cache, written to it); four bytes are one token."""
        longest = max((_common(body, one) for one in self._cached), default=0) // 4
        read = longest if longest >= 1_024 else 0
        self._cached = [*self._cached[-20:], body]
        rest = len(body) // 4 - read
        return (8, read, max(0, rest - 8)) if wire is MESSAGES else (rest, read, 0)


def named(asked: ForeignRequest, names: tuple[str, ...]) -> ToolSpec | None:
    """Return the first of the named tools that a request offers."""
    tools = {tool.name.lower(): tool for tool in reversed(asked.tools)}
    return next((tools[name] for name in names if name in tools), None)


def filled(tool: ToolSpec, given: Json) -> Json:
    """Build arguments from the tool's schema: values for known names, a placeholder for other required fields."""
    schema = json.loads(tool.schema) or {}
    known = schema.get("properties", {})
    filled = {name: value for name, value in given.items() if name in known}
    if known.get("command", {}).get("type") == "array":
        filled["command"] = ["bash", "-lc", given["command"]]
    plain = {"string": "x", "integer": 1_000, "number": 1_000, "boolean": False, "array": [], "object": {}}
    for name in schema.get("required", ()):
        filled.setdefault(name, plain.get(str(known.get(name, {}).get("type")), "x"))
    return filled


def _common(one: bytes, other: bytes) -> int:
    """Return the length of two bodies' common prefix in bytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _json(status: int, value: Json) -> RawAnswer:
    headers = (("content-type", "application/json"), ("retry-after-ms", "10"))
    return RawAnswer((json.dumps(value).encode(),), status, headers)
