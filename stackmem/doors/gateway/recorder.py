"""Records requests and answers off the event loop, in order within each conversation.

- A request is parsed before it is ordered. From then on, the records of a conversation keep the order of arrival:
  conversations that begin with the same words wait for each other, but for no others.
- Recording that has started always finishes, even if the client leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import httpx2

from stackmem.core.facts import ModelFailed, ModelReplied

from .ledger import CameRequest, GatewayLedger, UnderwayRequest
from .workers import SMALL_BYTES, Workers

T = TypeVar("T")


class Recorder:
    """Records the traffic of one gateway; bound to its event loop."""

    def __init__(self, ledger: GatewayLedger, workers: Workers) -> None:
        self._ledger, self._workers = ledger, workers
        self._lanes: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._under_way: set[asyncio.Task[Any]] = set()

    def begin(self, came: CameRequest) -> asyncio.Task[None]:
        """Start recording a request, if that has not happened yet, and return the task."""
        came.recording = came.recording or self._task(self._record(came))
        return came.recording

    async def recorded(self, came: CameRequest) -> UnderwayRequest | None:
        """Wait until a request is recorded; return None if it cannot be recorded or already has its answer."""
        await asyncio.shield(self.begin(came))
        if came.underway is not None:
            came.underway.first = came.first
        return came.underway

    async def record_complete(self, came: CameRequest, answer: httpx2.Response, chunks: list[bytes]) -> None:
        """Record an answer that is complete although its stream is still open."""
        underway = await self.recorded(came)
        if underway is not None:
            work = partial(self._ledger.record_complete, underway, answer, list(chunks))
            came.underway = await self._in_order(came, _work(came, chunks), work)

    async def record_answer(self, came: CameRequest, answer: httpx2.Response, chunks: list[bytes], reason: str) -> None:
        """Record an answer from its bytes. ``reason`` says what interrupted it; empty if it is complete."""
        underway = await self.recorded(came)
        if underway is not None:
            work = partial(self._ledger.record_answer, underway, answer, chunks, reason)
            await self._in_order(came, _work(came, chunks), work)

    async def end(self, came: CameRequest, status: int, reply: ModelReplied | ModelFailed) -> None:
        """Record an answer that consists only of this reply or failure."""
        underway = await self.recorded(came)
        if underway is not None:
            await self._in_order(came, 0, partial(self._ledger.end, underway, status, reply))

    async def close(self) -> None:
        """Wait for all recording in progress."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _in_order(self, came: CameRequest, size: int, work: Callable[[], T]) -> T:
        """Run work after all earlier records of the conversation; it finishes even if the caller is cancelled."""

        async def in_lane() -> T:
            async with came.lane:
                return await self._workers.run(size, work)

        return await asyncio.shield(self._task(in_lane()))

    async def _record(self, came: CameRequest) -> None:
        prepared = await self._workers.run(len(came.plain), partial(self._ledger.prepare, came))
        if prepared is not None:
            came.lane = self._lanes.setdefault(prepared.opening, came.lane)
            async with came.lane:
                came.underway = await self._workers.run(len(came.plain), partial(self._ledger.record, came, prepared))


def _work(came: CameRequest, pieces: list[bytes]) -> int:
    """Return the bytes to work on for an answer: without usage, the tokens of the request are counted too."""
    size = sum(map(len, pieces))
    return size if any(b'"usage' in piece for piece in pieces) else max(size + len(came.plain), SMALL_BYTES)
