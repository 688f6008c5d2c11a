"""Reads a tar archive as a stream of entries. Every size in it is checked before use.

The standard library's ``tarfile`` is unsuitable: it treats a damaged header as the end, reads headers of any size into
memory, and in some Python versions loops forever on a negative size.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, cast

from msgspec import Struct

from .tree import ArchiveError, write_all

Kind = Literal["file", "folder", "link", "hard link", "other"]
_BLOCK = 512
_PART = 1 << 20
_MAX_HEADER = 1 << 20
_MAX_HEADERS = 64
_MAX_SEGMENTS = 200_000
_KINDS: dict[bytes, Kind] = {
    b"0": "file", b"\0": "file", b"7": "file", b"S": "file",
    b"1": "hard link", b"2": "link", b"3": "other", b"4": "other", b"5": "folder", b"6": "other",
}  # fmt: skip
_WITHOUT_CONTENT = b"123456"
_LONG_NAME, _LONG_LINK, _GLOBAL = b"L", b"K", b"g"
_EXTENDED = (b"x", b"X")
_OPENERS: tuple[tuple[bytes, Callable[[BinaryIO], object]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\0", lzma.LZMAFile),
    (b"\x5d\0\0", lzma.LZMAFile),
)
BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error)
"""Exceptions that decompressors raise for damaged data."""


class ArchiveBudget(Struct):
    """Remaining limits for reading an archive, including nested archives."""

    bytes: int  # decompressed size of headers and contents; holes of sparse files count
    entries: int  # number of entries of any kind

    def spend(self, size: int, entries: int = 0) -> None:
        """Deduct an amount. Raises ``ArchiveError`` if the budget is exceeded."""
        self.bytes -= size
        self.entries -= entries
        if self.bytes < 0 or self.entries < 0:
            raise ArchiveError("it contains more files or bytes than an honest archive of its size")


class _Header(Struct):
    name: bytes
    kind: bytes
    mode: int
    size: int
    mtime: int
    target: bytes


class TarEntry(Struct):
    """One entry."""

    name: bytes  # as in the archive, so it may be absolute or contain ``..``
    kind: Kind
    mode: int
    mtime_ns: int
    target: bytes
    size: int  # size of the written file
    # offset and length of each stored part, in order; between them are holes
    segments: tuple[tuple[int, int], ...]
    offset: int  # offset of the content in the decompressed archive


class TarReader:
    """Yields entries in order. An entry's content is readable until the next entry."""

    def __init__(self, file: BinaryIO, budget: ArchiveBudget) -> None:
        self._file, self._budget = file, budget
        self._left = self._padding = 0
        self.position = 0

    def __iter__(self) -> Iterator[TarEntry]:
        while (entry := self._next()) is not None:
            yield entry

    def write(self, entry: TarEntry, fd: int) -> None:
        """Write the content of the last entry to a new file."""
        for offset, length in entry.segments:
            if offset:
                os.lseek(fd, offset, os.SEEK_SET)
            for part in self._parts(length):
                write_all(fd, part)
        if not entry.segments or sum(entry.segments[-1]) != entry.size:
            os.ftruncate(fd, entry.size)

    def _next(self) -> TarEntry | None:
        self._skip()
        extended: list[tuple[bytes, bytes]] = []
        long: dict[bytes, bytes] = {}
        for _ in range(_MAX_HEADERS):
            block = self._bytes(_BLOCK, may_end=not extended and not long)
            if not block or block.count(0) == _BLOCK:
                return None
            header = self._header(block)
            if header.kind in (_LONG_NAME, _LONG_LINK):
                long[header.kind] = self._content(header.size).split(b"\0", 1)[0]
            elif header.kind in _EXTENDED:
                extended += _records(self._content(header.size))
            elif header.kind == _GLOBAL:
                self._content(header.size)  # comments, for example from git; without effect on the files
            else:
                return self._entry(header, block, extended, long)
        raise ArchiveError(f"more than {_MAX_HEADERS} headers before one entry")

    def _header(self, block: bytes) -> _Header:
        try:
            return _parsed(block)
        except ArchiveError as error:
            raise ArchiveError(f"it is damaged at byte {self.position - _BLOCK:,}: {error}") from error

    def _entry(
        self, header: _Header, block: bytes, extended: list[tuple[bytes, bytes]], long: dict[bytes, bytes]
    ) -> TarEntry:
        fields = dict(extended)
        name = fields.get(b"GNU.sparse.name", fields.get(b"path", long.get(_LONG_NAME, header.name)))
        target = fields.get(b"linkpath", long.get(_LONG_LINK, header.target))
        stored = _number(fields[b"size"]) if b"size" in fields else header.size
        self._left = 0 if header.kind in _WITHOUT_CONTENT else stored
        self._padding = -self._left % _BLOCK
        self._budget.spend(self._left, 1)
        kind = _KINDS.get(header.kind, "other")
        size = self._left
        segments: tuple[tuple[int, int], ...] = ((0, size),) if size else ()
        sparse = self._sparse(block, extended, fields) if kind == "file" else None
        if sparse is not None:
            size, segments = sparse
            self._budget.spend(size)
            _check_segments(size, segments, self._left)
        return TarEntry(name, kind, header.mode, _nanoseconds(fields, header), target, size, segments, self.position)

    def _sparse(
        self, block: bytes, extended: list[tuple[bytes, bytes]], fields: dict[bytes, bytes]
    ) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return size and segments of a sparse file in the formats of GNU tar, or None for other files."""
        numbers: list[int] = []
        if block[156:157] == b"S":
            size, at, count, more = _field(block[483:495]), 386, 4, block[482]
            while True:
                numbers += [_field(block[at + 12 * each : at + 12 * each + 12]) for each in range(2 * count)]
                if not more or len(numbers) > 2 * _MAX_SEGMENTS:
                    break
                block = self._bytes(_BLOCK)  # between header and content, and not included in the content's size
                at, count, more = 0, 21, block[504]
            pairs = [pair for pair in zip(numbers[::2], numbers[1::2], strict=True) if pair[1]]
            return size, tuple(pairs)
        if (fields.get(b"GNU.sparse.major"), fields.get(b"GNU.sparse.minor")) == (b"1", b"0"):
            size = _number(fields.get(b"GNU.sparse.realsize", b""))
            numbers = self._sparse_lines()
        elif b"GNU.sparse.size" in fields:
            size = _number(fields[b"GNU.sparse.size"])
            if b"GNU.sparse.map" in fields:
                numbers = [_number(each) for each in fields[b"GNU.sparse.map"].split(b",") if each]
            else:
                keys = (b"GNU.sparse.offset", b"GNU.sparse.numbytes")
                numbers = [_number(value) for key, value in extended if key in keys]
        else:
            return None
        if len(numbers) % 2:
            raise ArchiveError("a sparse file whose map is incomplete")
        return size, tuple(pair for pair in zip(numbers[::2], numbers[1::2], strict=True) if pair[1])

    def _sparse_lines(self) -> list[int]:
        """Read the map in front of the content: a count, then offset and length of each segment, one number per
        line.
        """
        numbers: list[int] = []
        rest, count = b"", 1
        while len(numbers) < count:
            if b"\n" not in rest:
                if len(rest) > _BLOCK or self._left < _BLOCK:
                    raise ArchiveError("a sparse file whose map is incomplete")
                rest += self._bytes(_BLOCK)
                self._left -= _BLOCK
                continue
            line, rest = rest.split(b"\n", 1)
            numbers.append(_number(line))
            count = 1 + 2 * numbers[0]
            if count > 2 * _MAX_SEGMENTS:
                raise ArchiveError(f"a sparse file of {numbers[0]:,} segments")
        return numbers[1:]

    def _content(self, size: int) -> bytes:
        if size > _MAX_HEADER:
            raise ArchiveError(f"a header of {size:,} bytes")
        content = self._bytes(size)
        self._bytes(-size % _BLOCK)
        return content

    def _parts(self, size: int) -> Iterator[bytes]:
        if size > self._left:
            raise ArchiveError("an entry whose content is incomplete")
        while size:
            part = self._bytes(min(size, _PART), counted=True)
            size -= len(part)
            self._left -= len(part)
            yield part

    def _skip(self) -> None:
        remaining = self._left + self._padding
        self._left = self._padding = 0
        if remaining > _PART and isinstance(self._file, io.BufferedReader):
            self._file.seek(remaining - 1, os.SEEK_CUR)  # seek only in plain files; a decompressor cannot skip
            self.position += remaining - 1
            remaining = 1
        while remaining:
            remaining -= len(self._bytes(min(remaining, _PART), counted=True))

    def _bytes(self, size: int, *, may_end: bool = False, counted: bool = False) -> bytes:
        """Read exactly ``size`` bytes.

        ``may_end`` says whether the archive may end here; the result is then empty. ``counted`` says whether the bytes
        are already in the budget.
        """
        data = self._file.read(size)
        self.position += len(data)
        if not counted:
            self._budget.spend(len(data))
        if len(data) < size and (data or not may_end):
            raise ArchiveError("it ends too early")
        return data


def plain(file: BinaryIO) -> BinaryIO:
    """Return the file itself, or a reader of its decompressed content."""
    start = file.read(6)
    file.seek(0)
    for magic, opened in _OPENERS:
        if start.startswith(magic):
            return cast("BinaryIO", opened(file))
    return file


def is_tar(file: BinaryIO) -> bool:
    """Return whether a file starts like a tar archive, compressed or not. The file is rewound afterwards."""
    try:
        block = plain(file).read(_BLOCK)
        return any(block) and _parsed(block) is not None
    except (ArchiveError, *BROKEN):
        return False
    finally:
        file.seek(0)


def _records(data: bytes) -> list[tuple[bytes, bytes]]:
    """Parse an extended header of ``LENGTH KEY=VALUE`` lines, where the length covers the whole line."""
    records, at = [], 0
    while at < len(data):
        space = data.find(b" ", at, at + 20)
        end = at + _number(data[at:space]) if space > at else 0
        key, equals, value = data[space + 1 : max(0, end - 1)].partition(b"=")
        if not (space < end <= len(data)) or not equals or data[end - 1 : end] != b"\n":
            raise ArchiveError("an extended header that is damaged")
        records.append((key, value))
        at = end
    return records


def _check_segments(size: int, segments: tuple[tuple[int, int], ...], stored: int) -> None:
    reached = 0
    for offset, length in segments:
        if offset < reached or length < 0:
            raise ArchiveError("a sparse file whose parts overlap")
        reached = offset + length
    if reached > size or len(segments) > _MAX_SEGMENTS or sum(length for _, length in segments) > stored:
        raise ArchiveError("a sparse file whose map does not fit its content")


def _number(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise ArchiveError(f"{text[:20]!r} is not a number")
    return int(text)


def _parsed(block: bytes) -> _Header:
    """Parse a header of 512 bytes. Raises ``ArchiveError`` if it is invalid."""
    if len(block) != _BLOCK:
        raise ArchiveError("it ends too early")
    total, check = sum(block) - sum(block[148:156]) + 256, _field(block[148:156])
    # old tars used signed bytes
    if check not in (total, total - 256 * sum(byte > 127 for byte in block[:148] + block[156:])):
        raise ArchiveError("bad checksum")
    name, prefix, kind = _text(block[:100]), b"", block[156:157]
    if block[257:263] == b"ustar\0" and block[345]:
        prefix = _text(block[345:500]) + b"/"
    if kind == b"\0" and name.endswith(b"/"):
        kind = b"5"  # pre-POSIX form of a folder
    size = _field(block[124:136])
    if size < 0:
        raise ArchiveError("a negative size")
    return _Header(prefix + name, kind, _field(block[100:108]), size, _field(block[136:148]), _text(block[157:257]))


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _field(field: bytes) -> int:
    """Parse a number: octal digits, or big-endian bytes if the first bit is set. Returns -1 if it is negative."""
    if field[0] & 0x80:
        return -1 if field[0] == 0xFF else int.from_bytes(bytes([field[0] & 0x7F]) + field[1:])
    digits = _text(field).strip(b" ")
    if digits.strip(b"01234567"):
        raise ArchiveError(f"{digits!r} is not a number")
    return int(digits or b"0", 8)


def _nanoseconds(fields: dict[bytes, bytes], header: _Header) -> int:
    seconds, _, fraction = fields.get(b"mtime", b"").partition(b".")
    if not seconds.isdigit() or len(seconds) > 12:
        return header.mtime * 1_000_000_000
    return int(seconds) * 1_000_000_000 + int(fraction[:9].ljust(9, b"0") if fraction.isdigit() else 0)
