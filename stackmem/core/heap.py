"""The heap: named chunks that outlive frames, with their budget and their index.

Rule 1: A chunk has a valid name, is not empty and fits the budget. Otherwise it is refused and nothing changes.
Rule 2: The index lists every chunk, and depends only on the heap.
Rule 3: A chunk is STALE if its source's digest is known to differ from the one that it was stored with.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from .budgets import Budgets
from .conversation.standing import Kind
from .guidance.skills import Skill
from .tools import HeapRead, StoreEntry

NAME = re.compile(r"[A-Za-z0-9_./-]{1,64}")
UNKNOWN = ("unknown", "missing", "outside")  # values in place of a digest
# Characters that look like the column separator of the index.
_BARS = "|\u00a6\u01c0\u2016\u2223\u2225\u23d0\u2502\u2503\u2758\uff5c\uffe8"
_BAR = re.compile(rf"(?<!\S)[{_BARS}]|[{_BARS}](?!\S)")
_COLUMN = re.compile(
    r"\s*(?:[\d,]+ chars|source \S*[./]\S*|kept from before this run|"
    r"(?:created|rewritten|last read) (?:step \d+|never)|STALE:.*)\s*",
    re.IGNORECASE,
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Chunk(Struct, frozen=True):
    """A named piece of memory."""

    name: str
    content: str
    description: str
    # created, written, read: step numbers; ``read`` is None before the first read
    created: int
    written: int
    source: str = ""  # the workspace file that it describes, or empty
    digest: str = ""  # SHA-256 of that file when the chunk was stored; empty or ``unknown`` if it is not known
    read: int | None = None
    kept: bool = False  # whether it comes from an earlier run, in a persistent heap
    skill: bool = False  # whether it is a skill or describes a program; see ``skills.py``
    listed: str = "skill"  # what the index calls such a chunk

    @property
    def heading(self) -> str:
        """The line above the content, wherever a model reads it."""
        return f"heap {self.name!r}, {len(self.content):,} characters"


class ChunkSet(Struct, frozen=True):
    """A chunk that a fork puts on the heap."""

    name: str
    content: str
    description: str = ""


class KeptChunk(Struct, frozen=True, omit_defaults=True):
    """A chunk without the step numbers of a run."""

    name: str
    content: str
    description: str = ""
    source: str = ""
    digest: str = ""  # as in ``Chunk``


class KeptWords(Struct, frozen=True, omit_defaults=True):
    """An entry of the user's standing words from an earlier conversation about the folder."""

    text: str
    kind: Kind = "rule"


class KeptHeap(Struct, frozen=True, omit_defaults=True):
    """Chunks, standing words and files of the memory tool that a run takes over from earlier runs."""

    chunks: tuple[KeptChunk, ...] = ()
    # each source with its digest at the start of the run; values as in ``ToolReturned.digests``
    digests: tuple[tuple[str, str], ...] = ()
    left_out: int = 0  # number of further chunks that did not fit the budgets
    standing: tuple[KeptWords, ...] = ()  # only in a conversation
    files: tuple[tuple[str, str], ...] = ()  # paths and texts; only with the memory tool


