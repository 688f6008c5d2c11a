"""A run as one file that needs nothing beside it: its parents' records, and every file of its history.

The archive holds one folder named as the run. Its trace is the parents' lines up to the cuts, then the run's own: one
chain, as it stood, so every digest still holds. Unpacked into any folder, it is a run like any other.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from stackmem.core.facts import RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, UsageError
from stackmem.foreign.files import bounded_blocks, bounded_lines, open_regular, read_regular

from .lineage import HISTORY, TRACE, RunReader, begun_by, sources
from .objects import FOLDER, LARGEST_BYTES, REMOVED, Objects
from .private import owners
from .program import SOURCES
from .signatures import MAX_SIGNED_BYTES, SIGNATURES

_FILES = ("run.json", "result.json", "changes.patch", "changes.json", SIGNATURES)
_REQUEST = "request.json"
_STORE_FILES = ("HEAD", "config", "stackmem.json")
_MOST_BYTES = 16 << 30
_MOST_FILES = 5_000_000
_SMALL_BYTES = 64 << 20
_MOST_RATIO = 100
"""What traces and texts come to, many times over; files of the history are compressed before they are packed."""
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same run gives the same bytes


class Packed(Struct, frozen=True):
    """What an archive holds.

    Attributes:
        records: Of the run, those it shares with parents included.
        parents: Runs whose records it brings along.
        objects: Files and folders of the history.
        missing: Objects that the history lacks; the files they stand for are not in the archive.
        bytes: Size of the archive.
    """

    run: str
    file: str
    records: int
    parents: tuple[str, ...]
    objects: int
    missing: int
    bytes: int


def pack(run_dir: Path, out: Path) -> Packed:
    """Write ``out``, a new file.

    Raises:
        UsageError: ``out`` is there already, or cannot be written.
        TraceError: The trace is broken, or a parent is missing or has changed.
    """
    run_dir = run_dir.resolve()
    count, trees = _read(run_dir)
    if out.exists():
        raise UsageError(f"{out} is there already; name another file, or remove it")
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(unfinished, "x", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            parents = _write_trace(archive, run_dir, count)
            _write_rest(archive, run_dir)
            objects, missing = _write_objects(archive, run_dir, trees)
        size = unfinished.stat().st_size
        os.link(unfinished, out)  # unlike a rename, never over what came meanwhile
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror or error}); name another place with -o") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return Packed(run_dir.name, str(out), count, parents, objects, missing, size)


def _read(run_dir: Path) -> tuple[int, dict[str, None]]:
    """How many records the run has, and every tree that one of them names."""
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


def _write_trace(archive: zipfile.ZipFile, run_dir: Path, count: int) -> tuple[str, ...]:
    found = sources(run_dir)
    with archive.open(_entry(run_dir, TRACE), "w", force_zip64=True) as target:
        for folder, at, _ in found:
            for line in _lines(folder, min(at, count)):
                target.write(line)
    return tuple(folder.name for folder, _, _ in found[:-1])


def _lines(folder: Path, last: int) -> Iterator[bytes]:
    """The lines of a run's own file up to a record's, as they stand."""
    fork = begun_by(folder)
    with open_regular(folder / TRACE) as file:
        for number, line in enumerate(bounded_lines(file), fork.at + 1 if fork else 1):
            if number > last:
                return
            yield line if line.endswith(b"\n") else line + b"\n"


def _write_rest(archive: zipfile.ZipFile, run_dir: Path) -> None:
    for name in _FILES:
        _add(archive, run_dir, name)
    for name in _STORE_FILES:
        _add(archive, run_dir, f"{HISTORY}/{name}")
    for folder, _, _ in sources(run_dir):  # a program's, also those that a fork shares with its parents
        for path in sorted((folder / SOURCES).glob("*")):
            if folder == run_dir or not (run_dir / SOURCES / path.name).exists():
                _add(archive, run_dir, f"{SOURCES}/{path.name}", folder)
    verifier = run_dir / "verifier"
    for path in sorted(verifier.rglob("*")) if verifier.is_dir() and not verifier.is_symlink() else ():
        _add(archive, run_dir, path.relative_to(run_dir).as_posix())
    try:
        asked = decode_json(read_regular(run_dir / _REQUEST), dict[str, object])
    except (OSError, msgspec.DecodeError):
        return  # without it the run can be looked at, and not be gone on from
    flags = asked.get("flags")
    if isinstance(flags, dict):
        flags.pop("base_url", None)  # an address may hold a login
        flags.pop("otel", None)
    archive.writestr(_entry(run_dir, _REQUEST), msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n")


def _add(archive: zipfile.ZipFile, run_dir: Path, name: str, folder: Path | None = None) -> None:
    """A regular file, where there is one; what is a link is left out, wherever it leads.

    Args:
        folder: Where it stands; None is the run's own.
    """
    path = (folder or run_dir) / name
    try:
        file = open_regular(path, follow=False)
    except OSError:
        return
    with file, archive.open(_entry(run_dir, name), "w", force_zip64=True) as target:
        try:
            for block in bounded_blocks(file, MAX_SIGNED_BYTES):
                target.write(block)
        except OSError as error:
            raise TraceError(f"{path} cannot be packed ({error.strerror}); move it out of the run's folder") from error


def _write_objects(archive: zipfile.ZipFile, run_dir: Path, trees: dict[str, None]) -> tuple[int, int]:
    objects = Objects(run_dir / HISTORY)
    wanted = [(tree, "tree") for tree in trees]
    seen = set(trees)
    written = missing = 0
    while wanted:
        name, kind = wanted.pop()
        try:
            content = read_regular(objects.path(name), LARGEST_BYTES)
            below = objects.entries(name) if kind == "tree" else ()
        except (TraceError, OSError):
            missing += 1
            continue
        entry = _entry(run_dir, f"{HISTORY}/objects/{name[:2]}/{name[2:]}", zipfile.ZIP_STORED)  # it is compressed
        archive.writestr(entry, content)
        written += 1
        for _, inner in below:
            if inner.id not in seen and inner.mode != REMOVED:
                seen.add(inner.id)
                wanted.append((inner.id, "tree" if inner.mode == FOLDER else "blob"))
    return written, missing


def _entry(run_dir: Path, name: str, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(f"{run_dir.name}/{name}", _EPOCH)
    entry.compress_type = method
    entry.external_attr = 0o644 << 16
    return entry


def unpack(archive: Path, into: Path, most_bytes: int = _MOST_BYTES) -> Path:
    """The run's folder, made below ``into`` from an archive that may come from anybody.

    What it writes is bounded before anything is written: by ``most_bytes``, by what so small an archive can honestly
    hold, and by the room there is.

    Raises:
        UsageError: The file is no packed run, holds what no run does, or does not fit; what was written below ``into``
            is no run.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = [entry for entry in opened.infolist() if not entry.filename.endswith("/")]
            run = _judge(entries, archive, most_bytes)
            _must_fit(sum(entry.file_size for entry in entries), archive, into)
            for entry in entries:
                _extract(opened, entry, into)
    except UsageError:
        raise
    except OSError as error:
        raise _no_pack(archive, error.strerror or str(error)) from error
    except Exception as error:  # zipfile and zlib give up in a dozen ways on what somebody has damaged
        raise _no_pack(archive, f"it is damaged: {error}") from error
    return into / run


