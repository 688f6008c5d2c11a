"""What the visible conversation says, message by message.

One ``Knowledge`` is grown in place along one conversation: it is the accumulator of a fold, never kept or shared
beyond one reply, so nothing in it outlives what is visible. No text makes it raise.
"""

from __future__ import annotations

import re
from typing import assert_never

from msgspec import Struct

from stackmem.core.messages import Message, Text, Thinking, ToolCall, ToolResult

from .index import Index, Row, index_in
from .lines import (
    Candidates,
    Changed,
    Done,
    Excluded,
    Fact,
    Failed,
    Line,
    Next,
    Planned,
    fact_line,
    keys_in,
    lines,
    topic_of,
)  # fmt: skip

SEEN, TOLD, CHILD = "seen", "told", "child"
CHILD_TOOLS = frozenset({"push_frame", "delegate", "branch"})
_OBJECTIVE = re.compile(r"\bDo units (\d{1,6}) to (\d{1,6})\b")
_OPENING = re.compile(r"^[A-Z][A-Z-]{2,11} '[^'\n]{0,80}', depth (\d{1,3}) of (\d{1,3})$", re.MULTILINE)
_PLAN = re.compile(r"\./work plan (\d{1,6})-(\d{1,6})\s*")
_DO = re.compile(r"\./work do (\d{1,6})((?: \S+=\S+)*)\s*")
_FIRST = re.compile(r"unit (\d{1,6}) comes first")
_SPAN = re.compile(r"\[lines? (\d{1,9})(?:-(\d{1,9}))? of (more than )?(\d{1,9})")
_SHORTENED = re.compile(r"\[(?:shortened: |\.\.\. [\d,]{1,12} of [\d,]{1,12} characters left out)")
_MASKED = re.compile(r"\[[a-z]{4,12}: [\d,]{1,12} characters of output")
_STORED = re.compile(r"\[stored on the heap: ([^\]\n]*)\]")
_STUB = re.compile(r"; expand index (\d{1,6}) ")
_ENDED = re.compile(r"\[exit \d{1,3}\]\s*\Z")
_NEXT_PAGE = re.compile(r"(\./work [a-z]{1,20}(?: [0-9]{1,6}){1,3}) shows the next")
_ALL_LINES = 10**9
_TRANSCRIPT = "STEP "
"""How the turns begin that a compaction request shows as plain text, in the order in which they were."""


class Held(Struct, frozen=True):
    """A fact as it is held now.

    Attributes:
        at: The unit it holds as of; a fact without a stamp that was read after its topic changed holds as of then.
        order: When it was read, counted over the parts of the conversation.
        origin: ``seen`` in a file or an output, ``child`` for a result of a frame, ``told`` by anything remembered.
        source: The file it was read in, or ``chunk:NAME``.

    """

    value: str
    at: int
    order: int
    origin: str
    source: str = ""


class Span(Struct, frozen=True):
    """Lines of a file that were shown; ``total`` is -1 where the file goes on."""

    first: int
    last: int
    total: int
    order: int