class Heap(Struct, frozen=True):
    """All chunks in the order of allocation, or in a brief heap in the order of their last writes."""

    chunks: dict[str, Chunk] = {}
    chars: int = 0  # total characters of content, without skills
    current: dict[str, str] = {}  # last known digest of each source file
    brief: bool = False  # whether its index is brief, see ``SessionRules.index``
    escaped: bool = False  # whether its index escapes text that imitates its columns, see ``RunStarted.index``

    def stale(self, chunk: Chunk) -> bool:
        now = self.current.get(chunk.source, "unknown")
        return bool(chunk.source) and chunk.digest not in ("", *UNKNOWN) and now not in UNKNOWN and now != chunk.digest

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of all chunks. That of a skill is computed when it is read, and after that."""
        chunks = (chunk for chunk in self.chunks.values() if not chunk.skill or chunk.read is not None)
        return tuple(sorted({chunk.source for chunk in chunks if chunk.source}))

    @property
    def stored(self) -> tuple[str, ...]:
        """The names of the chunks that are not skills."""
        return tuple(name for name, chunk in self.chunks.items() if not chunk.skill)

    def with_skills(self, skills: tuple[Skill, ...]) -> Heap:
        """Return the heap with the skills before its other chunks."""
        chunks = {
            each.chunk: Chunk(
                each.chunk,
                each.content,
                each.description,
                0,
                0,
                each.source,
                each.digest,
                skill=True,
                listed=each.listed,
            )
            for each in skills
        }
        return replace(self, chunks={**chunks, **self.chunks})

    def put(self, entry: StoreEntry, step: int, digest: str) -> Heap:
        """Return the heap with the chunk added or replaced. ``digest`` is that of its source when it was stored."""
        old = self.chunks.get(entry.name)
        chunk = Chunk(
            name=entry.name,
            content=entry.content,
            description=entry.description,
            created=old.created if old else step,
            written=step,
            source=entry.source,
            digest=digest,
            read=old.read if old else None,
            kept=old.kept if old else False,
        )
        chars = self.chars + len(entry.content) - (_counted(old) if old else 0)
        others = self.without(entry.name).chunks if self.brief and old else self.chunks
        return replace(self, chunks={**others, entry.name: chunk}, chars=chars)

    def mark_read(self, name: str, step: int) -> Heap:
        return replace(self, chunks={**self.chunks, name: replace(self.chunks[name], read=step)})

    def without(self, name: str) -> Heap:
        chunks = {other: chunk for other, chunk in self.chunks.items() if other != name}
        return replace(self, chunks=chunks, chars=self.chars - _counted(self.chunks[name]))

    def with_digests(self, digests: dict[str, str]) -> Heap:
        """Return the heap with the current digests of the sources, or the same heap if none of them changed."""
        if all(self.current.get(path) == digest for path, digest in digests.items()):
            return self
        return replace(self, current={**self.current, **digests})


def _counted(chunk: Chunk) -> int:
    """Return the characters of a chunk that count against the budget."""
    return 0 if chunk.skill else len(chunk.content)


def taken_over(heap: KeptHeap) -> Heap:
    """Return the initial heap of a run that continues a persistent heap."""
    chunks = {
        chunk.name: Chunk(chunk.name, chunk.content, chunk.description, 0, 0, chunk.source, chunk.digest, kept=True)
        for chunk in heap.chunks
    }
    return Heap(chunks, sum(len(chunk.content) for chunk in heap.chunks), dict(heap.digests))


def index(heap: Heap, budgets: Budgets, *, described: bool = True) -> str:
    """Return the heap index as the model reads it: one line per chunk, with or without descriptions."""
    many = "1 chunk" if len(heap.chunks) == 1 else f"{len(heap.chunks)} chunks"
    head = f"HEAP INDEX: {many}, {heap.chars:,} of {budgets.heap_chars:,} characters used"
    head += ", the last written last" if heap.brief else ""
    return "\n".join([head, *(line(heap, chunk, described=described) for chunk in heap.chunks.values())])


def line(heap: Heap, chunk: Chunk, *, described: bool = True) -> str:
    """Return the index line of one chunk."""
    parts = [f"- {chunk.name}", f"{len(chunk.content):,} chars"]
    if chunk.description and described:
        parts.append(_cell(chunk.description) if heap.escaped else chunk.description)
    if chunk.source:
        parts.append(f"source {_cell(chunk.source) if heap.escaped else chunk.source}")
    if not heap.brief:
        origin = chunk.listed if chunk.skill else f"created step {chunk.created}"
        parts.append("kept from before this run" if chunk.kept else origin)
        if chunk.written != chunk.created:
            parts.append(f"rewritten step {chunk.written}")
        parts.append("last read never" if chunk.read is None else f"last read step {chunk.read}")
    stale = " | STALE: its source has changed since" if heap.stale(chunk) else ""
    return " | ".join(parts) + stale


def _cell(text: str) -> str:
    """Escape text for one column of the index. Ordinary text stays as it is.

    Models write these texts after reading files and command output, which could try to forge an index line. A backslash
    marks a bar that could divide columns, and a text that is itself worded like one of our columns. Characters that
    end, hide or reorder a line are written as their codes.
    """
    if not text.isprintable():
        text = "".join(ascii(char)[1:-1] if _is_hidden(char) else char for char in text)
    barred = _BAR.sub(r"\\\g<0>", text)
    return f"\\{barred}" if _COLUMN.fullmatch(barred) else barred


def _is_hidden(char: str) -> bool:
    """Return whether a character ends or hides a line or changes its direction. Emoji and some scripts need the
    joiners.
    """
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in "\u200c\u200d"


def index_rows(heap: Heap) -> tuple[tuple[object, ...], ...]:
    """Return what the index says about each chunk. If this changes, the conversation has to show the index again."""
    return tuple(
        (
            chunk.name,
            len(chunk.content),
            chunk.description,
            chunk.source,
            chunk.written,
            None if heap.brief else chunk.read,
            heap.stale(chunk),
        )
        for chunk in heap.chunks.values()
    )


def faults(heap: Heap, entries: tuple[StoreEntry, ...], budgets: Budgets) -> list[str]:
    """Return everything that prevents storing ``entries`` together. Sources are checked later, by their digests."""
    messages = []
    for entry in entries:
        messages += name_faults(entry.name, budgets)
        old = heap.chunks.get(entry.name)
        if old is not None and old.skill:
            messages.append(f"{entry.name!r} is a {old.listed} and cannot be changed; use another name")
        if not entry.content:
            messages.append(f"the content of {entry.name[:80]!r} is empty; store what a later frame needs, or nothing")
        messages += description_faults(entry.description, budgets)
        if len(entry.source) > budgets.source_chars:
            messages.append(
                f"source is {len(entry.source)} chars, maximum is {budgets.source_chars}; "
                "give the path of one workspace file, or leave it out"
            )
        elif _control_characters(entry.source):
            messages.append("source contains control characters; give the path of one workspace file")
    twice = sorted(name for name, count in Counter(entry.name for entry in entries).items() if count > 1)
    messages += [f"{name[:80]!r} is stored twice in one call; name each chunk once" for name in twice]
    return messages or _budget_faults(heap, entries, budgets)


def name_faults(name: str, budgets: Budgets) -> list[str]:
    if len(name) <= budgets.name_chars and NAME.fullmatch(name):
        return []
    if not name.strip():
        return [f"name is empty; give 1 to {budgets.name_chars} of letters, digits, _ . - /"]
    return [
        f"name {name[:80]!r} ({len(name)} chars) is not a valid name; "
        f"give 1 to {budgets.name_chars} of letters, digits, _ . - /"
    ]


def description_faults(description: str, budgets: Budgets) -> list[str]:
    if len(description) > budgets.description_chars:
        return [f"description is {len(description)} chars, maximum is {budgets.description_chars}; shorten it"]
    if _control_characters(description):
        return ["description contains line breaks or control characters; write one plain line"]
    return []


def _control_characters(text: str) -> bool:
    """Return whether the text has characters that could end or hide a line of the index."""
    return any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in text)


def _budget_faults(heap: Heap, entries: tuple[StoreEntry, ...], budgets: Budgets) -> list[str]:
    replaced = sum(_counted(heap.chunks[entry.name]) for entry in entries if entry.name in heap.chunks)
    needed = sum(len(entry.content) for entry in entries)
    count = len({*heap.stored, *(entry.name for entry in entries)})
    messages = []
    if heap.chars - replaced + needed > budgets.heap_chars:
        messages.append(
            f"the heap has {heap.chars:,} of {budgets.heap_chars:,} characters and this needs "
            f"{needed - replaced:,} more; {_freeable(heap)}"
        )
    if entries and count > budgets.heap_chunks:
        messages.append(f"the heap would have {count} chunks, maximum is {budgets.heap_chunks}; {_freeable(heap)}")
    return messages


def _freeable(heap: Heap) -> str:
    if not heap.stored:
        return "the heap is empty; store less"
    never = [name for name in heap.stored if heap.chunks[name].read is None]
    hint = f"never read so far: {', '.join(never)}" if never else "every chunk has been read"
    return f"free or shorten chunks first ({hint})"


def sources_with(heap: Heap, entries: tuple[StoreEntry, ...]) -> tuple[str, ...]:
    """Return the sources of the heap and of the entries that will join it."""
    return tuple(sorted({*heap.sources, *(entry.source for entry in entries if entry.source)}))


def source_faults(entries: tuple[StoreEntry, ...], digests: dict[str, str]) -> list[str]:
    reasons = {"missing": "does not exist", "outside": "is outside the workspace"}
    return [
        f"source {entry.source!r} of {entry.name!r} {reasons[digests[entry.source]]}; "
        "name a file in the workspace, or leave source out"
        for entry in entries
        if digests.get(entry.source) in reasons
    ]


def no_chunk(heap: Heap, name: str) -> str:
    """Return the message for a missing name, with the closest existing names."""
    if not heap.chunks:
        return f"unknown chunk {name[:80]!r}; the heap is empty, store one with heap_alloc"
    near = get_close_matches(name, heap.chunks, n=3, cutoff=0.4) or list(heap.chunks)[:5]
    return f"unknown chunk {name[:80]!r}; nearest: {', '.join(near)}"


def read_text(heap: Heap, call: HeapRead) -> tuple[str, str]:
    """Return ``(text, fault)``: the requested lines of an existing chunk, or why they do not exist."""
    content = heap.chunks[call.name].content
    if call.start_line is None and call.end_line is None:
        return content, ""
    lines = _LINE.findall(content)
    first = 1 if call.start_line is None else call.start_line
    last = len(lines) if call.end_line is None else call.end_line
    if first < 1 or last < first or first > len(lines):
        requested = f"lines from {first}" if call.end_line is None else f"lines {first} to {last}"
        return "", f"{requested} of {call.name!r} do not exist; ask for lines from 1 to {len(lines)}"
    return "".join(lines[first - 1 : last]), ""
