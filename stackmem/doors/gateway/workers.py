"""Worker threads for slow work, so that a large request does not block others.

- Small work runs inline, because handing it over would take longer.
- Medium and large work have separate threads, so that quick work never waits for slow work.
- Memory for all current requests is limited, and so is the number of tasks that wait for a thread.
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
MAX_HELD_BYTES = 1 << 30


class Workers:
    """Runs work of a known size."""

    def __init__(self) -> None:
        self.reserved_bytes = 0  # bytes of all requests being served
        self._lock = Lock()
        self._middle = ThreadPoolExecutor(_THREADS, "gateway-middle")
        self._large = ThreadPoolExecutor(_THREADS, "gateway-large")

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run work and return its result; large work runs in a thread, off the event loop."""
        if size < SMALL_BYTES:
            return work()
        pool = self._middle if size < _LARGE_BYTES else self._large
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def hold(self, size: int) -> bool:
        """Reserve memory for a request; return False if it would exceed the limit."""
        with self._lock:
            if self.reserved_bytes + size > MAX_HELD_BYTES:
                return False
            self.reserved_bytes += size
            return True

    def release(self, size: int) -> None:
        """Free reserved memory."""
        with self._lock:
            self.reserved_bytes -= size

    def close(self) -> None:
        """Stop the threads after their queued work."""
        self._middle.shutdown()
        self._large.shutdown()
