"""Packs a run into one self-contained file with its parents' records and every file of its history.

The archive contains one folder with the name of the run. Its trace is the parents' lines up to the cuts, followed by
the run's own: one unchanged chain, so every digest is still valid. Unpacked into any folder, it is a run like any
other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from stackmem.core.facts import RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, UsageError
from stackmem.foreign.files import bounded_blocks, bounded_lines, open_regular, read_regular
from stackmem.foreign.tree import ArchiveError
from stackmem.foreign.zips import ZipPacker, ZippedFile, opened_zip
from stackmem.trace.images import IMAGES
from stackmem.trace.lineage import HISTORY, TRACE, RunReader, begun_by, sources
from stackmem.trace.objects import FOLDER, LARGEST_BYTES, REMOVED, Objects
from stackmem.trace.program import SOURCES
from stackmem.trace.signatures import MAX_SIGNED_BYTES, SIGNATURES

_FILES = ("run.json", "result.json", "changes.patch", "changes.json", SIGNATURES)
_REQUEST = "request.json"
_STORE_FILES = ("HEAD", "config", "stackmem.json")
_MAX_BYTES = 16 << 30
_MAX_FILES = 5_000_000
_SMALL_BYTES = 64 << 20  # the ratio is not checked up to this unpacked size
_MAX_RATIO = 100
"""Maximum ratio of unpacked to packed size. Traces and texts compress far less; files of the history are already
compressed.
"""


class Packed(Struct, frozen=True):
    """The content of an archive."""

    run: str
    file: str
    records: int  # of the run, including those shared with parents
    parents: tuple[str, ...]  # runs whose records it includes
    objects: int  # files and folders of the history
    missing: int  # objects that the history lacks; their files are not in the archive
    bytes: int  # size of the archive


def pack(run_dir: Path, out: Path) -> Packed:
    """Write the archive to ``out``, a new file.

    Raises:
        UsageError: ``out`` exists or cannot be written.
        TraceError: The trace is broken, or a parent is missing or has changed.
    """
    run_dir = run_dir.resolve()
    count, trees = _read(run_dir)
    if out.exists():
        raise UsageError(f"{out} already exists; choose another file, or remove it")
    # Hidden and in the same folder: a link needs the same file system, and a crash leaves no half archive.
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with ZipPacker(unfinished) as archive:
            parents = _write_trace(archive, run_dir, count)
            _write_rest(archive, run_dir)
            objects, missing = _write_objects(archive, run_dir, trees)
        size = unfinished.stat().st_size
        os.link(unfinished, out)  # unlike a rename, a link never replaces a file that was created meanwhile
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written ({error.strerror or error}); choose another place with -o"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return Packed(run_dir.name, str(out), count, parents, objects, missing, size)


def _read(run_dir: Path) -> tuple[int, dict[str, None]]:
    """Return the number of records, and every tree that a record names."""
    count, trees = 0, dict[str, None]()
    for record in RunReader(run_dir):
        count = record.seq
        match record.event:
            case RunStarted(tree=tree) | ToolReturned(tree=tree) | VerifyReturned(tree=tree):
                trees[tree] = None
            case RunForked(start=start):
                trees[start.tree] = None
    trees[Objects(run_dir / HISTORY).base()] = None
    trees.pop("", None)
    return count, trees


def _write_trace(archive: ZipPacker, run_dir: Path, count: int) -> tuple[str, ...]:
    files = sources(run_dir)
    with archive.open(f"{run_dir.name}/{TRACE}") as target:
        for folder, at, _ in files:
            for line in _lines(folder, min(at, count)):
                target.write(line)
    return tuple(folder.name for folder, _, _ in files[:-1])


def _lines(folder: Path, last: int) -> Iterator[bytes]:
    """Yield the lines of a run's own file up to a record, unchanged."""
    fork = begun_by(folder)
    with open_regular(folder / TRACE) as file:
        for number, line in enumerate(bounded_lines(file), fork.at + 1 if fork else 1):
            if number > last:
                return
            # A complete record may lack its line end after a crash; the lines of a child follow it.
            yield line if line.endswith(b"\n") else line + b"\n"


def _write_rest(archive: ZipPacker, run_dir: Path) -> None:
    for name in _FILES:
        _add(archive, run_dir, name)
    for name in _STORE_FILES:
        _add(archive, run_dir, f"{HISTORY}/{name}")
    for folder, _, _ in sources(run_dir):  # sources and images, including those of a fork's parents
        for path in sorted((*(folder / SOURCES).glob("*"), *(folder / IMAGES).glob("*"))):
            name = f"{path.parent.name}/{path.name}"
            if folder == run_dir or not (run_dir / name).exists():
                _add(archive, run_dir, name, folder)
    verifier = run_dir / "verifier"
    for path in sorted(verifier.rglob("*")) if verifier.is_dir() and not verifier.is_symlink() else ():
        _add(archive, run_dir, path.relative_to(run_dir).as_posix())
    try:
        request = decode_json(read_regular(run_dir / _REQUEST), dict[str, object])
    except (OSError, msgspec.DecodeError):
        return  # without it the run can be viewed, but not continued
    flags = request.get("flags")
    if isinstance(flags, dict):
        flags.pop("base_url", None)  # an address may contain a login
        # Also an address: that of a server of the sender.
        flags.pop("otel", None)
    shown = msgspec.json.format(msgspec.json.encode(request), indent=2) + b"\n"
    archive.add(f"{run_dir.name}/{_REQUEST}", shown)