class Knowledge:
    """Attributes:
    facts: Those that hold, by key.
    excluded: Candidates known to be wrong, by key, with their order.
    changed: Scope to the unit it changed at, and the order.
    changed_by: Scope to the origin of that: seen in an output, of a child, or told.
    wrong: Key and value that a unit refused, with the order.
    saved: Value and stamp that a chunk, a note or a memory file is known to hold, by key.
    saved_changes: Scope to the stamp that is known to be stored.
    chunks: Content of chunks as last seen whole.
    used: Order at which a key was last given to a unit.
    repeats: How often a call was made since the last news, by its signature.
    """

    __slots__ = (
        "agent_order", "asked", "candidates", "changed", "changed_by", "chars", "children", "chunks", "closed",
        "crowded", "depth", "done", "excluded", "facts", "failures", "files", "index", "listing", "missing",
        "next_page", "objective", "objective_order", "order", "plan", "planned_from", "progress_seen", "ran", "refused",
        "repeats", "saved", "saved_changes", "sent", "spans", "stubs", "too_deep", "used", "wrong",
    )  # fmt: skip

    def __init__(self) -> None:
        self.order = 0
        self.chars = 0
        self.facts: dict[str, Held] = {}
        self.excluded: dict[str, dict[str, int]] = {}
        self.changed: dict[str, tuple[int, int]] = {}
        self.changed_by: dict[str, str] = {}
        self.wrong: dict[tuple[str, str], int] = {}
        self.saved: dict[str, tuple[str, int]] = {}
        self.saved_changes: dict[str, int] = {}
        self.chunks: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.listing: str | None = None
        self.candidates: dict[str, tuple[str, ...]] = {}
        self.spans: dict[str, list[Span]] = {}
        self.ran: dict[str, int] = {}
        self.plan: dict[int, Planned] = {}
        self.planned_from = -1
        self.done = 0
        self.progress_seen = False
        self.missing: dict[int, set[str]] = {}
        self.failures: dict[int, int] = {}
        self.sent: dict[int, dict[str, str]] = {}
        self.used: dict[str, int] = {}
        self.asked: dict[str, ToolCall] = {}
        self.repeats: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.children = 0
        self.objective: tuple[int, int] | None = None
        self.objective_order = 0
        self.agent_order = 0
        self.depth: tuple[int, int] | None = None
        self.too_deep = False
        self.closed = False
        self.crowded = False
        self.stubs: dict[int, int] = {}
        self.next_page: dict[str, str] = {}
        self.index: Index | None = None

    # ------------------------------------------------------------------ what others ask of it

    def changed_at(self, key: str) -> tuple[int, int]:
        """The unit at which the key last changed, and the order in which that was read."""
        return max(self.changed.get(key, (0, 0)), self.changed.get(topic_of(key), (0, 0)))

    def doubted_since(self, key: str) -> int:
        """What was read about the key before this order proves nothing."""
        wrong = [order for (other, _), order in self.wrong.items() if other == key] if self.wrong else []
        return max([self.changed_at(key)[1], *wrong])

    def excluded_now(self, key: str) -> set[str]:
        since = self.changed_at(key)[1]
        known = {value for value, order in self.excluded.get(key, {}).items() if order >= since}
        return known | {value for (other, value), order in self.wrong.items() if other == key and order >= since}

    # ------------------------------------------------------------------ one message

    def read(self, message: Message) -> None:
        for part in message.parts:
            self.order += 1
            match part:
                case Text():
                    self.chars += len(part.text)
                    if message.role == "user":
                        self._hear(part.text)
                    else:
                        self.agent_order = self.order
                        self._take(lines(part.text), TOLD)
                case ToolResult():
                    self.chars += len(part.text)
                    self._answered(part)
                case ToolCall():
                    self.agent_order = self.order
                    self._asked(part)
                case Thinking():
                    self.chars += len(str(part.raw))
                case _:
                    assert_never(part)

    def _hear(self, text: str) -> None:
        ranges = [(int(first), int(last)) for first, last in _OBJECTIVE.findall(text[:100_000])]
        ranges = [one for one in ranges if 0 < one[0] <= one[1]]
        if ranges:
            narrowest = min(ranges, key=lambda one: one[1] - one[0])
            if narrowest != self.objective:
                self._begin(narrowest)
            self.objective_order = self.order
        if found := _OPENING.search(text[:2_000]):
            self.depth = (int(found[1]), int(found[2]))
        if "of the model's window. At " in text[:400]:
            self.crowded = True
        self._take(lines(text), SEEN if text.startswith(_TRANSCRIPT) else TOLD)
        self.look_at_index(text)

    def _begin(self, objective: tuple[int, int]) -> None:
        self.objective = objective
        self.repeats, self.refused, self.children = {}, {}, 0

    def _asked(self, call: ToolCall) -> None:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        self.chars += len(call.name) + sum(len(value) for value in arguments.values() if isinstance(value, str))
        self.asked[call.id] = call
        signature = signed(call.name, arguments)
        self.repeats[signature] = self.repeats.get(signature, 0) + 1
        if call.name in CHILD_TOOLS:
            self.children += 1
        command = arguments.get("command")
        if call.name == "run_command" and isinstance(command, str):
            if found := _PLAN.fullmatch(command):
                self.planned_from = max(self.planned_from, int(found[1]) - 1)
            elif found := _DO.fullmatch(command):
                self._sent(int(found[1]), dict(pair.split("=", 1) for pair in found[2].split()))

    def _sent(self, unit: int, values: dict[str, str]) -> None:
        """What a unit was given tells of the facts and of progress, also where its output is not shown any more."""
        self.planned_from = max(self.planned_from, unit - 1)
        self.sent[unit] = values
        self.used.update(dict.fromkeys(values, self.order))
        for key, value in values.items():
            if key not in self.facts and self.changed_at(key)[0] == 0:
                self._take(lines(fact_line(key, value, 0)), TOLD)

    def _answered(self, result: ToolResult) -> None:
        call = self.asked.pop(result.call_id, None)
        arguments = call.arguments if call is not None and isinstance(call.arguments, dict) else {}
        tool, text = call.name if call is not None else "", result.text
        command = str(arguments.get("command", ""))
        if (unit := _DO.fullmatch(command)) and (found := _STUB.search(text[-200:])):
            self.stubs[int(unit[1])] = int(found[1])
        if tool == "run_command":
            self._ran(command, text)
        elif result.failed:
            self._refusal(tool, text)
        elif _MASKED.match(text):
            pass  # it is as if it had never been read
        elif tool == "read_file":
            self._read_file(str(arguments.get("path", "")), text)
        elif tool == "heap_read":
            self._read_chunk(str(arguments.get("name", "")), text, whole=not arguments.get("start_line"))
        elif tool in CHILD_TOOLS and _OPENING.match(text):
            self._hear(text)  # this is the child, and its parent's call is answered by what it is to do
        elif tool in CHILD_TOOLS:
            self._child(text)
            self._stored(arguments)
        else:
            self._kept(tool, arguments, text)

    # ------------------------------------------------------------------ results by tool

    def _ran(self, command: str, text: str) -> None:
        said = lines(text)
        if _ENDED.search(text[-40:]) and not _SHORTENED.search(text):  # else it was shortened, and is not known whole
            self.ran[command] = self.order
            if found := _NEXT_PAGE.search(text[:400]):
                self.next_page[command] = found[1]
        self._take(said, SEEN)
        for line in said:
            if isinstance(line, Failed):
                self._failed(line)

    def _failed(self, line: Failed) -> None:
        if found := _FIRST.search(line.reason):
            self.done = max(0, int(found[1]) - 1)
            return
        for key in keys_in(line.reason):
            value = self.sent.get(line.unit, {}).get(key)
            if value is None or "missing" in line.reason:
                self.missing.setdefault(line.unit, set()).add(key)
                continue
            self.wrong[key, value] = self.order
            if key in self.facts and self.facts[key].value == value:
                del self.facts[key]

    def _refusal(self, tool: str, text: str) -> None:
        self.refused[tool] = self.refused.get(tool, 0) + 1
        if tool in CHILD_TOOLS:
            self.too_deep = self.too_deep or "deepest" in text
            self._child(text)  # one that the harness ended reports as failed, and what it says is true
        self.closed = self.closed or "only pop_frame" in text

    def _read_file(self, path: str, text: str) -> None:
        said = lines(text)
        found = _SPAN.match(text)
        if _SHORTENED.search(text):
            pass  # what is not shown any more has to be read again
        elif found:
            total = -1 if found[3] else int(found[4])
            span = Span(int(found[1]), int(found[2] or found[1]), total, self.order)
            self.spans.setdefault(path, []).append(span)
        elif said:
            self.spans.setdefault(path, []).append(Span(1, _ALL_LINES, _ALL_LINES, self.order))
        self._take(said, SEEN, path)

    def _read_chunk(self, name: str, text: str, *, whole: bool) -> None:
        head, _, content = text.partition("\n")
        row = self.index.rows.get(name) if self.index else None
        if "; STALE: " in head or (row is not None and row.stale):
            return
        if whole and "characters left out ...]" not in content:
            self.chunks[name] = content
        said = lines(content)
        self._take(said, TOLD, f"chunk:{name}")
        self._is_saved(said)

    def _child(self, text: str) -> None:
        said = lines(text)
        self._take(said, CHILD)
        for names in _STORED.findall(text[-4_000:]):
            known = names.split(", ")
            for name in known:
                self.chunks.pop(name, None)
            topics = {topic_of(name) for name in known}
            self._is_saved(
                line for line in said
                if (isinstance(line, Fact) and topic_of(line.key) in topics)
                or (isinstance(line, Changed) and topic_of(line.scope) in topics)
            )  # fmt: skip

    def _kept(self, tool: str, arguments: dict[str, object], text: str) -> None:
        """What the tools that remember answered."""
        content = arguments.get("content")
        if tool in ("heap_alloc", "heap_write") and isinstance(content, str):
            self.chunks[str(arguments.get("name"))] = content
            self._own(content)
        elif tool == "heap_free":
            self.chunks.pop(str(arguments.get("name")), None)
        elif tool == "heap_list":
            self.look_at_index(text)
        elif tool == "add_note":
            self._own(str(arguments.get("text", "")))
        elif tool == "memory":
            self._memory(arguments, text)
        else:
            self._take(lines(text), TOLD)

    def _memory(self, arguments: dict[str, object], text: str) -> None:
        path, command = str(arguments.get("path", "")), arguments.get("command")
        if command == "view" and path.rstrip("/") in ("/memories", ""):
            self.listing = text
        elif command == "view":
            said = lines(text)
            self.files[path] = text
            self._take(said, TOLD)
            self._is_saved(said)
        else:
            for name in ("file_text", "insert_text", "new_str"):
                self._own(str(arguments.get(name) or ""))
            if command in ("create", "insert"):
                self.files[path] = str(arguments.get("file_text") or self.files.get(path, ""))

    def _stored(self, arguments: dict[str, object]) -> None:
        entries = arguments.get("store")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                self._is_saved(lines(entry["content"]))

    def _own(self, text: str) -> None:
        """What the reader itself wrote down can be read in its call, for as long as that is shown."""
        said = lines(text)
        self._take(said, TOLD)
        self._is_saved(said)

    def _is_saved(self, said: object) -> None:
        for line in said if hasattr(said, "__iter__") else ():
            if isinstance(line, Fact):
                if self.saved.get(line.key, ("", 0))[1] <= line.at:
                    self.saved[line.key] = (line.value, line.at)
            elif isinstance(line, Changed):
                self.saved_changes[line.scope] = max(line.at, self.saved_changes.get(line.scope, 0))

    # ------------------------------------------------------------------ lines

    def _take(self, said: tuple[Line, ...], origin: str, source: str = "") -> None:
        for line in said:
            match line:
                case Fact():
                    self._learn(line, origin, source)
                case Excluded():
                    known = self.excluded.setdefault(line.key, {})
                    self._news(found=origin == SEEN and line.value not in known)
                    known[line.value] = self.order
                case Changed():
                    self._change(line, origin)
                case Done():
                    self._progress(line.last)
                case Failed():
                    self.failures[line.unit] = self.failures.get(line.unit, 0) + 1
                case Planned():
                    self.plan[line.unit] = line
                case Next():
                    self._progress(line.unit - 1)
                    if self.objective is None:
                        self._begin((1, line.total))
                case Candidates():
                    self.candidates[line.key] = line.values
                case _:
                    assert_never(line)

    def _learn(self, line: Fact, origin: str, source: str) -> None:
        since = self.changed_at(line.key)[0]
        at = line.at or (since if origin == SEEN else 0)
        held = self.facts.get(line.key)
        if at < since or (held is not None and held.at > at):
            return
        if origin != SEEN and (line.key, line.value) in self.wrong:
            return
        if held is not None and origin == TOLD and (held.value, held.at) == (line.value, at):
            return  # what was found out here stays known as found out here
        self._news(found=origin == SEEN and held is None)
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
            self.done = last
            self.refused, self.children = {}, 0
            self._news(found=True)

    def _news(self, *, found: bool) -> None:
        """With something new a call that brought nothing before may be worth making again."""
        if found:
            self.repeats = {}

    # ------------------------------------------------------------------ the index

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

    def _outdated(self, row: Row, *, witnessed: bool) -> None:
        """The file that a chunk describes is another one now.

        Args:
            witnessed: It was not so before; then what was read in the file until now holds no more, either.

        """
        self.chunks.pop(row.name, None)
        sources = {f"chunk:{row.name}"} | ({row.source} if witnessed else set())
        if witnessed:
            self.spans.pop(row.source, None)
        for key in [key for key, held in self.facts.items() if held.source in sources]:
            del self.facts[key]
        for key in [key for key in self.saved if topic_of(key) == row.name]:
            del self.saved[key]


def read_message(known: Knowledge, message: Message) -> Knowledge:
    """The step of the fold; ``known`` is grown in place, and the fold never uses an older one again."""
    known.read(message)
    return known


def signed(tool: str, arguments: object) -> str:
    return f"{tool} {str(arguments)[:2_000]}"
