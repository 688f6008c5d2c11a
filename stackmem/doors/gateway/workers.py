"""Threads for long work of the gateway, so that a large request does not keep others waiting.

Rule 1: work on few bytes is done at once: to hand it over would take longer.
Rule 2: large and middle-sized work have threads of their own, so that what is quick never waits for what is not.
Rule 3: the bytes of all requests that are held at a time are bounded, and so is the number of what waits for a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

T = TypeVar("T")

SMALL_BYTES = 64 << 10
_LARGE_BYTES = 1 << 20
_THREADS = 4
MOST_HELD_BYTES = 1 << 30


class Workers:
    """Does work of a known size."""

    def __init__(self) -> None:
        self.held = 0  # the bytes of all requests that are being served
        self._lock = Lock()
        self._middle = ThreadPoolExecutor(_THREADS, "gateway-middle")
        self._large = ThreadPoolExecutor(_THREADS, "gateway-large")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """What the work returns, done without keeping the event loop if it is on many bytes."""
        if size < SMALL_BYTES:
            return work()
        pool = self._middle if size < _LARGE_BYTES else self._large
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def hold(self, size: int) -> bool:
        """Count bytes of a request as held; False if there would be too many."""
        with self._lock:
            if self.held + size > MOST_HELD_BYTES:
                return False
            self.held += size
            return True

    def release(self, size: int) -> None:
        """Count bytes no longer."""
        with self._lock:
            self.held -= size

    def close(self) -> None:
        """End the threads; what was handed over is done first."""
        self._middle.shutdown()
        self._large.shutdown()
