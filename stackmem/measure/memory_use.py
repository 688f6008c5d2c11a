"""How a run used its memory: frames and the heap, what it did twice, and what it called done that was not."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from stackmem.core import facts
from stackmem.core.frames import NOT_VERIFIED
from stackmem.core.messages import ToolCall
from stackmem.core.tools import ReadFile, RunCommand, tool_name, tools_that

from .moments import Moment

_LOOKING = tools_that(lambda behavior: behavior.reads_files)
_READING, _RUNNING = (tool_name(ReadFile),), (tool_name(RunCommand),)
_ENDING = tools_that(lambda behavior: behavior.frame == "ends")
_MEMORY = tools_that(lambda behavior: not (behavior.reads_files or behavior.changes_files))
_PASSED = ("", NOT_VERIFIED, "exit 0")

_Asked = tuple[str, ...]


class _Look(NamedTuple):
    """A call that was answered; ``digest`` is that of the text, None where the call failed."""

    asked: _Asked
    digest: bytes | None


class Rereads:
    """Reads of a file, or of the same lines of it, that showed again what a read of this run had shown last.

    What a frame still has, or had and lost, is paid for twice.
    """

    kinds = facts.ToolReturned

    def __init__(self) -> None:
        self.value = 0
        self._shown: dict[_Asked, bytes] = {}

    def add(self, moment: Moment) -> None:
        look = _look(moment, _READING)
        if look is not None and look.digest is not None:
            self.value += self._shown.get(look.asked) == look.digest
            self._shown[look.asked] = look.digest


class Rediscoveries:
    """Commands that had failed to the last in a frame that is over, and were tried again in another frame.

    This is the cost that the heap exists to remove. A command counts once for each frame that tries it again.
    """

    kinds = facts.ToolReturned | facts.FramePopped

    def __init__(self) -> None:
        self.value = 0
        self._failing: dict[str, set[_Asked]] = {}
        self._lost: set[_Asked] = set()
        self._tried: dict[str, set[_Asked]] = {}

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, facts.FramePopped):
            self._lost |= self._failing.pop(moment.event.frame, set())
            self._tried.pop(moment.event.frame, None)
        look = _look(moment, _RUNNING)
        if look is None:
            return
        frame, asked = moment.before.running.id, look.asked
        tried, failing = self._tried.setdefault(frame, set()), self._failing.setdefault(frame, set())
        self.value += asked in self._lost and asked not in tried
        tried.add(asked)
        (failing.add if look.digest is None else failing.discard)(asked)


class FoundAgain:
    """Looks at the workspace that told, to the letter, what the same call had told a frame that is over.

    A fact was lost with that frame and found again. Calls that failed count among the rediscoveries instead.
    """

    kinds = facts.ToolReturned | facts.FramePopped

    def __init__(self) -> None:
        self.value = 0
        self._seen: dict[str, set[_Look]] = {}
        self._lost: set[_Look] = set()

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, facts.FramePopped):
            self._lost |= self._seen.pop(moment.event.frame, set())
        look = _look(moment, _LOOKING)
        if look is not None and look.digest is not None:
            seen = self._seen.setdefault(moment.before.running.id, set())
            self.value += look in self._lost and look not in seen
            seen.add(look)


class RepeatedLooks:
    """Looks at the workspace that told to the letter what the same call had told before, or failed as it had before.

    Whether a frame, a window or a summary lost it, it was paid for again: strategies without frames show here too.
    """

    kinds = facts.ToolReturned

    def __init__(self) -> None:
        self.value = 0
        self._last: dict[_Asked, bytes | None] = {}

    def add(self, moment: Moment) -> None:
        look = _look(moment, _LOOKING)
        if look is not None:
            self.value += look.asked in self._last and self._last[look.asked] == look.digest
            self._last[look.asked] = look.digest


def false_pops(moment: Moment) -> int:
    """Frames that said they were done while their verify command failed, and roots whose run the checks then failed."""
    match moment.event:
        case facts.FramePopped(forced="", verified=verified):
            return int(verified not in _PASSED)
        case facts.ChecksReturned(error=""):
            end = moment.after.end
            return int(moment.after.solved is False and end is not None and end.ending == "popped")
        case _:
            return 0


def _look(moment: Moment, tools: Container[str]) -> _Look | None:
    """What a tool's return answers, where the call is of one of the tools."""
    event, pending = moment.event, moment.before.pending
    if not isinstance(event, facts.ToolReturned) or pending is None or not pending.calls:
        return None
    call = pending.calls[0]
    if call.name not in tools:
        return None
    return _Look(_asked(call), None if event.failed else _digest(event.text))


