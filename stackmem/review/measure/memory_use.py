"""Metrics of memory use: frames and the heap, repeated work, and work that was wrongly reported as done."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from msgspec import UNSET

from stackmem.core import facts
from stackmem.core.frames import NOT_VERIFIED
from stackmem.core.guidance import checkpoints
from stackmem.core.guidance.checkpoints import HandOver
from stackmem.core.messages import ToolCall
from stackmem.core.tools import PopCall, ReadFile, RunCommand, tool_name, tools_that

from .moments import Moment

_LOOKING = tools_that(lambda behavior: behavior.reads_files)
_READING, _RUNNING = (tool_name(ReadFile),), (tool_name(RunCommand),)
_ENDING = tools_that(lambda behavior: behavior.frame == "ends")
_MEMORY = tools_that(lambda behavior: not (behavior.reads_files or behavior.changes_files))
_PASSED = ("", NOT_VERIFIED, "exit 0")

_HAND_OVERS = facts.FramePushed | facts.FramePopped

_Request = tuple[str, ...]


class _Look(NamedTuple):
    """An answered call. ``digest`` is that of the text, or None if the call failed."""

    request: _Request
    digest: bytes | None


class Rereads:
    """Reads of a file, or of the same lines of it, that returned the same as the last such read in this run.

    The run pays twice for content that a frame still has, or had and lost.
    """

    kinds = facts.ToolReturned

    def __init__(self) -> None:
        self.value = 0
        self._digests: dict[_Request, bytes] = {}

    def add(self, moment: Moment) -> None:
        look = _look(moment, _READING)
        if look is not None and look.digest is not None:
            self.value += self._digests.get(look.request) == look.digest
            self._digests[look.request] = look.digest


class Rediscoveries:
    """Commands whose last attempt failed in a finished frame and that were tried again in another frame.

    This is the cost that the heap should remove. A command counts once for each frame that tries it again.
    """

    kinds = facts.ToolReturned | facts.FramePopped

    def __init__(self) -> None:
        self.value = 0
        self._failing: dict[str, set[_Request]] = {}
        self._lost: set[_Request] = set()
        self._tried: dict[str, set[_Request]] = {}

    def add(self, moment: Moment) -> None:
        if isinstance(moment.event, facts.FramePopped):
            self._lost |= self._failing.pop(moment.event.frame, set())
            self._tried.pop(moment.event.frame, None)
        look = _look(moment, _RUNNING)
        if look is None:
            return
        frame, request = moment.before.running.id, look.request
        tried, failing = self._tried.setdefault(frame, set()), self._failing.setdefault(frame, set())
        self.value += request in self._lost and request not in tried
        tried.add(request)
        (failing.add if look.digest is None else failing.discard)(request)


class FoundAgain:
    """Looks at the workspace that returned exactly what the same call had returned in a finished frame.

    A fact was lost with that frame and found again. Failed calls count as rediscoveries instead.
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
    """Looks at the workspace that returned exactly what the same call had returned before, or failed as before.

    The run paid for it again, whether a frame, a window or a summary lost it. This covers strategies without frames
    too.
    """

    kinds = facts.ToolReturned

    def __init__(self) -> None:
        self.value = 0
        self._last: dict[_Request, bytes | None] = {}

    def add(self, moment: Moment) -> None:
        look = _look(moment, _LOOKING)
        if look is not None:
            self.value += look.request in self._last and self._last[look.request] == look.digest
            self._last[look.request] = look.digest


def false_pops(moment: Moment) -> int:
    """Frames that reported success although their verify command failed, and roots whose run then failed the checks."""
    match moment.event:
        case facts.FramePopped(forced="", verified=verified):
            return int(verified not in _PASSED)
        case facts.ChecksReturned(error=""):
            end = moment.after.end
            return int(moment.after.solved is False and end is not None and end.ending == "popped")
        case _:
            return 0


def left_out(moment: Moment) -> int:
    """Findings of a frame that a push or pop neither stored nor named: commands that worked after others had failed,
    files read, results, rules of the user. Later frames may have to find them again.
    """
    call = moment.before.pending.call if moment.before.pending else None
    if not isinstance(moment.event, _HAND_OVERS) or moment.before.running.program or not isinstance(call, HandOver):
        return 0
    ends_heap = not moment.before.running.depth and moment.before.begun.heap is UNSET
    return 0 if isinstance(call, PopCall) and ends_heap else len(checkpoints.left_out(moment.before, call))


def checkpoint_answers(moment: Moment) -> int:
    """Pushes and pops whose first attempt was answered with what they left out. Each costs a request."""
    return int(isinstance(moment.event, facts.CallRejected) and moment.event.code == checkpoints.CODE)


def checkpoints_improved(moment: Moment) -> int:
    """Answered pushes and pops whose second attempt handed over more or other content."""
    return int(isinstance(moment.event, _HAND_OVERS) and moment.event.checkpoint == "improved")


def _look(moment: Moment, tools: Container[str]) -> _Look | None:
    """Return the answered call if it is one of these tools, otherwise None."""
    event, pending = moment.event, moment.before.pending
    if not isinstance(event, facts.ToolReturned) or pending is None or not pending.calls:
        return None
    call = pending.calls[0]
    if call.name not in tools:
        return None
    return _Look(_call_key(call), None if event.failed else _digest(event.text))


@lru_cache(maxsize=1)
def _digest(text: str) -> bytes:
    """Return the digest of a text. Cached, because several metrics need it for the same text in a row."""
    return sha256(text.encode(errors="replace")).digest()


def _call_key(call: ToolCall) -> _Request:
    """Return a key for what a call requests. Surrounding blanks and a path's leading ``./`` are ignored."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    texts = {name: str(value).strip() for name, value in arguments.items() if value is not None}
    if "path" in texts:
        texts["path"] = texts["path"].removeprefix("./")
    return (call.name, *(f"{name}={texts[name]}" for name in sorted(texts)))


class MemoryCallShare:
    """Share of calls that manage memory: pushes, pops, and tools for a heap or notes, except the call that ends the
    root.

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
    """Reads of chunks per stored or rewritten chunk. ``store`` of a push or pop counts each chunk.

    Below 1, the run stored more than it read. None if no chunk was stored.
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
    """Share of the stored chunks that were never read. A name that was freed and used again counts as two chunks.

    They take a line in every index without being used. None if no chunk was stored.
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
    """Reads of chunks whose source had changed since they were stored. The chunk was marked STALE, but may have
    misled the model.
    """
    if not isinstance(moment.event, facts.ChunkRead):
        return 0
    heap = moment.before.heap
    read = (heap.chunks.get(name) for name in moment.event.names)
    return sum(chunk is not None and heap.stale(chunk) for chunk in read)
