"""The log of a bench: the digests of its trials and of packs that were handed in, in a file that only grows.

Its lines are the leaves of a Merkle tree as RFC 6962 hashes it, so one root stands for every line in its order, and a
few hashes show that a line belongs to it. Each time the bench ends, its machine's key signs the root.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.errors import TraceError, UsageError
from stackmem.foreign.files import open_regular, read_regular
from stackmem.trace.private import owners
from stackmem.trace.signatures import SigningKey, Unsigned, is_signed
from stackmem.trace.store import append_line, cut_torn_line

LOG, HEADS = "log.jsonl", "heads.jsonl"
_CONTEXT = b"stackmem bench head 1\n"
_encoder = msgspec.json.Encoder(order="deterministic")


class BenchEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A run that counts, once.

    Attributes:
        digest: Of its last record; empty of a trial that left no run.
        trial, row: Of a trial: its id, and the SHA-256 of its line in the ledger.
        run: Of a pack that was handed in: its name.
        earlier: Of such a one that was resumed after an end, the digests of those ends.
    """

    digest: str
    outcome: str
    trial: str = ""
    row: str = ""
    run: str = ""
    earlier: tuple[str, ...] = ()


class LogHead(Struct, frozen=True, forbid_unknown_fields=True):
    """The root of the first ``size`` lines, signed; 64 hex digits each, and 128 of the signature."""

    size: int
    root: str
    key: str
    signature: str = ""

    def message(self) -> bytes:
        return _CONTEXT + _encoder.encode(replace(self, signature=""))


class LogProof(Struct, frozen=True, forbid_unknown_fields=True):
    """That an entry is line ``index``, from 0, of the log whose head it names.

    Attributes:
        path: Hashes beside the way from the line to the root, lowest first.
    """

    entry: BenchEntry
    index: int
    path: tuple[str, ...]
    head: LogHead


def leaf_hash(line: bytes) -> bytes:
    return hashlib.sha256(b"\0" + line).digest()


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root over the hashes of leaves. Source: RFC 6962, 2.1."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    cut = _left(len(leaves))
    return _node_hash(tree_root(leaves[:cut]), tree_root(leaves[cut:]))


def audit_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """The hashes that make the root of a leaf, lowest first. Source: RFC 6962, 2.1.1."""
    if len(leaves) <= 1:
        return []
    cut = _left(len(leaves))
    if index < cut:
        return [*audit_path(index, leaves[:cut]), tree_root(leaves[cut:])]
    return [*audit_path(index - cut, leaves[cut:]), tree_root(leaves[:cut])]


