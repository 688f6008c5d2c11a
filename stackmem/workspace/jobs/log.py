"""The output of a job in bounded memory: its beginning, its end and its size, readable by position while it grows.

One thread writes and another one reads, without a lock, because Ctrl-C could interrupt the reader while it has it. The
writer only appends, drops the oldest piece and replaces the newest one, each in a single step.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

HEAD_BYTES = 64 << 10
TAIL_BYTES = 1 << 20
_PIECE_BYTES = 16 << 10


class LogPart(Struct, frozen=True):
    """A part of a log."""

    start: int  # position of its first byte, which is later than the wanted one if bytes in between were dropped
    content: bytes  # its bytes
    dropped: int = 0  # number of bytes between the wanted position and ``start`` that are not kept any more

    @property
    def end(self) -> int:
        return self.start + len(self.content)


class JobLog:
    """Keeps the first 64 KiB and the last MiB of a job's output."""

    def __init__(self) -> None:
        self.total = 0  # number of bytes received
        self._head = b""
        self._pieces: deque[tuple[int, bytes]] = deque()  # after the head, each with its position
        self._newest = 0, b""

    def take(self, piece: bytes) -> None:
        """Append output."""
        room = HEAD_BYTES - len(self._head)
        at = self.total
        if room > 0:
            self._head += piece[:room]
            at, piece = at + len(piece[:room]), piece[room:]
        if piece:
            start, newest = self._newest
            if newest and len(newest) < _PIECE_BYTES:
                self._newest = start, newest + piece
            else:
                if newest:
                    self._pieces.append(self._newest)
                self._newest = at, piece
            while self._pieces and at + len(piece) - self._pieces[0][0] - len(self._pieces[0][1]) > TAIL_BYTES:
                self._pieces.popleft()
        self.total = at + len(piece)

    def read(self, start: int, most: int) -> LogPart:
        """Return at most ``most`` bytes from a position on. A negative position counts from the end."""
        total = self.total
        begin = max(0, total + start) if start < 0 else min(start, total)
        if begin < len(self._head):
            return LogPart(begin, self._head[begin : begin + most])
        newest = self._newest  # first, or what moves into the pieces meanwhile would be missing
        content, at, dropped = bytearray(), begin, 0
        for position, piece in (*self._pieces.copy(), newest):
            if position + len(piece) <= at:
                continue
            if not content and position > at:
                dropped, at = position - at, position
            content += piece[at - position :]
            at = position + len(piece)
            if len(content) >= most:
                break
        return LogPart(at - len(content), bytes(content[:most]), dropped)

    def parts(self) -> tuple[bytes, bytes]:
        """Return the beginning and the end, as those of a command's output."""
        last = self.read(max(len(self._head), self.total - TAIL_BYTES), TAIL_BYTES).content
        if len(self._head) + len(last) == self.total:
            return self._head + last, b""
        return self._head, last
