"""Reads messages from an editor, one per line; answers and drops malformed lines before the library sees them."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

LONGEST_BYTES = 32 << 20
"""Longer lines are refused, and never held in memory as a whole."""

_NOTIFICATIONS = frozenset({"session/cancel"})
"""The only ones that mean something here. JSON-RPC lets a receiver ignore all others, and editors send many."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class BadLine(Exception):  # noqa: N818 - the editor's mistake: answered, not raised to the user
    """A line that is not a valid message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        # the error response for the editor
        self.answer = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}


def read_message(line: bytes) -> dict[str, Any]:
    """Parse one line into a message."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(_PARSE_ERROR, "the line is not JSON; send one message per line, in UTF-8") from error
    if not isinstance(value, dict):
        raise BadLine(_INVALID_REQUEST, "the line is not a JSON object; send one message per line, without batches")
    if "method" in value and not isinstance(value["method"], str):
        raise BadLine(_INVALID_REQUEST, "method must be a string")
    number = value.get("id")
    if isinstance(number, bool) or not isinstance(number, int | str | None):
        raise BadLine(_INVALID_REQUEST, "id must be a string, a whole number or null")
    if not isinstance(value.get("error"), dict | None):
        raise BadLine(_INVALID_REQUEST, "error must be an object")
    return value


def is_ignored(message: dict[str, Any]) -> bool:
    """Return whether a message is a notification that means nothing here, or a cancellation of no session."""
    if "method" not in message or "id" in message:
        return False
    params = message.get("params")
    has_session = isinstance(params, dict) and isinstance(params.get("sessionId"), str)
    return message["method"] not in _NOTIFICATIONS or not has_session


class LineTransport:
    """The library's transport over two byte streams.

    ``gone`` is called once, in the reading thread, after the editor has closed its end.
    """

    def __init__(self, reads: BinaryIO, writes: int, on_disconnect: Callable[[], object]) -> None:
        self._reads, self._writes, self._on_disconnect = reads, writes, on_disconnect
        self._messages: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        # takes a message that is not for this process, and returns whether it did
        self.diverts: Callable[[dict[str, Any]], bool] = _nothing_diverted
        threading.Thread(target=self._read, name="acp-lines", daemon=True).start()

    async def receive(self) -> dict[str, Any] | None:
        return await self._messages.get()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message as ASCII JSON, because a lone surrogate could not be encoded otherwise."""
        remaining = memoryview(json.dumps(message).encode("ascii") + b"\n")
        try:
            while remaining:
                remaining = remaining[os.write(self._writes, remaining) :]
        except OSError as error:
            raise ConnectionError("the editor closed the connection") from error

    async def close(self) -> None:
        """Do nothing: both streams belong to the process and close with it."""

    async def _take(self, line: bytes, *, complete: bool) -> None:
        try:
            if not complete:
                raise BadLine(_INVALID_REQUEST, f"the line is longer than {LONGEST_BYTES >> 20} MiB")
            message = read_message(line)
            if not is_ignored(message) and not self.diverts(message):
                self._messages.put_nowait(message)
        except BadLine as bad:
            await self.send(bad.answer)

    def _read(self) -> None:
        try:
            while line := self._reads.readline(LONGEST_BYTES + 1):
                complete = len(line) <= LONGEST_BYTES
                rest = line
                while not rest.endswith(b"\n") and rest:
                    rest = self._reads.readline(LONGEST_BYTES)
                if line.strip():
                    asyncio.run_coroutine_threadsafe(self._take(line, complete=complete), self._loop).result()
        except (OSError, RuntimeError):  # the editor is gone, or the loop has ended
            pass
        finally:
            self._on_disconnect()
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._messages.put_nowait, None)


def _nothing_diverted(message: dict[str, Any]) -> bool:
    """Divert no message."""
    return False
