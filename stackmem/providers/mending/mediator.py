"""Stands between a run and one provider: makes each request valid, and changes it if the provider refuses it.

What a provider refused once is left out of later requests too. Every change is a sentence in the answer's ``mended``,
so that the trace has it. A request is never repeated unchanged, and each change is made at most once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import PROVIDER_SUMMARIES, Message, Thinking, ToolSpec, View
from stackmem.core.requests import AskModel
from stackmem.core.schemas.portable import portable

from . import refusals
from .call_ids import with_own_ids, with_unique_ids

_NO_THOUGHT = Thinking({"type": "reasoning_content", "thinking": ""})
"""Takes the place of a thought that is not sent, so that the positions of the other parts stay the same."""
_REASON_CHARS = 300
_LISTED = 10


class Learned(Struct, frozen=True):
    """The requests that a provider accepts, learned from its refusals."""

    # ``signed`` sends thoughts back, without a signature only where none is demanded; ``all`` sends every thought;
    # ``none`` sends none; ``off`` also does not ask for thinking
    thoughts: Literal["signed", "all", "none", "off"] = "signed"
    left_out: frozenset[str] = frozenset()  # names of the tools that are not offered
    short_ids: bool = False
    fields: frozenset[str] = frozenset()  # fields of a request that are not sent


NOTHING_LEARNED = Learned()
Answer = ModelReplied | ModelFailed
Ask = Callable[[AskModel, Learned], Answer]


class Mediator:
    """Makes attempts for one model.

    Args:
        plain_ids: Whether ids of calls consist of letters, digits, ``_`` and ``-`` only.
        own_ids: Whether the provider matches results to calls by their ids at all.
        signs: Whether the provider signs thoughts, and the adapter follows everything in ``Learned``.
    """

    def __init__(self, *, plain_ids: bool = False, own_ids: bool = True, signs: bool = False) -> None:
        self._plain, self._own_ids, self._signs = plain_ids, own_ids, signs
        self._learned = Learned()
        self._noted: set[str] = set()  # changes that an earlier answer reports

    def reply(self, request: AskModel, ask: Ask) -> Answer:
        """Return the answer to the request, or to the first changed one that the provider accepts."""
        notes: list[str] = []
        answer: Answer | None = None
        while True:
            sent, more = self._sendable(request)
            notes += [note for note in more if note not in self._noted]
            self._noted.update(more)
            last, answer = answer, ask(sent, self._learned)
            if answer is last:
                notes.pop()  # the last change made no difference to the request
            else:
                notes += noted(answer)
            change = self._change(answer, sent)
            if change is None:
                break
            notes.append(change)
        if isinstance(answer, ModelReplied) and self._own_ids:
            answer, renamed = with_own_ids(answer, request.view.messages, request.facts)
            notes += renamed
        return replace(answer, mended=tuple(notes)) if notes else answer

    def _sendable(self, request: AskModel) -> tuple[AskModel, list[str]]:
        """Return the request as this provider accepts it, and a sentence for each change that the trace lacks."""
        view, notes = request.view, list[str]()
        tools: list[ToolSpec] = []
        for tool in view.tools:
            if tool.name in self._learned.left_out:
                continue
            try:
                changed, reasons = portable(tool)
            except ValueError as error:
                notes.append(f"left the tool {tool.name} out: {error}")
                continue
            notes += [f"{tool.name}: {each}" for each in reasons]
            tools.append(changed)
        messages = view.messages
        if self._learned.thoughts in ("none", "off"):
            messages = _without_thoughts(messages)
        if self._own_ids:
            messages = with_unique_ids(messages, plain=self._plain, short=self._learned.short_ids)
        if messages is view.messages and tuple(tools) == view.tools:
            return request, notes
        changed_view = View(view.system, tuple(tools), messages, view.breakpoints, view.provider)
        return replace(request, view=changed_view), notes

    def _change(self, answer: Answer, sent: AskModel) -> str | None:
        """Learn from a refusal. Returns what changes in the next attempt, or None if there is nothing to change."""
        if not isinstance(answer, ModelFailed) or answer.kind not in ("rejected", "server_error"):
            return None
        before, text = self._learned, answer.detail
        after, change = _after(before, text, sent, signs=self._signs)
        if after == before:
            return None
        self._learned = after
        return f"{change}, because the provider refused the request: {text[:_REASON_CHARS]}"


def _after(learned: Learned, text: str, sent: AskModel, *, signs: bool) -> tuple[Learned, str]:
    """Return what is known after a refusal, and the change that follows from it."""
    thoughts = any(_is_sent(part) for message in sent.view.messages for part in message.parts)
    if signs and refusals.wants_thought_first(text) and learned.thoughts != "off":
        return replace(learned, thoughts="off"), "asked without thinking"
    if signs and refusals.wants_thoughts(text) and learned.thoughts == "signed":
        return replace(learned, thoughts="all"), "sent every thought back"
    if refusals.refuses_thoughts(text) and thoughts and learned.thoughts in ("signed", "all"):
        return replace(learned, thoughts="none"), "sent no thoughts back"
    if refusals.wants_short_ids(text) and not learned.short_ids:
        return replace(learned, short_ids=True), "shortened the ids of calls"
    field = refusals.refused_field(text) if signs else ""
    if field and field not in learned.fields:
        return replace(learned, fields=learned.fields | {field}), f"sent the request without {field}"
    tools = refusals.refused_tools(text, sent.view.tools)
    if tools:
        listed = ", ".join(tools[:_LISTED]) + (f" and {len(tools) - _LISTED} more" if len(tools) > _LISTED else "")
        word = "tool" if len(tools) == 1 else "tools"
        return replace(learned, left_out=learned.left_out.union(tools)), f"left the {word} {listed} out"
    return learned, ""


def _is_sent(part: object) -> bool:
    return _is_thought(part) and part is not _NO_THOUGHT


def _without_thoughts(messages: Log[Message]) -> Log[Message]:
    stripped = [
        replace(message, parts=tuple(_NO_THOUGHT if _is_thought(part) else part for part in message.parts))
        if any(map(_is_thought, message.parts))
        else message
        for message in messages
    ]
    return Log(stripped)


def _is_thought(part: object) -> bool:
    """Return whether a part is thinking. A summary by the provider is not, and always stays."""
    return isinstance(part, Thinking) and part.raw.get("type") not in PROVIDER_SUMMARIES


def noted(answer: Answer) -> tuple[str, ...]:
    """Return the changes that an answer reports."""
    return () if answer.mended is UNSET else answer.mended