def root_of_path(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """The root that a path leads to; None where it does not fit the place and the size."""
    if not 0 <= index < size:
        return None
    if size == 1:
        return None if path else leaf
    if not path:
        return None
    cut = _left(size)
    if index < cut:
        below = root_of_path(index, cut, leaf, path[:-1])
        return None if below is None else _node_hash(below, path[-1])
    below = root_of_path(index - cut, size - cut, leaf, path[:-1])
    return None if below is None else _node_hash(path[-1], below)


def _left(size: int) -> int:
    """The largest power of two below ``size``, from 2 on."""
    return int(1 << (size - 1).bit_length() - 1)


class BenchLog:
    """The log of a bench's folder, read whole; who writes it holds the bench's lock.

    Attributes:
        entries: In the order in which they came.
    """

    def __init__(self, folder: Path) -> None:
        """Raises ``TraceError`` where it is broken, or not what was signed."""
        self._folder = folder
        self._leaves: list[bytes] = []
        self.entries: list[BenchEntry] = []
        for line, entry in _read(folder / LOG, BenchEntry):
            self._leaves.append(leaf_hash(line))
            self.entries.append(entry)
        self.heads = [head for _, head in _read(folder / HEADS, LogHead)]
        for head in self.heads:
            if head.size > len(self._leaves) or tree_root(self._leaves[: head.size]).hex() != head.root:
                raise TraceError(
                    f"the log {folder / LOG} is not the one that was signed with {head.size:,} entries: some were "
                    "changed or lost; bring it back from a copy"
                )

    @property
    def root(self) -> str:
        return tree_root(self._leaves).hex()

    def add(self, entry: BenchEntry) -> None:
        """Write an entry behind the others; raises ``OSError``."""
        line = _encoder.encode(entry)
        _append(self._folder / LOG, line)
        self._leaves.append(leaf_hash(line))
        self.entries.append(entry)

    def sign(self, open_key: Callable[[], SigningKey]) -> None:
        """Sign what is there, unless it is signed.

        Raises:
            Unsigned: There is no key, or no room.
        """
        if len(self._leaves) == (self.heads[-1].size if self.heads else 0):
            return
        key = open_key()
        head = LogHead(len(self._leaves), self.root, key.public)
        head = replace(head, signature=key.sign(head.message()))
        try:
            with open_regular(self._folder / LOG) as file:
                os.fsync(file.fileno())  # a power loss must not take lines of which a head says that they are there
            _append(self._folder / HEADS, _encoder.encode(head))
        except OSError as error:
            raise Unsigned(f"{self._folder / HEADS} cannot be written ({error.strerror}); make room there") from error
        self.heads.append(head)

    def prove(self, index: int) -> LogProof:
        """The proof that an entry belongs to the newest signed head.

        Raises:
            UsageError: No head holds it.
        """
        if not self.heads or index >= self.heads[-1].size:
            raise UsageError(f"the log {self._folder / LOG} is not signed so far; go on with its bench, which signs it")
        head = self.heads[-1]
        path = audit_path(index, self._leaves[: head.size])
        return LogProof(self.entries[index], index, tuple(each.hex() for each in path), head)


def row_digest(row: bytes) -> str:
    """What an entry says of a line of the ledger, its line end left out."""
    return hashlib.sha256(row.rstrip(b"\n")).hexdigest()


def refuse_false(proof: LogProof, trusted: Mapping[str, str]) -> str:
    """Who signed the log that the proof's entry belongs to, by the name of the key.

    Raises:
        TraceError: The entry does not belong to it, or no trusted key signed it.
        NoPackage: Nothing can be checked.
    """
    head = proof.head
    with suppress(ValueError):  # a hash that is no hash
        path = [bytes.fromhex(each) for each in proof.path]
        root = root_of_path(proof.index, head.size, leaf_hash(_encoder.encode(proof.entry)), path)
        if root is not None and root.hex() == head.root:
            return signer_of(head, trusted)
    raise TraceError("the proof is false: its entry does not belong to the log that it names; ask for it again")


def signer_of(head: LogHead, trusted: Mapping[str, str]) -> str:
    """The name of the key that signed a head; raises as ``refuse_false``."""
    if head.key not in trusted:
        raise TraceError(
            f"the log is signed by the key {ascii(head.key)[1:65]}, which you do not trust; ask whose it is, then say "
            "stackmem keys trust KEY NAME"
        )
    if not is_signed(head.key, head.signature, head.message()):
        raise TraceError("the log's signature was not made by its key; take it from where it was copied from")
    return trusted[head.key]


_Line = TypeVar("_Line", BenchEntry, LogHead)


def _read(path: Path, kind: type[_Line]) -> list[tuple[bytes, _Line]]:
    """The lines of a file, without their ends, and what they say; a torn last line is none."""
    try:
        whole = read_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TraceError(f"the log {path} cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            found.append((line, msgspec.json.decode(line, type=kind)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"line {number} of {path} is no entry of a log; bring it back from a copy") from error
    return found


def _append(path: Path, line: bytes) -> None:
    file = owners(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        append_line(file, line + b"\n", cut_torn_line(file))
    finally:
        os.close(file)


def entry_of_row(row: Mapping[str, Any], line: bytes) -> BenchEntry:
    return BenchEntry(str(row.get("digest") or ""), row["outcome"], row["id"], row_digest(line))