@lru_cache(maxsize=1)
def _digest(text: str) -> bytes:
    """Several figures ask for that of the same text, one after the other."""
    return sha256(text.encode(errors="replace")).digest()


def _asked(call: ToolCall) -> _Asked:
    """What a call asks for, told apart from others; blanks around it and a path's leading ``./`` do not matter."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    said = {name: str(value).strip() for name, value in given.items() if value is not None}
    if "path" in said:
        said["path"] = said["path"].removeprefix("./")
    return (call.name, *(f"{name}={said[name]}" for name in sorted(said)))


class MemoryCallShare:
    """Share of calls that manage memory: pushes, pops, and tools for a heap or notes; the call that ends the root is
    none of them.

    It is the price of memory in steps. None in a run without calls.
    """

    kinds = facts.ModelReplied

    def __init__(self) -> None:
        self._memory, self._all = 0, 0

    def add(self, moment: Moment) -> None:
        if not isinstance(moment.event, facts.ModelReplied):
            return
        root = moment.before.running.depth == 0
        for part in moment.event.parts:
            if isinstance(part, ToolCall):
                self._all += 1
                self._memory += part.name in _MEMORY and not (root and part.name in _ENDING)

    @property
    def value(self) -> float | None:
        return round(self._memory / self._all, 4) if self._all else None


class ReadsPerWrite:
    """Reads of chunks for each time one was stored or rewritten; ``store`` of a push or pop counts each chunk.

    Below 1, more was kept than was ever wanted. None where nothing was stored.
    """

    kinds = facts.ChunkRead | facts.ChunkAllocated | facts.ChunkWritten | facts.FramePushed | facts.FramePopped

    def __init__(self) -> None:
        self._reads, self._writes = 0, 0

    def add(self, moment: Moment) -> None:
        match moment.event:
            case facts.ChunkRead(names=names):
                self._reads += len(names)
            case facts.ChunkAllocated() | facts.ChunkWritten():
                self._writes += 1
            case facts.FramePushed(stored=stored) | facts.FramePopped(stored=stored):
                self._writes += len(stored)

    @property
    def value(self) -> float | None:
        return round(self._reads / self._writes, 4) if self._writes else None


class NeverReadShare:
    """Share of the stored chunks that no heap_read ever asked for. A name that was freed and used again is two chunks.

    They cost a line of every index, and helped nobody. None where nothing was stored.
    """

    def __init__(self) -> None:
        self._stored = 0
        self._unread: set[str] = set()
        self._lost = 0

    def add(self, moment: Moment) -> None:
        match moment.event:
            case facts.ChunkAllocated(name=name):
                self._store(name)
            case facts.FramePushed(stored=stored) | facts.FramePopped(stored=stored):
                for name in stored:
                    if name not in moment.before.heap.chunks:
                        self._store(name)
            case facts.ChunkRead(names=names):
                self._unread.difference_update(names)
            case facts.ChunkFreed(name=name):
                self._lost += name in self._unread
                self._unread.discard(name)

    def _store(self, name: str) -> None:
        self._stored += 1
        self._unread.add(name)

    @property
    def value(self) -> float | None:
        return round((self._lost + len(self._unread)) / self._stored, 4) if self._stored else None


def stale_reads(moment: Moment) -> int:
    """Reads of chunks whose source had changed since they were stored. The model was told, and may still have erred."""
    if not isinstance(moment.event, facts.ChunkRead):
        return 0
    heap = moment.before.heap
    read = (heap.chunks.get(name) for name in moment.event.names)
    return sum(chunk is not None and heap.stale(chunk) for chunk in read)
