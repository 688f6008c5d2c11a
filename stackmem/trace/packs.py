"""Reading the packs of a folder of git objects: what a history takes from the repository that its run works on.

A pack's index (version 2) is a table of 256 counts, the sorted names, checksums, and 31-bit places in the pack; the top
bit of a place leads to a table of long ones. An object is whole, or a *delta*: pieces of another one, and new bytes.
Whoever asks compares what comes with its name. Source: gitformat-pack(5).
"""

from __future__ import annotations

import mmap
import struct
import zlib
from contextlib import suppress
from pathlib import Path

_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
_BY_PLACE, _BY_NAME = 6, 7
_DELTAS = 5_000  # one on another; git makes 50, and at most 4,095
_READ_BYTES = 1 << 14
_MAGIC = b"\xfftOc\0\0\0\2"


class Packs:
    """The packs in one folder, opened when the first object is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs: list[_Pack] | None = None

    def read(self, name: str, most_bytes: int) -> tuple[bytes, bytes] | None:
        """Kind and content; None where no pack holds the object.

        Raises:
            ValueError: The pack is damaged, or the object is larger.
            OSError: The pack cannot be read.
        """
        if self._packs is None:
            self._packs = [_Pack(path) for path in sorted((self._folder / "pack").glob("*.idx"))]
        for pack in self._packs:
            place = pack.place(bytes.fromhex(name))
            if place is not None:
                try:
                    return pack.read(place, most_bytes)
                except (IndexError, struct.error, zlib.error, KeyError) as error:
                    raise ValueError(f"the pack {pack.path.name} is damaged") from error
        return None


class _Pack:
    def __init__(self, index: Path) -> None:
        self.path = index.with_suffix(".pack")
        self._index = _mapped(index)
        self._content: mmap.mmap | None = None
        self._count = 0
        if self._index[:8] == _MAGIC:  # the older version has none, and has not been written since 2008
            with suppress(struct.error):
                self._count = self._number(8 + 255 * 4)

    def place(self, name: bytes) -> int | None:
        """Where the object begins; None where it is not here."""
        if not self._count:
            return None
        first = name[0]
        low = self._number(8 + (first - 1) * 4) if first else 0
        high = self._number(8 + first * 4)
        names = 8 + 1024
        while low < high:
            middle = (low + high) // 2
            this = self._index[names + middle * 20 : names + middle * 20 + 20]
            if this == name:
                return self._place_at(names + self._count * 24, middle)
            low, high = (middle + 1, high) if this < name else (low, middle)
        return None

    def _place_at(self, table: int, number: int) -> int:
        place = self._number(table + number * 4)
        if place < 1 << 31:
            return place
        long = table + self._count * 4 + (place & 0x7FFFFFFF) * 8
        return int(struct.unpack(">Q", self._index[long : long + 8])[0])

    def _number(self, at: int) -> int:
        return int(struct.unpack(">I", self._index[at : at + 4])[0])

    def read(self, place: int, most_bytes: int) -> tuple[bytes, bytes]:
        deltas: list[bytes] = []
        for _ in range(_DELTAS):
            kind, length, at = self._head(place)
            if length > most_bytes:
                raise ValueError("an object is too large")
            if kind == _BY_PLACE:
                back, at = self._offset(at)
                base = place - back
            elif kind == _BY_NAME:
                base = self.place(self._bytes(at, 20)) or 0
                at += 20
            content = self._inflated(at, length)
            if kind in _KINDS:
                for delta in reversed(deltas):
                    content = _applied(delta, content, most_bytes)
                return _KINDS[kind], content
            if not 0 < base < 1 << 62 or base == place:
                raise ValueError("a delta without its base")
            deltas.append(content)
            place = base
        raise ValueError("deltas without an end")

    def _head(self, at: int) -> tuple[int, int, int]:
        """Kind, length, and where the rest begins."""
        byte = self._byte(at)
        kind, length, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            at += 1
            byte = self._byte(at)
            length |= (byte & 127) << shift
            shift += 7
        return kind, length, at + 1

    def _offset(self, at: int) -> tuple[int, int]:
        """How far back the base lies, and where the rest begins."""
        byte = self._byte(at)
        back = byte & 127
        while byte & 128:
            at += 1
            byte = self._byte(at)
            back = (back + 1) << 7 | byte & 127
        return back, at + 1

    def _byte(self, at: int) -> int:
        return self._bytes(at, 1)[0]

    def _bytes(self, at: int, count: int) -> bytes:
        if self._content is None:
            self._content = _mapped(self.path)
        return self._content[at : at + count]

    def _inflated(self, at: int, length: int) -> bytes:
        unpacker = zlib.decompressobj()
        parts: list[bytes] = []
        left = length
        while left > 0 and (piece := self._bytes(at, _READ_BYTES)):
            at += len(piece)
            parts.append(unpacker.decompress(piece, left))
            left -= len(parts[-1])
        if left:
            raise ValueError("an object is cut short")
        return b"".join(parts)


def _applied(delta: bytes, base: bytes, most_bytes: int) -> bytes:
    """What a delta makes of its base: copies of parts of it, and bytes of its own."""
    _, at = _size(delta, 0)
    length, at = _size(delta, at)
    if length > most_bytes:
        raise ValueError("an object is too large")
    made = bytearray()
    while at < len(delta):
        order = delta[at]
        at += 1
        if order & 128:
            numbers = [0] * 7  # four bytes of the place, three of the length
            for bit in range(7):
                if order & 1 << bit:
                    numbers[bit] = delta[at]
                    at += 1
            start = int.from_bytes(bytes(numbers[:4]), "little")
            made += base[start : start + (int.from_bytes(bytes(numbers[4:]), "little") or 0x10000)]
        else:
            made += delta[at : at + order]
            at += order
        if len(made) > length or not order:
            raise ValueError("a delta that makes too much")
    return bytes(made)


def _size(delta: bytes, at: int) -> tuple[int, int]:
    size, shift = 0, 0
    while delta[at] & 128:
        size |= (delta[at] & 127) << shift
        shift += 7
        at += 1
    return size | delta[at] << shift, at + 1


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
