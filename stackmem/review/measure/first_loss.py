"""Finds facts that a run used later, and the first step at which one of them was no longer in the prompt.

A fact is a literal (an identifier, a path, a value) that first occurred in a tool's result at step i and occurs in the
arguments of a call at a later step j. It is searched in the prompts of the steps after i, up to j, of the frame that
used it and of that frame's waiting ancestors. A waiting frame loses nothing, so the prompts of its children that did
not use the fact are left out.

Each message is read once; for each prompt only the changes since the frame's last one are processed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from stackmem.core.facts import ModelReplied, RunStarted
from stackmem.core.messages import Message, Part, Text, Thinking, ToolCall, ToolResult, View
from stackmem.core.state import Result, State

from .cached_steps import with_prompts
from .moments import Moment
from .prefix import same_message

MIN_CHARS, MAX_CHARS = 5, 200
# Parts of a path, and whole paths. Each pattern can start a match only at the beginning of a run of characters, so that
# the time stays linear.
_PIECE = re.compile(r"[A-Za-z0-9_.-]{5,}")
_JOINED = re.compile(r"(?<![A-Za-z0-9_./:@+-])[A-Za-z0-9_.-]*+[/:@+][A-Za-z0-9_./:@+-]*")
_TELLING = re.compile(r"[0-9_./:@-]|[a-z][A-Z]")


class FirstLoss(Struct, frozen=True):
    """How many of the facts that a run used were out of sight at some point."""

    facts: int = 0  # facts that were used after the step in which they occurred first
    # the first step whose prompt lacked a fact that was used then or later; None if no fact was lost
    step: int | None = None
    lost: int = 0  # number of facts that were out of sight at least once while they were still needed
    # like ``step``, for facts that were neither in a chunk on the heap nor in a file of the memory tool
    gone_step: int | None = None
    gone: int = 0  # number of those facts


class UsedFacts(Struct, frozen=True):
    """The facts that a run used, and where it used them."""

    origins: dict[str, int]  # maps each fact to the step in which it occurred first
    # for each frame, maps facts to the last step at which that frame, or one that it waited for, used them
    needed: dict[str, dict[str, int]]


@lru_cache(maxsize=1 << 16)
def literals(text: str) -> frozenset[str]:
    """Return the words of a text that may be facts: with a digit, a joint (``_ . / : @ -``) or a capital inside.

    Both a whole path and its parts count. English words and short words do not count.
    """
    words = set()
    for piece in {piece.strip(".-") for piece in _PIECE.findall(text)}:
        plain = piece.isalpha() and (piece.islower() or piece.istitle() or piece.isupper())  # most words
        if not plain and MIN_CHARS <= len(piece) <= MAX_CHARS and _TELLING.search(piece):
            words.add(piece)
    for word in {word.strip("./:@+-") for word in _JOINED.findall(text)}:
        if MIN_CHARS <= len(word) <= MAX_CHARS and _TELLING.search(word):
            words.add(word)
    return frozenset(words)


def literals_of(part: Part) -> frozenset[str]:
    """Return the literals in a part of a message; for a call, in its arguments."""
    match part:
        case Text(text=text) | ToolResult(text=text):
            return literals(text)
        case ToolCall():
            arguments = part.arguments if part.malformed is None else part.malformed
            return frozenset().union(*map(literals, _texts(arguments)))
        case Thinking():
            return frozenset().union(*map(literals, _texts(part.raw.get("thinking"))))


def _texts(value: Any) -> list[str]:
    """Return the texts in a JSON value, without keys."""
    texts, pending = [], [value]
    while pending:
        match pending.pop():
            case str(text):
                texts.append(text)
            case list(items):
                pending += items
            case dict(items):
                pending += items.values()
            case bool() | None:
                pass
            case number:
                texts.append(str(number))
    return texts


def facts_used(run: Iterable[Moment], *, flat: bool = False) -> UsedFacts:
    """Return the facts that a run used."""
    origins: dict[str, int] = {}
    needed: dict[str, dict[str, int]] = {}
    for moment, new_facts, used in told_and_used(run):
        origins.update(dict.fromkeys(new_facts, moment.after.step))
        if isinstance(moment.event, ModelReplied):
            frames = ("frame-0",) if flat else tuple(frame.id for frame in moment.before.stack)
            for frame in frames:
                needed.setdefault(frame, {}).update(dict.fromkeys(used, moment.after.step))
    used_ever = {fact for frame in needed.values() for fact in frame}
    return UsedFacts({fact: origins[fact] for fact in origins if fact in used_ever}, needed)


def told_and_used(run: Iterable[Moment]) -> Iterator[tuple[Moment, frozenset[str], frozenset[str]]]:
    """Yield each moment with the facts that first occurred in its results, and those that its calls used."""
    seen_facts: set[str] = set()
    origins: set[str] = set()
    for moment in run:
        new_facts, used = set[str](), set[str]()
        match moment.event:
            case RunStarted():
                seen_facts |= _standing(moment.event)
            case ModelReplied():
                for part in moment.event.parts:
                    words = literals_of(part)
                    used |= words & origins if isinstance(part, ToolCall) else set()
                    seen_facts |= words
            case _:
                for turn in moment.new_turns:
                    new_facts |= literals(turn.text) - seen_facts if isinstance(turn, Result) else set()
                    seen_facts |= new_facts
                origins |= new_facts
        yield moment, frozenset(new_facts), frozenset(used)


def _standing(start: RunStarted) -> set[str]:
    """Return the literals that every prompt contains, which the model does not have to find out."""
    tools = [text for tool in start.tools for text in (tool.name, tool.description, tool.schema)]
    return set().union(*map(literals, (start.task, start.system, start.workspace, start.isolation, *tools)))


def _stored(state: State) -> list[str]:
    """Return the texts that are stored outside the conversation."""
    return [*(chunk.content for chunk in state.heap.chunks.values()), *state.directory.files.values()]


class _Link(NamedTuple):
    """The last message of a conversation, linked to the messages before it. Prompts with shared messages share
    links.
    """

    before: _Link | None
    message: Message
    facts: frozenset[str]
    length: int


_START = _Link(None, Message("user", ()), frozenset(), 0)


class FactSight:
    """Searches for the facts in one prompt after another."""

    def __init__(self, facts: UsedFacts) -> None:
        self._facts = facts
        self._needed = frozenset(facts.origins)
        self._by_origin = {
            frame: sorted(needed, key=lambda fact: -facts.origins[fact]) for frame, needed in facts.needed.items()
        }
        self._ends: dict[str, _Link] = {}
        self._links: dict[int, _Link] = {}  # by the number of messages before
        self._systems: dict[str, frozenset[str]] = {}
        self._seen: dict[str, Counter[str]] = {}
        self._lost: dict[str, int] = {}
        self._gone_steps: dict[str, int] = {}

    def see(self, step: int, view: View, state: State) -> None:
        """Check the prompt of a step, and what the state stores outside of it."""
        frame = state.running
        needed = self._facts.needed.get(frame.id, {})
        seen = self._seen.setdefault(frame.id, Counter())
        missing = self._changed(frame.id, view, seen)
        waiting = self._by_origin.get(frame.id, [])
        while waiting and self._facts.origins[waiting[-1]] < step:
            first = waiting.pop()
            if not seen[first]:
                missing.append(first)
        for fact in missing:
            if self._facts.origins[fact] < step <= needed.get(fact, 0):
                self._lost[fact] = min(step, self._lost.get(fact, step))
                if not any(fact in literals(text) for text in _stored(state)):
                    self._gone_steps[fact] = min(step, self._gone_steps.get(fact, step))

    def visible(self, fact: str, frame: str) -> bool:
        """Return whether the last prompt of a frame contained a fact."""
        return self._seen.get(frame, Counter())[fact] > 0

    def _changed(self, frame: str, view: View, seen: Counter[str]) -> list[str]:
        """Update ``seen`` to the new prompt, and return the facts that it no longer contains."""
        old = self._ends.get(frame, _START)
        new = view.messages.fold(self._link, _START, "sight")
        self._ends[frame] = new
        system = literals(view.system) & self._needed
        removed: list[frozenset[str]] = []
        if system != self._systems.get(frame, frozenset()):
            removed.append(self._systems.get(frame, frozenset()))
            seen.update(system)
            self._systems[frame] = system
        while old is not new:
            if old.length >= new.length:
                removed.append(old.facts)
                old = old.before or _START
            else:
                seen.update(new.facts)
                new = new.before or _START
        for facts in removed:
            seen.subtract(facts)
        return [fact for fact in frozenset().union(*removed) if not seen[fact]]

    def _link(self, before: _Link, message: Message) -> _Link:
        """Return the next link, reused if the last prompt had the same message after the same ones."""
        cached = self._links.get(before.length)
        if cached is not None and cached.before is before and same_message(cached.message, message):
            return cached
        facts = frozenset().union(*(self._needed & literals_of(part) for part in message.parts))
        self._links[before.length] = link = _Link(before, message, facts, before.length + 1)
        return link

    @property
    def result(self) -> FirstLoss:
        """The result for the prompts so far."""
        return FirstLoss(
            facts=len(self._needed),
            step=min(self._lost.values(), default=None),
            lost=len(self._lost),
            gone_step=min(self._gone_steps.values(), default=None),
            gone=len(self._gone_steps),
        )


def first_loss(run: Iterable[Moment]) -> FirstLoss:
    """Find facts that were out of sight when needed, in the prompts of the run's own strategies.

    Raise UsageError if a strategy of the run is not installed.
    """
    moments = tuple(run)
    sight = FactSight(facts_used(moments))
    for moment in with_prompts(moments):
        if moment.view is not None and isinstance(moment.event, ModelReplied):
            sight.see(moment.after.step, moment.view, moment.before)
    return sight.result
