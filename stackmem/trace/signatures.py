"""Signatures of a run, in an append-only file next to its trace, so that the trace does not change.

Rule 1: A signature covers all records up to its own, by that record's digest. The last one also covers the result.
Rule 2: It is written with one call, after the records that it covers, so a crash can only leave too few signatures.
Rule 3: A run that cannot be signed continues unsigned, and its result says why.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from stackmem.core.errors import StackmemError, TraceError
from stackmem.foreign.files import bounded_lines, descriptor_of_regular, digest_of_regular, open_regular
from stackmem.foreign.installing import install_command
from stackmem.foreign.private import owners

from .lineage import RunReader
from .record import Record
from .store import append_line

SIGNATURES = "signatures.jsonl"
_FILES = ("result.json", "changes.patch", "changes.json")
"""Files derived from a run, which are signed at its end."""
MAX_SIGNED_BYTES = 2 << 30
"""The limit for each of these files. A patch is the largest."""
_MAX_LINE_BYTES = 1 << 20
_EMPTY = hashlib.sha256().hexdigest()  # of an empty file, which a crash can leave

# Begins every signed message, so that a signature made for another purpose is never valid here.
_CONTEXT = b"stackmem run signature 1\n"
_encoder = msgspec.json.Encoder(order="deterministic")


class Unsigned(StackmemError):  # noqa: N818 - the reason for a missing signature; the run continues
    """Signing is not possible. The message says why."""

    exit_code = 2


class NoPackage(Unsigned):
    """The extra ``trust`` is not installed."""

    def __init__(self) -> None:
        super().__init__(f"signatures need the extra trust; install it: {install_command('trust')}")


class Signature(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    # ``frame`` after the end of a frame, ``end`` at the end of the run, ``found`` for records that already existed,
    # signed or not, when a process continued the run
    kind: Literal["frame", "found", "end"]
    # records, digest: the last record that it covers
    records: int
    digest: str
    key: str  # the public key, 64 hex digits
    files: dict[str, str] = {}  # maps names to SHA-256, at an end
    signature: str = ""  # over all the other fields, 128 hex digits

    def message(self) -> bytes:
        return _CONTEXT + _encoder.encode(replace(self, signature=""))


class SigningKey:
    """An Ed25519 key for signing."""

    def __init__(self, pem: bytes | None = None) -> None:
        """Read a key from PEM, or generate one.

        Raise NoPackage if the extra ``trust`` is not installed, and ValueError if the key is encrypted or not an
        Ed25519 key.
        """
        try:
            from cryptography.exceptions import UnsupportedAlgorithm
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise NoPackage from error
        self._forms = serialization
        if pem is None:
            self._private = Ed25519PrivateKey.generate()
        else:
            try:
                private = serialization.load_pem_private_key(pem, password=None)
            except (TypeError, UnsupportedAlgorithm) as error:  # encrypted, or of an unknown kind
                raise ValueError(str(error)) from error
            if not isinstance(private, Ed25519PrivateKey):
                raise ValueError("it is a key of another kind")
            self._private = private
        self.public = self._private.public_key().public_bytes_raw().hex()

    def pem(self) -> bytes:
        forms = self._forms
        return self._private.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())

    def sign(self, message: bytes) -> str:
        return self._private.sign(message).hex()


def is_signed(key: str, signature: str, message: bytes) -> bool:
    """Return whether the key's owner signed the message.

    Raise NoPackage if the package for signatures is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise NoPackage from error
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Signer:
    """Signs one run while it is written."""

    def __init__(self, run_dir: Path, open_key: Callable[[], SigningKey], count: int = 0, digest: str = "") -> None:
        """Start, or continue after an existing record. Signatures of later records are invalid and cut off.

        Args:
            open_key: Called at the first signature; raises ``Unsigned``.
            count, digest: Number and digest of the existing record.
        """
        self._run_dir, self._open_key = run_dir, open_key
        self._key: SigningKey | None = None
        self._first = Signature("found", count, digest, "") if count else None
        self._size = -1
        self.problem: Unsigned | None = None  # why the run is not signed; None while it is

    @property
    def reason(self) -> str:
        """Why the run is not signed. Empty if it is signed or the extra is not installed, because signing is
        optional then.
        """
        return "" if self.problem is None or isinstance(self.problem, NoPackage) else str(self.problem)

    def sign_frame(self, records: int, digest: str) -> None:
        """Sign these records after the end of a frame."""
        self._write(Signature("frame", records, digest, ""))

    def sign_end(self, records: int, digest: str) -> None:
        """Sign the end of the run with the files derived from it."""
        try:
            files = _digests(self._run_dir)
        except TraceError as error:
            self.problem = Unsigned(str(error))
            return
        self._write(Signature("end", records, digest, "", files))

    def open(self) -> None:
        """Prepare the key and the file. If this fails, ``problem`` says why."""
        if self._key is None and self.problem is None:
            try:
                self._key = self._open_key()
                if self._size < 0:
                    self._size = _cut(self._run_dir / SIGNATURES, self._first.records if self._first else 0)
                if self._first:
                    self._append(self._first)
            except Unsigned as error:
                self.problem = error
            except (OSError, TraceError) as error:
                self.problem = _unwritable(self._run_dir, error)

    def _write(self, signature: Signature) -> None:
        self.open()
        if self.problem is None:
            try:
                self._append(signature)
            except OSError as error:
                self.problem = _unwritable(self._run_dir, error)

    def _append(self, signature: Signature) -> None:
        if self._key is None:
            return
        ours = replace(signature, key=self._key.public)
        line = _encoder.encode(replace(ours, signature=self._key.sign(ours.message()))) + b"\n"
        file = descriptor_of_regular(self._run_dir / SIGNATURES, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        try:
            self._size = append_line(file, line, self._size)
        finally:
            os.close(file)


def _unwritable(run_dir: Path, error: Exception) -> Unsigned:
    reason = error.strerror if isinstance(error, OSError) else error
    return Unsigned(
        f"{run_dir / SIGNATURES} cannot be written ({reason}); free disk space or change the permissions there"
    )


def _digests(run_dir: Path) -> dict[str, str]:
    """Return the digest of each existing file. Raise TraceError if a file cannot be read."""
    digests = {}
    for name in _FILES:
        try:
            digests[name] = digest_of_regular(run_dir / name, MAX_SIGNED_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TraceError(f"{run_dir / name} cannot be read ({error.strerror}); replace it") from error
    return digests


def _cut(path: Path, records: int) -> int:
    """Create the file, or cut off a torn line and signatures of later records. Returns the new length."""
    with open(path, "ab", opener=lambda path, flags: owners(path, flags | os.O_NOFOLLOW)) as file:
        size = 0
        for signature, length in _lines(path):
            if signature.records > records:
                break
            size += length
        file.truncate(size)
    return size


def _lines(path: Path) -> Iterator[tuple[Signature, int]]:
    """Yield the signatures, each with the length of its line. A torn last line is skipped.

    Raise TraceError if the file cannot be read, or a line is broken.
    """
    try:
        with open_regular(path) as file:
            for number, line in enumerate(bounded_lines(file, _MAX_LINE_BYTES), 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield msgspec.json.decode(line, type=Signature), len(line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise TraceError(
                        f"line {number} of {path} is not a signature; copy the run again from its source"
                    ) from error
    except FileNotFoundError:
        return
    except OSError as error:
        raise TraceError(f"the signatures {path} cannot be read: {error.strerror}") from error


class Vouched(Struct, frozen=True):
    """The claims that the signatures of a whole run prove."""

    keys: tuple[str, ...]  # the signing keys, by name if they have one
    signatures: int  # number of signatures
    # first and last record of each range that was not yet signed when a process continued the run
    unsigned_ranges: tuple[tuple[int, int], ...] = field(default=(), name="found")


class SignedRecords:
    """Checks a run's records against its signatures."""

    def __init__(self, run_dir: Path, trusted: Mapping[str, str] | None) -> None:
        """Read the signatures.

        Raise TraceError if a line is broken.

        Args:
            trusted: Public key to its name. None accepts every key.
        """
        self._run_dir, self._trusted = run_dir, trusted
        self._signatures = [signature for signature, _ in _lines(run_dir / SIGNATURES)]
        self._wanted = {signature.records for signature in self._signatures}
        self._digests: dict[int, str] = {}
        self._count = 0

    def passing(self, records: Iterator[Record], reader: RunReader) -> Iterator[Record]:
        """Yield the records, and store the digests of the signed ones."""
        for record in records:
            self._count = record.seq
            if record.seq in self._wanted:
                self._digests[record.seq] = reader.digest
            yield record

    def vouched(self) -> Vouched:
        """Return what is signed, after all records have passed.

        Raise TraceError if the run is not signed to its end, or a signature does not match or is not trusted.
        """
        run, signatures = self._run_dir.name, self._signatures
        if not signatures:
            raise TraceError(f"{run} is not signed; without --signed, stackmem replay checks only its consistency")
        for signature in signatures:
            self._refuse_untrusted(signature.key)
            self._refuse_contradicting(signature, ended=True)
        last = signatures[-1]
        if last.kind != "end" or last.records < self._count:
            raise TraceError(
                f"{run} is unfinished: only {last.records:,} of {self._count:,} records are signed, and its end is "
                "not; finish it with stackmem resume on the machine that made it"
            )
        self._refuse_other_files(last, _digests(self._run_dir), _FILES)
        trusted = self._trusted or {}
        keys = dict.fromkeys(trusted.get(signature.key, signature.key) for signature in signatures)
        return Vouched(tuple(keys), len(signatures), tuple(_unsigned_ranges(signatures)))

    def refuse_contradictions(self, *, ended: bool, unread: bool) -> None:
        """Compare the signatures with the records that have passed and with the files next to them.

        Unlike ``vouched`` this accepts any key, a run that is not signed to its end, and everything that a crash can
        leave: lost records of an unfinished run, and files that are missing or empty. ``ended`` says whether the last
        record is the run's end. ``unread`` says whether ``result.json`` cannot be read, so that it does not count as
        evidence. Raise TraceError if a signature was not made by its key, or does not match the run.
        """
        for signature in self._signatures:
            self._refuse_contradicting(signature, ended=ended)
        last = self._signatures[-1] if self._signatures else None
        if last is not None and last.kind == "end" and last.records == self._count:
            files = _digests(self._run_dir)
            written = [
                name
                for name, digest in files.items()
                if not (name in last.files and digest == _EMPTY) and not (name == "result.json" and unread)
            ]
            self._refuse_other_files(last, files, written)

    def _refuse_other_files(self, end: Signature, files: Mapping[str, str], names: Iterable[str]) -> None:
        for name in names:
            if files.get(name) != end.files.get(name):
                raise TraceError(
                    f"{name} of {self._run_dir.name} is not the one that was signed; copy the run again from its source"
                )

    def _refuse_untrusted(self, key: str) -> None:
        if self._trusted is not None and key not in self._trusted:
            raise TraceError(
                f"{self._run_dir.name} is signed by the key {ascii(key)[1:65]}, which you do not trust; find out whose "
                "it is, then run stackmem keys trust KEY NAME"
            )

    def _refuse_contradicting(self, signature: Signature, *, ended: bool) -> None:
        run = self._run_dir.name
        if not self._made_by_its_key(signature):
            raise TraceError(f"the signature of record {signature.records:,} of {run} was not made by its key")
        if signature.records > self._count:
            if not ended:
                return
            raise TraceError(
                f"{run} is unfinished: record {signature.records:,} is signed, but its trace ends at record "
                f"{self._count:,}; the lines between are lost"
            )
        digest = self._digests.get(signature.records, "")
        if signature.digest != digest:
            raise TraceError(
                f"record {signature.records:,} of {run} has the digest {digest[:16]}… and was signed as "
                f"{ascii(signature.digest)[1:17]}…: the trace was changed, or belongs to another run"
            )

    def _made_by_its_key(self, signature: Signature) -> bool:
        try:
            return is_signed(signature.key, signature.signature, signature.message())
        except NoPackage:
            if self._trusted is not None:
                raise
            return True  # without the package the digests are still compared


def _unsigned_ranges(signatures: list[Signature]) -> Iterator[tuple[int, int]]:
    covered = 0
    for signature in signatures:
        if signature.kind == "found" and signature.records > covered:
            yield covered + 1, signature.records
        covered = max(covered, signature.records)