def _judge(entries: list[zipfile.ZipInfo], archive: Path, most_bytes: int) -> str:
    """The name of the one run that an archive lists.

    Raises:
        UsageError: It lists what no run holds, or more than it can hold.
    """
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _MOST_FILES or total > most_bytes:
        raise _no_pack(archive, f"it would hold more than {most_bytes:,} bytes")
    if total > max(_SMALL_BYTES, _MOST_RATIO * archive.stat().st_size):
        raise _no_pack(archive, f"it would unfold to {total:,} bytes, more than {_MOST_RATIO} times its size")
    for entry in entries:
        path = PurePosixPath(entry.filename)
        if path.is_absolute() or {"..", "."} & set(path.parts) or not path.parts or "\\" in entry.filename:
            raise _no_pack(archive, f"it holds the name {entry.filename[:60]!a}")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _no_pack(archive, f"{entry.filename[:60]!a} is compressed in a way that no pack is")
    names = {PurePosixPath(entry.filename).parts[0] for entry in entries}
    if len(names) != 1 or f"{min(names)}/{TRACE}" not in {entry.filename for entry in entries}:
        raise _no_pack(archive, f"it does not hold one folder with a {TRACE}")
    return min(names)


def _must_fit(total: int, archive: Path, into: Path) -> None:
    """Raises ``UsageError`` where the disk has less room than the archive would take."""
    place = next(folder for folder in (into, *into.absolute().parents) if folder.is_dir())
    if total > (free := shutil.disk_usage(place).free):
        raise UsageError(
            f"{archive} would unfold to {total:,} bytes, and {place} has room for {free:,}; make room there, or set "
            "TMPDIR to another place"
        )


def _extract(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, into: Path) -> None:
    """Write one entry, of which no more is read than the list says."""
    target = into / entry.filename
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with opened.open(entry) as source, open(target, "xb", opener=owners) as file:
        while part := source.read(1 << 20):
            file.write(part)


def _no_pack(archive: Path, why: str) -> UsageError:
    return UsageError(f"{archive} is no packed run ({why}); stackmem trace pack makes one")
