"""Random conversations under every strategy: forwarded requests are valid, paired, marked correctly, and reproducible.

The provider's own library types and our strict server decide what is valid. The cache simulator and that server,
written independently, agree on what each forwarded request read and wrote.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from stackmem.core.log import Log
from stackmem.core.messages import Breakpoint, Message, View
from stackmem.doors.gateway.cutting import FITTING, Cutter
from stackmem.doors.gateway.framing import FRAMES, cutter_of
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.summaries import summary_body
from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.doors.gateway.wires.wire import WireFormat
from stackmem.review.measure.cache import CacheRequest, simulate
from stackmem.review.measure.prefix import PromptBlock
from tests.conftest import CAMPAIGN
from tests.doors.gateway.test_cutting import unpaired
from tests.providers.api_rules import first_fault, signature
from tests.providers.prefix_cache import PrefixCache
from tests.review.measure.test_cache_agreement import figures

SEEDS = 371 if CAMPAIGN else 3
"""Number for each of three wire formats and nine strategies: 10,017 conversations in a campaign."""

SPELLED = {
    "clear": ("clear:200,keep=1", "clear:1000,keep=2"),
    "hierarchical": ("hierarchical:1,1", "hierarchical:2,3"),
    "mask": ("mask:1,poll=1", "mask:2,poll=3"),
    "rolling_summary": ("rolling_summary:1", "rolling_summary:3"),
    "structured_summary": ("structured_summary:300,keep=1", "structured_summary:800,keep=2,chars=500"),
    "summary": ("summary:300,keep=1", "summary:600,keep=2,prefix=cold"),
    "truncate": ("truncate:40", "truncate:400"),
    "window": ("window:1,step=1", "window:2,step=3"),
    FRAMES: (FRAMES,),
}
WIRES = {wire.name: wire for wire in (MESSAGES, CHAT, RESPONSES)}
SETTINGS = json.dumps([{"type": "auto"}, None], sort_keys=True)
Json = dict[str, Any]


@cache
def adapter(name: str) -> TypeAdapter[Any]:
    """Return an adapter for a provider library's request type. Lazy: every worker reads this file, one needs it."""
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    params = (MessageCreateParamsNonStreaming, CompletionCreateParamsNonStreaming, ResponseCreateParamsNonStreaming)
    return TypeAdapter(dict(zip(WIRES, params, strict=True))[name])


def whole(value: Any) -> Any:
    """Visit a validated value to its last item, because the libraries' types validate lazily."""
    if isinstance(value, dict):
        return {name: whole(one) for name, one in value.items()}
    if isinstance(value, list | tuple) or hasattr(value, "__next__"):
        return [whole(one) for one in value]
    return value


