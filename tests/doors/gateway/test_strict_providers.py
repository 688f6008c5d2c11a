"""Every strategy on long tool loops with thinking: a strict provider accepts every forwarded request."""

import json
from typing import Any

import msgspec
import pytest

from stackmem.doors.gateway.cutting import Cutter
from stackmem.doors.gateway.framing import FrameCutter, cutter_of
from stackmem.doors.gateway.identity import chain
from stackmem.doors.gateway.rewriting import Rewriter
from stackmem.doors.gateway.summaries import summary_body
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from tests.doors.gateway.strict_rules import binds_thinking, fault
from tests.doors.gateway.upstream import assistant, request, result, use, user
from tests.providers.api_rules import signature

DROPPING = ("window:2,step=1", "rolling_summary:2", "summary:2000,keep=2", "summary:2000,keep=2,prefix=cold",
            "structured_summary:2000,keep=2", "hierarchical:2,2")  # fmt: skip
SHORTENING = ("mask:1,poll=2", "clear:500,keep=1", "truncate:100")
STRATEGIES = (*SHORTENING, *DROPPING)
MANUAL = {"type": "enabled", "budget_tokens": 1_024}
ADAPTIVE = {"type": "adaptive"}
STEPS = 15
USER_WRITES = (6, 11)


class Loop:
    """A client and a strict provider of the Messages API, with a gateway's cutter between them."""

    def __init__(self, spelled: str, model: str, thinking: dict[str, Any], every: int, *, system: bool = False) -> None:
        cutter = cutter_of(spelled)
        assert cutter is not None
        self.cutter, self.rewriter = cutter, Rewriter()
        self.model, self.thinking, self.every, self.system = model, thinking, every, system
        self.told: list[Any] = [user("Mend the parser.")]
        self.given: dict[str, Any] = {}
        self.sent = self.received = 0
        self.since = 0  # replies since the user's last text

    def _check(self, body: bytes) -> None:
        assert fault(MESSAGES, json.loads(body), self.given) is None

    def ask(self) -> dict[str, Any]:
        """Send the conversation through the gateway, check what it sends, and return that."""
        body = request(*self.told, model=self.model, thinking=self.thinking, system="Work. " * 50)
        asked = MESSAGES.read(body)
        found = chain(b"seed", asked.messages)
        wanted = self.cutter.due_summary(asked, found) if isinstance(self.cutter, Cutter) else None
        if isinstance(self.cutter, Cutter) and wanted is not None:
            made = self.rewriter.rewrite(body, MESSAGES, asked, self.cutter.cut(asked, found), self.cutter.shorten)
            self._check(summary_body(made, MESSAGES, self.model, wanted, "Sum up."))
            self.cutter.summarize(asked, found, wanted, "The parser is half mended.")
        cut = self.cutter.cut(asked, found)
        made = self.rewriter.rewrite(body, MESSAGES, asked, cut, self.cutter.shorten)
        self._check(made)
        self.received, self.sent = len(body), len(made)
        return json.loads(made)

    def step(self, number: int, name: str = "run", answer: str = "word " * 200) -> None:
        """Let the provider reply with one call, and the client answer it."""
        seen = self.ask()
        thinks = self.since % self.every == 0
        words = f"thought {number}"
        signed = signature(seen, len(seen["messages"]), words) if binds_thinking(self.model) else "s"
        thoughts = [{"type": "thinking", "thinking": words, "signature": signed}] if thinks else []
        self.given[f"c{number}"] = thoughts
        self.told.append(assistant(*thoughts, use(name, f"c{number}", n=number)))
        self.told.append(user(result(f"c{number}", answer)))
        self.since += 1
        if number in USER_WRITES:
            self.told += [assistant({"type": "text", "text": "Done."}), user("And this.")]
            self.since = 0
        if self.system:
            self.told.append({"role": "system", "content": f"Reminder {number}."})


@pytest.mark.parametrize("spelled", STRATEGIES)
@pytest.mark.parametrize(
    ("model", "thinking", "every"),
    [("claude-haiku-4-5", MANUAL, 1), ("claude-sonnet-4-5", MANUAL, 3), ("claude-opus-4-6", MANUAL, 99),
     ("claude-opus-4-6", ADAPTIVE, 2), ("claude-fable-5-1", ADAPTIVE, 2)],
)  # fmt: skip
def test_a_tool_loop_with_thinking_goes_on_under_every_strategy(spelled, model, thinking, every):
    loop = Loop(spelled, model, thinking, every)
    for number in range(STEPS):
        loop.step(number)
    loop.ask()
    assert loop.sent < loop.received * 0.8


@pytest.mark.parametrize("spelled", STRATEGIES)
def test_system_messages_of_dropped_exchanges_become_one(spelled):
    loop = Loop(spelled, "claude-fable-5-1", ADAPTIVE, 2, system=True)
    for number in range(STEPS):
        loop.step(number)
    texts = json.dumps([one for one in loop.ask()["messages"] if one["role"] == "system"])
    assert [f"Reminder {number}." in texts for number in range(STEPS)] == [True] * STEPS


def test_a_loop_that_thinks_only_at_its_start_is_left_out_only_as_a_whole():
    loop = Loop("window:2,step=1", "claude-opus-4-6", MANUAL, 99)
    kept = []
    for number in range(STEPS):
        loop.step(number)
        kept.append(sum(one["role"] == "assistant" for one in loop.ask()["messages"]))
    assert kept[:6] == [1, 2, 3, 4, 5, 6]  # no border inside the first turn
    assert kept[-1] < STEPS


def test_a_frame_keeps_the_thinking_that_begins_its_turn():
    loop = Loop("stackheap", "claude-opus-4-6", MANUAL, 99)
    for number in range(3):
        loop.step(number)
    loop.step(3, "mcp__stackmem__push_frame", "FRAME 'part', depth 1 of 3\nOBJECTIVE\nRead.")
    loop.step(4)
    seen = loop.ask()
    assert isinstance(loop.cutter, FrameCutter)
    calls = [block["id"] for one in seen["messages"] for block in one["content"] if block["type"] == "tool_use"]
    assert calls == ["c0", "c3", "c4"]


@pytest.mark.parametrize("spelled", STRATEGIES)
def test_reasoning_items_stay_with_their_calls(spelled):
    cutter = cutter_of(spelled)
    assert isinstance(cutter, Cutter)
    told: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Mend the parser."}]}]
    given = {}
    for number in range(STEPS):
        body = msgspec.json.encode({"model": "gpt-5.6", "store": False, "input": told})
        asked = RESPONSES.read(body)
        found = chain(b"seed", asked.messages)
        if (wanted := cutter.due_summary(asked, found)) is not None:
            cutter.summarize(asked, found, wanted, "The parser is half mended.")
        made = Rewriter().rewrite(body, RESPONSES, asked, cutter.cut(asked, found), cutter.shorten)
        assert fault(RESPONSES, json.loads(made), given) is None
        named = {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "run"}
        told += [
            {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "e", "summary": []},
            {**named, "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "word " * 200},
        ]
        given[f"c{number}"] = f"rs_{number}"
    assert len(made) < len(body)
