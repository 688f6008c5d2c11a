"""Models without a network: their requests are answered by a function in this process."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import httpx2
import msgspec

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import FailureKind, Message, Text, Thinking, ToolCall, ToolResult, ToolSpec
from stackmem.core.requests import AskModel
from stackmem.models.endpoint import Endpoint
from stackmem.providers.anthropic import AnthropicModel
from stackmem.providers.gemini import GeminiModel
from stackmem.providers.openai import CHAT, RESPONSES, OpenAIModel
from stackmem.trace.record import Record
from stackmem.trace.store import write_line
from tests.providers.views import READ_FILE, asking

WIRES = ("anthropic", "chat", "responses", "gemini")
KINDS = FailureKind.__args__  # type: ignore[attr-defined]
MAX_REQUESTS = 40
"""More requests than these for one reply are a loop."""
Answers = Callable[[httpx2.Request], httpx2.Response]
_THERE = Endpoint("http://model.example/v1", "a-key-of-the-user")


@cache
def _kept(wire: str) -> Any:
    """Return a connected model. Its client is shared by all models of its wire, because clients are slow to make."""
    model = _fresh(wire)
    model._connected()
    client = model._connection.client
    client._mounts = {}
    client._transport = httpx2.MockTransport(lambda request: _ANSWERING[-1](request))
    return model


def _fresh(wire: str) -> Any:
    match wire:
        case "anthropic":
            return AnthropicModel("claude-opus-5-5", _THERE)
        case "gemini":
            return GeminiModel("gemini-3.8-flash", _THERE)
        case _:
            return OpenAIModel("a-model", _THERE, wire=CHAT if wire == "chat" else RESPONSES)


_ANSWERING: list[Answers] = []


@contextmanager
def model_of(wire: str, answers: Answers) -> Iterator[Any]:
    """Yield a model that has learned nothing and whose requests go to ``answers``."""
    model, kept = _fresh(wire), _kept(wire)
    model._client, model._connection = kept._client, kept._connection
    _ANSWERING.append(answers)
    try:
        with patch("stackmem.providers.openai.served_names", lambda *_: ()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield model
    finally:
        _ANSWERING.pop()


def answer(body: bytes, piece: int = 0, status: int = 200, kind: str = "text/event-stream") -> httpx2.Response:
    """Return a response whose body arrives in pieces of this many bytes; 0 sends it at once."""
    size = piece or len(body) or 1
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return httpx2.Response(status, headers={"content-type": kind} if kind else {}, content=iter(pieces))


def named(outcome: ModelReplied | ModelFailed) -> None:
    """Check that an attempt ended with a reply that a trace can store, or with a named reason."""
    write_line(Record(1, 0.0, outcome), "")
    if isinstance(outcome, ModelFailed):
        assert outcome.kind in KINDS, outcome
        assert outcome.detail.strip(), "a failure without a reason"
    elif not outcome.parts:
        assert outcome.stop != "call", "a call that is not there"


def notes_of(outcome: ModelReplied | ModelFailed) -> list[str]:
    repairs = outcome.repairs if isinstance(outcome, ModelReplied) else msgspec.UNSET
    return [note for notes in (repairs, outcome.mended) if notes is not msgspec.UNSET for note in notes]


def lost_words(outcome: ModelReplied, words: list[str]) -> list[str]:
    """Return the words of a reply that the trace has neither in a part nor in a note."""
    shown = json.dumps(msgspec.to_builtins(outcome.parts)) + outcome.detail
    return [word for word in words if word not in shown]


EITHER = '{"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]}'
TOOLS = (
    READ_FILE,
    ToolSpec("files__find", "Find files.", '{"type": "object", "properties": {"q": {"type": "string"}}}'),
    ToolSpec("odd__either", "Either.", EITHER),
)


def conversation(wire: str, *, calls: int = 2, thought: bool = True, identity: str = "call_1") -> AskModel:
    """Return a request whose earlier replies have thoughts, and repeat the id of a call."""
    raws: dict[str, Any] = {
        "anthropic": {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        "chat": {"type": "reasoning_content", "thinking": "hm"},
        "responses": {"type": "reasoning_content", "thinking": "hm", "items": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}]},
        "gemini": {"type": "reasoning_content", "thinking": "hm", "gemini": [
            {"kind": "thought", "chars": 2, "signature": "c2ln"}, {"kind": "call", "id": identity}]},
    }  # fmt: skip
    messages = [Message("user", (Text("Do it."),))]
    for _ in range(calls):
        before = (Thinking(raws[wire]),) if thought else ()
        messages.append(Message("assistant", (*before, ToolCall(identity, "read_file", {"path": "a"}))))
        messages.append(Message("user", (ToolResult(identity, "content", False),)))
    return asking(*messages, tools=TOOLS)