class Talk:
    """A random conversation of a client, in one wire format; the provider's signatures cover the received request."""

    def __init__(self, wire: WireFormat, dice: Random) -> None:
        self.wire, self.dice = wire, dice
        self.frames: tuple[str, ...] = ()
        self.before: list[tuple[list[Json], tuple[str, ...]]] = []
        self.count = 0
        task = self.words()
        self.told: list[Json] = [self.user(task)]
        if wire is CHAT:
            self.told.insert(0, {"role": "system", "content": "Be brief."})

    def words(self) -> str:
        return f"{self.dice.choice(['Mend', 'Read', 'é', '日本', '<x>', '{{slot}}'])} {self.dice.random()} " + "x" * (
            self.dice.choice([0, 3, 60, 900])
        )

    def user(self, words: str) -> Json:
        kind = "input_text" if self.wire is RESPONSES else "text"
        return {"role": "user", "content": [{"type": kind, "text": words}]}

    def body(self) -> bytes:
        """Return the request, with cache marks as clients set them."""
        told = json.loads(json.dumps(self.told))
        tools = ("run", "mcp__stackmem__push_frame", "mcp__stackmem__pop_frame")
        schema = {"type": "object", "properties": {}}
        if self.wire is MESSAGES:
            system = [{"type": "text", "text": "You work. " * 60, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
            marks = self.dice.sample(range(len(told)), min(len(told), self.dice.randrange(4)))
            for place in (*marks,):
                last = told[place]["content"][-1]
                if last["type"] != "thinking":
                    last["cache_control"] = {"type": "ephemeral"}
            named = [{"name": name, "description": "", "input_schema": schema} for name in tools]
            return msgspec.json.encode(
                {"model": "m", "max_tokens": 9, "system": system, "tools": named, "messages": told}
            )
        if self.wire is CHAT:
            made = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in tools]
            return json.dumps({"messages": told, "model": "m", "tools": made}).encode()
        made = [{"type": "function", "name": name, "parameters": schema, "strict": False} for name in tools]
        return json.dumps({"model": "m", "input": told, "tools": made, "store": False}, indent=1).encode()

    def turn(self, sent: Json) -> None:
        """Return a reply and its results."""
        dice, calls = self.dice, []
        self.before.append((self.told, self.frames))
        if dice.random() < 0.25:
            calls.append(("mcp__stackmem__push_frame", "FRAME 'part', depth 1 of 3\nOBJECTIVE\nRead."))
            self.frames = (*self.frames, "part")
        elif self.frames and dice.random() < 0.3:
            calls.append(("mcp__stackmem__pop_frame", f"frame '{self.frames[-1]}' returned: {self.words()}"))
            self.frames = self.frames[:-1]
        else:
            calls += [("run", self.words() * dice.choice([1, 1, 4])) for _ in range(dice.choice([0, 1, 1, 2, 3]))]
        named = []
        for tool, answer in calls:
            self.count += 1
            named.append((f"c{self.count}", tool, answer))
        more = [self.user(self.words())] if not named or dice.random() < 0.2 else []
        thought = "hm" if dice.random() < 0.4 else ""
        spell = {MESSAGES: self._messages, CHAT: self._chat, RESPONSES: self._responses}[self.wire]
        self.told = [*self.told, *spell(sent, thought, named, more, dice.random() < 0.1)]

    def _messages(self, sent: Json, thought: str, calls: list[Any], more: list[Json], failed: bool) -> Iterator[Json]:
        signed = signature(sent, len(sent["messages"]), thought)
        thoughts = [{"type": "thinking", "thinking": thought, "signature": signed}] if thought else []
        used = [{"type": "tool_use", "id": name, "name": tool, "input": {"n": name}} for name, tool, _ in calls]
        yield {"role": "assistant", "content": [*thoughts, {"type": "text", "text": self.words()}, *used]}
        back = [
            {"type": "tool_result", "tool_use_id": name,
             "content": text if failed else [{"type": "text", "text": text}], **({"is_error": True} if failed else {})}
            for name, _, text in calls
        ]  # fmt: skip
        yield {"role": "user", "content": [*back, *(part for one in more for part in one["content"])]}

    def _chat(self, _: Json, thought: str, calls: list[Any], more: list[Json], failed: bool) -> Iterator[Json]:
        used = [{"id": name, "type": "function", "function": {"name": tool, "arguments": '{"n": 1}'}}
                for name, tool, _ in calls]  # fmt: skip
        yield {"role": "assistant", "content": None if used and failed else self.words(),
               **({"tool_calls": used} if used else {})}  # fmt: skip
        for name, _, text in calls:
            yield {"role": "tool", "tool_call_id": name, "content": text if not thought else
                   [{"type": "text", "text": text}]}  # fmt: skip
        yield from more

    def _responses(self, _: Json, thought: str, calls: list[Any], more: list[Json], failed: bool) -> Iterator[Json]:
        if thought:
            yield {"type": "reasoning", "id": f"rs_{self.count}", "summary": [], "encrypted_content": "e"}
        yield {"type": "message", "id": f"msg_{self.count}", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": self.words(), "annotations": []}]}  # fmt: skip
        for name, tool, _ in calls:
            yield {"type": "function_call", "call_id": name, "name": tool, "arguments": "{}"}
        for name, _, text in calls:
            out: Any = [{"type": "input_text", "text": text}] if failed else text
            yield {"type": "function_call_output", "call_id": name, "output": out}
        yield from more


class Way:
    """The path from a client to its provider: cuts the request, after writing a summary if the strategy needs one."""

    def __init__(self, wire: WireFormat, strategy: str) -> None:
        self.wire, self.cutter, self.rewriter = wire, cutter_of(strategy), Rewriter()
        self.written = 0

    def send(self, body: bytes) -> Iterator[bytes]:
        """Return the bodies sent upstream for a request; the last one is the request itself."""
        asked, cutter = self.wire.read(body), self.cutter
        assert cutter is not None
        found = chain(b"seed", asked.messages)
        wanted = cutter.due_summary(asked, found) if isinstance(cutter, Cutter) else None
        if isinstance(cutter, Cutter) and wanted is not None:
            shown = self.rewriter.rewrite(body, self.wire, asked, cutter.cut(asked, found), cutter.shorten)
            yield summary_body(shown, self.wire, asked.model, wanted, "You sum up.")
            self.written += 1
            cutter.summarize(asked, found, wanted, f"text {self.written}: all is well.")
        yield self.rewriter.rewrite(body, self.wire, asked, cutter.cut(asked, found), cutter.shorten)


def check(wire: WireFormat, came: bytes, went: bytes) -> Json:
    """Check the rules for every request sent upstream."""
    value: Json = json.loads(went)
    read, again = wire.read(went), json.loads(b"[" + b",".join(wire.read(went).raw) + b"]")
    assert (len(read.messages), again) == (len(value[wire.field]), value[wire.field])
    whole(adapter(wire.name).validate_python(value))
    assert unpaired(value[wire.field]) == set()
    if wire is MESSAGES:
        assert first_fault(value) is None, first_fault(value)
        assert went.count(b"cache_control") <= min(4, came.count(b"cache_control"))
    return value


def view(value: Json) -> tuple[View, dict[tuple[str, bytes], int]]:
    """Return a Messages request in the simulator's form, and the server's token count of each of its blocks."""
    asked = MESSAGES.read(msgspec.json.encode(value))
    messages = [Message("assistant" if one.role == "assistant" else "user", one.parts) for one in asked.messages]
    points, sizes = [], {}
    for block in value.get("system", []):
        sizes["system", msgspec.json.encode(asked.system)] = counted("system", block)
        points += [Breakpoint(-1, 0, block["cache_control"]["ttl"])] if "cache_control" in block else []
    for tool, spec in zip(value.get("tools", []), asked.tools, strict=True):
        sizes["tool", msgspec.json.encode(spec)] = counted("tool", tool)
    for at, one in enumerate(value["messages"]):
        for number, (block, part) in enumerate(zip(one["content"], messages[at].parts, strict=True)):
            sizes[one["role"], msgspec.json.encode(part)] = counted(f"{one['role']} {SETTINGS}", block)
            points += [Breakpoint(at, number, "5m")] if "cache_control" in block else []
    return View(asked.system, asked.tools, Log(messages), tuple(points)), sizes


def counted(place: str, block: Json) -> int:
    bare = {name: value for name, value in block.items() if name != "cache_control"}
    return math.ceil(len(place + json.dumps(bare, ensure_ascii=False)) / 4)


def agree(bodies: Iterable[Json]) -> None:
    """Check that the simulator and the strict server agree on what each request read and wrote."""
    requests, sizes, reported = [], {}, []
    now = 0.0
    server = PrefixCache(200, lambda: now)
    for value in bodies:
        now += 40.0
        value = {**value, "tool_choice": {"type": "auto"}}
        reported.append(figures(server.usage(value)))
        shown, counts = view(value)
        requests.append(CacheRequest(now, shown, SETTINGS))
        sizes |= counts

    def count(block: PromptBlock) -> int:
        content = block.content
        spelled = msgspec.json.encode(content.text if block.place == "system" else content)
        return sizes[block.place, spelled]

    found = [(one.read, one.written_5m, one.written_1h, one.uncached) for one in simulate(requests, 200, count)]
    assert found == reported


@pytest.mark.parametrize("name", sorted(SPELLED))
@pytest.mark.parametrize("kind", sorted(WIRES))
def test_forwarded_requests_are_valid_and_reproducible(kind: str, name: str) -> None:
    wire, changed = WIRES[kind], 0
    for seed in range(SEEDS):
        dice = Random(f"{kind} {name} {seed}")
        spelled = dice.choice(SPELLED[name])
        talk, way = Talk(wire, dice), Way(wire, spelled)
        passed: list[tuple[bytes, bytes]] = []
        upstream: list[Json] = []
        for _ in range(dice.randint(2, 12)):
            body = talk.body()
            went = list(way.send(body))
            upstream += [check(wire, body, one) for one in went]
            passed.append((body, went[-1]))
            changed += went != [body]
            if talk.before and dice.random() < 0.1:
                talk.told, talk.frames = dice.choice(talk.before)  # the client goes back and continues from there
                continue
            talk.turn(upstream[-1])
        for body, went in passed:
            assert list(way.send(body)) == [went], f"{spelled}, seed {seed}: a repetition gave another result"
        if not way.written:
            for body, went in passed[-2:]:
                assert list(Way(wire, spelled).send(body)) == [went]
        if wire is MESSAGES:
            agree(upstream)
    assert changed or not CAMPAIGN  # some conversations may all be too short for a strategy


def test_every_strategy_that_fits_is_tried() -> None:
    assert set(SPELLED) == {*FITTING, FRAMES}
