"""The knowledge from the visible conversation, updated line by line.

One ``Knowledge`` grows in place along one conversation, message by message. It contains only what those messages say,
so it never outlives what is visible. No text can make it raise.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import assert_never

from msgspec import Struct

from stackmem.core.messages import ToolCall

from .dials import PERFECT, ReaderDials
from .index import SeenChunk, SeenIndex, index_in
from .lines import (
    Candidates,
    Changed,
    Excluded,
    Line,
    Next,
    Planned,
    ReadTo,
    StatedFact,
    UnitFailed,
    UnitsDone,
    topic_of,
)

SEEN, TOLD, CHILD = "seen", "told", "child"


class Held(Struct, frozen=True):
    """A fact as it is currently known."""

    value: str
    # The unit as of which it holds. A fact without a stamp that was read after its topic changed holds as of that
    # change.
    at: int
    order: int  # when it was read, counted over the parts of the conversation
    origin: str  # ``seen`` in a file or an output, ``child`` for a frame's result, ``told`` for anything remembered
    source: str = ""  # the file it was read in, or ``chunk:NAME``


class ShownLines(Struct, frozen=True):
    """Lines of a file that were visible. ``total`` is -1 if the file continues."""

    first: int
    last: int
    total: int
    order: int
    from_own_text: bool = False  # Only the reader's own text says so. It may have left out some of the content.


class FramesAdvised(Struct, frozen=True):
    """Advice from the prompt on when frames pay."""

    least: int  # work of more steps than this pays in a frame
    phase: int  # steps of a phase


class Knowledge:
    """The state of knowledge of one conversation."""

    __slots__ = (
        "agent_order", "calls", "candidates", "changed", "changed_by", "chars", "children", "chunks",
        "closed", "crowded", "depth", "dials", "done", "done_order", "excluded", "facts", "failures", "files", "frames",
        "index", "listing", "missing", "next_page", "objective", "objective_order", "open_calls", "order", "plan",
        "planned_from", "progress_seen", "ran", "refused", "reminded", "repeats", "results", "saved", "saved_changes",
        "sent", "spans", "stubs", "summed_up", "talks", "too_deep", "used", "wrong",
    )  # fmt: skip

    def __init__(self, dials: ReaderDials = PERFECT) -> None:
        self.dials = dials  # how far the reader is from a perfect one
        self.order = 0
        self.chars = 0
        self.facts: dict[str, Held] = {}  # the current facts, by key
        self.excluded: dict[str, dict[str, int]] = {}  # candidates known to be wrong, by key, with their order
        self.changed: dict[str, tuple[int, int]] = {}  # scope to the unit at which it changed, and the order
        # scope to the origin of the change: seen in an output, from a child, or told
        self.changed_by: dict[str, str] = {}
        self.wrong: dict[tuple[str, str], int] = {}  # key and value that a unit refused, with the order
        # value and stamp that a chunk, a note or a memory file is known to contain, by key
        self.saved: dict[str, tuple[str, int]] = {}
        self.saved_changes: dict[str, int] = {}  # scope to the stamp that is known to be stored
        self.chunks: dict[str, str] = {}  # content of chunks that were last seen as a whole
        self.files: dict[str, str] = {}
        self.listing: str | None = None
        self.candidates: dict[str, tuple[str, ...]] = {}
        self.spans: dict[str, list[ShownLines]] = {}
        self.ran: dict[str, int] = {}
        self.plan: dict[int, Planned] = {}
        self.planned_from = -1
        self.done = 0
        self.done_order = 0
        self.progress_seen = False
        self.missing: dict[int, set[str]] = {}
        self.failures: dict[int, int] = {}
        self.sent: dict[int, dict[str, str]] = {}
        self.used: dict[str, int] = {}  # order at which a key was last passed to a unit
        self.open_calls: dict[str, ToolCall] = {}
        self.repeats: dict[str, int] = {}  # how often a call was made since the last news, by its signature
        self.refused: dict[str, int] = {}
        # keys of facts that a checkpoint named, which the reader no longer leaves out
        self.reminded: frozenset[str] = frozenset()
        self.calls = 0  # the number of calls in this conversation that did not start a child
        self.children = 0
        self.results: list[int] = []  # order of every child's result
        self.objective: tuple[int, int] | None = None
        self.objective_order = 0
        self.agent_order = 0
        self.depth: tuple[int, int] | None = None
        self.too_deep = False
        self.closed = False
        self.crowded = False
        self.stubs: dict[int, int] = {}
        self.next_page: dict[str, str] = {}
        self.index: SeenIndex | None = None
        self.frames: FramesAdvised | None = None  # the latest advice on when frames pay; None without any
        self.talks = False  # a user sends one request after another
        self.summed_up = False  # earlier turns have been replaced by a summary

    def copied(self) -> Knowledge:
        """Return a copy that can grow independently."""
        other = copy.copy(self)
        for name in _GROWING:
            setattr(other, name, getattr(self, name).copy())
        return other

    def __copy__(self) -> Knowledge:
        other = Knowledge.__new__(Knowledge)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def show(self, path: str, span: ShownLines) -> None:
        """Record that these lines of a file were visible."""
        self.spans[path] = [*self.spans.get(path, ()), span]

    def changed_at(self, key: str) -> tuple[int, int]:
        """Return the unit at which the key last changed, and the order in which that was read."""
        return max(self.changed.get(key, (0, 0)), self.changed.get(topic_of(key), (0, 0)))

    def doubted_since(self, key: str) -> int:
        """Return the order before which readings of the key are unreliable."""
        wrong = [order for (other, _), order in self.wrong.items() if other == key] if self.wrong else []
        return max([self.changed_at(key)[1], *wrong])

    def excluded_now(self, key: str) -> set[str]:
        since = self.changed_at(key)[1]
        values = {value for value, order in self.excluded.get(key, {}).items() if order >= since}
        return values | {value for (other, value), order in self.wrong.items() if other == key and order >= since}

    def loses(self, key: str, value: str) -> bool:
        """Return whether the reader leaves the fact out where it would be stored or handed over."""
        return key not in self.reminded and self.dials.loses(key, value)

    def remind(self, text: str) -> None:
        """Take the answer of a checkpoint: facts of the files and outputs that it names are no longer left out."""
        self.reminded = self.reminded | {
            key for key, fact in self.facts.items()
            if (fact.source and fact.source in text) or f"{key} = {fact.value}" in text
        }  # fmt: skip

    def begin(self, objective: tuple[int, int]) -> None:
        self.objective = objective
        self.repeats, self.refused, self.children = {}, {}, 0

    def mark_saved(self, statements: Iterable[Line]) -> None:
        """Record that these lines are in a chunk, a note or a memory file."""
        for line in statements:
            if isinstance(line, StatedFact):
                if self.saved.get(line.key, ("", 0))[1] <= line.at:
                    self.saved[line.key] = (line.value, line.at)
            elif isinstance(line, Changed):
                self.saved_changes[line.scope] = max(line.at, self.saved_changes.get(line.scope, 0))

    def take(self, statements: tuple[Line, ...], origin: str, source: str = "") -> None:
        for line in statements:
            match line:
                case StatedFact():
                    self._learn(line, origin, source)
                case Excluded():
                    values = self.excluded.get(line.key, {})
                    self._news(discovered=origin == SEEN and line.value not in values)
                    self.excluded[line.key] = {**values, line.value: self.order}
                case Changed():
                    self._change(line, origin)
                case UnitsDone():
                    self._progress(line.last)
                case UnitFailed():
                    self.failures[line.unit] = self.failures.get(line.unit, 0) + 1
                case Planned():
                    self.plan[line.unit] = line
                case Next():
                    self._progress(line.unit - 1)
                    if self.objective is None:
                        self.begin((1, line.total))
                case Candidates():
                    self.candidates[line.key] = line.values
                case ReadTo():
                    self.show(line.path, ShownLines(1, line.line, -1, self.order, from_own_text=True))
                case _:
                    assert_never(line)

    def _learn(self, line: StatedFact, origin: str, source: str) -> None:
        since = self.changed_at(line.key)[0]
        at = line.at or (since if origin == SEEN else 0)
        fact = self.facts.get(line.key)
        if at < since or (fact is not None and fact.at > at):
            return
        if origin != SEEN and (line.key, line.value) in self.wrong:
            return
        if fact is not None and origin == TOLD and (fact.value, fact.at) == (line.value, at):
            return  # keeps the stronger origin of a fact found in this conversation
        self._news(discovered=origin == SEEN and fact is None)
        self.facts[line.key] = Held(line.value, at, self.order, origin, source)

    def _change(self, line: Changed, origin: str) -> None:
        if line.at <= self.changed.get(line.scope, (0, 0))[0]:
            return
        self.changed[line.scope] = (line.at, self.order)
        self.changed_by[line.scope] = origin
        for key in [key for key in self.facts if line.scope in (key, topic_of(key))]:
            if self.facts[key].at < line.at:
                del self.facts[key]

    def _progress(self, last: int) -> None:
        self.progress_seen = True
        if last > self.done:
            self.done, self.done_order = last, self.order
            self.refused, self.children = {}, 0
            self._news(discovered=True)

    def _news(self, *, discovered: bool) -> None:
        """Clear the repeat counters after news: a call without result may now succeed."""
        if discovered:
            self.repeats = {}

    def look_at_index(self, text: str) -> None:
        before = self.index
        self.index = index_in(text, before)
        if self.index is before or self.index is None:
            return
        for name, row in self.index.rows.items():
            old = before.rows.get(name) if before else None
            if row.stale and not (old is not None and old.stale and old.written == row.written):
                self._outdated(row, witnessed=old is not None and not old.stale)
            elif len(self.chunks.get(name, "")) != row.chars:
                self.chunks.pop(name, None)
        for name in [name for name in self.chunks if name not in self.index.rows]:
            del self.chunks[name]

    def _outdated(self, row: SeenChunk, *, witnessed: bool) -> None:
        """Drop what depends on a chunk whose source file has changed.

        ``witnessed`` says whether the file was current before. Then everything read from the file is outdated too.
        """
        self.chunks.pop(row.name, None)
        sources = {f"chunk:{row.name}"} | ({row.source} if witnessed else set())
        if witnessed:
            self.spans.pop(row.source, None)
        for key in [key for key, fact in self.facts.items() if fact.source in sources]:
            del self.facts[key]
        for key in [key for key in self.saved if topic_of(key) == topic_of(row.name)]:
            del self.saved[key]


_GROWING = tuple(name for name in Knowledge.__slots__ if isinstance(getattr(Knowledge(), name), list | dict))
"""The fields that a copy duplicates. Their values are replaced, never modified."""
