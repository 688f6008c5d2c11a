"""Collects a command's output in bounded memory: its beginning, its end and its total size."""

from __future__ import annotations

from collections import deque

_HEAD_BYTES = 64 << 10
_TAIL_BYTES = 256 << 10


class Capture:
    """Collects bytes in order; keeps the first ``head_bytes`` and the last 256 KiB."""

    def __init__(self, head_bytes: int = _HEAD_BYTES) -> None:
        self.total = 0  # total number of bytes received
        self._head_bytes = head_bytes
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def take(self, piece: bytes) -> None:
        self.total += len(piece)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if not piece:
            return
        self._tail.append(piece)
        self._tail_bytes += len(piece)
        while self._tail_bytes - len(self._tail[0]) >= _TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def parts(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end, cut at character boundaries. If nothing was dropped, the first part is
        everything.
        """
        tail = b"".join(self._tail)
        if self._head_and(tail) == self.total:
            return bytes(self._head) + tail, b""
        return _whole_end(bytes(self._head)), _whole_start(tail[-_TAIL_BYTES:])

    def _head_and(self, tail: bytes) -> int:
        return len(self._head) + len(tail)


def _whole_end(piece: bytes) -> bytes:
    """Drop an incomplete character at the end."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return piece[:-back] if needed > back else piece
    return piece


def _whole_start(piece: bytes) -> bytes:
    """Drop an incomplete character at the start."""
    for start in range(min(4, len(piece))):
        if piece[start] & 0xC0 != 0x80:
            return piece[start:]
    return piece