def _add(archive: ZipPacker, run_dir: Path, name: str, folder: Path | None = None) -> None:
    """Add a regular file if it exists. Links are left out wherever they lead, so that they cannot add foreign files."""
    path = (folder or run_dir) / name
    try:
        file = open_regular(path, follow=False)
    except OSError:
        return
    with file, archive.open(f"{run_dir.name}/{name}") as target:
        try:
            for block in bounded_blocks(file, MAX_SIGNED_BYTES):
                target.write(block)
        except OSError as error:
            raise TraceError(f"{path} cannot be packed ({error.strerror}); move it out of the run's folder") from error


def _write_objects(archive: ZipPacker, run_dir: Path, trees: dict[str, None]) -> tuple[int, int]:
    objects = Objects(run_dir / HISTORY)
    queue = [(tree, "tree") for tree in trees]
    seen = set(trees)
    written = missing = 0
    while queue:
        name, kind = queue.pop()
        try:
            # Copied as stored, without checking the digest: the reader of the archive has to check it anyway.
            content = read_regular(objects.path(name), LARGEST_BYTES)
            below = objects.entries(name) if kind == "tree" else ()
        except (TraceError, OSError):
            missing += 1
            continue
        member = f"{run_dir.name}/{HISTORY}/objects/{name[:2]}/{name[2:]}"
        archive.add(member, content, compressed=False)  # already compressed
        written += 1
        for _, inner in below:
            if inner.id not in seen and inner.mode != REMOVED:
                seen.add(inner.id)
                queue.append((inner.id, "tree" if inner.mode == FOLDER else "blob"))
    return written, missing


def unpack(archive: Path, into: Path, most_bytes: int = _MAX_BYTES) -> Path:
    """Unpack an untrusted archive below ``into`` and return the run's folder.

    The size is checked before anything is written: against ``most_bytes``, against a plausible ratio to the archive's
    size, and against the free space.

    Raises:
        UsageError: The file is not a packed run, contains something that a run cannot contain, or does not fit.
            Anything already written below ``into`` is not a run.
    """
    try:
        with opened_zip(archive) as opened:
            run = _judge(opened.files, archive, most_bytes)
            _must_fit(sum(file.size for file in opened.files), archive, into)
            opened.unpack(into)
    except ArchiveError as error:
        raise _no_pack(archive, str(error)) from error
    except OSError as error:
        raise _no_pack(archive, error.strerror or str(error)) from error
    return into / run


def _judge(entries: list[ZippedFile], archive: Path, most_bytes: int) -> str:
    """Check the file list of an archive and return the name of its only run.

    Raises:
        UsageError: The archive lists a file that a run cannot contain, or too much content.
    """
    total = sum(entry.size for entry in entries)
    if len(entries) > _MAX_FILES or total > most_bytes:
        raise _no_pack(archive, f"it would contain more than {most_bytes:,} bytes")
    if total > max(_SMALL_BYTES, _MAX_RATIO * archive.stat().st_size):
        raise _no_pack(archive, f"it would unpack to {total:,} bytes, more than {_MAX_RATIO} times its size")
    for entry in entries:
        path = PurePosixPath(entry.name)
        if path.is_absolute() or {"..", "."} & set(path.parts) or not path.parts or "\\" in entry.name:
            raise _no_pack(archive, f"it contains the name {entry.name[:60]!a}")
        if not entry.common:
            raise _no_pack(archive, f"{entry.name[:60]!a} is compressed in a way that stackmem does not use")
    names = {PurePosixPath(entry.name).parts[0] for entry in entries}
    if len(names) != 1 or f"{min(names)}/{TRACE}" not in {entry.name for entry in entries}:
        raise _no_pack(archive, f"it does not contain exactly one folder with a {TRACE}")
    return min(names)


def _must_fit(total: int, archive: Path, into: Path) -> None:
    """Check the free space.

    Raises:
        UsageError: The disk has less free space than the archive needs.
    """
    target = next(folder for folder in (into, *into.absolute().parents) if folder.is_dir())
    if total > (free := shutil.disk_usage(target).free):
        raise UsageError(
            f"{archive} would unpack to {total:,} bytes, and {target} has {free:,} free; free disk space there, or set "
            "TMPDIR to another folder"
        )


def _no_pack(archive: Path, reason: str) -> UsageError:
    return UsageError(f"{archive} is not a packed run ({reason}); stackmem trace pack makes one")
