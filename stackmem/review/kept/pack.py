"""Packs a run into one self-contained file with its parents' records and every file of its history.

The archive contains a folder with the name of the run. Its trace is the parents' lines up to the cuts, followed by
the run's own: one unchanged chain, so every digest is still valid. Each parallel frame has a folder too, whose history
shares the objects of the run. Unpacked into any folder, all of them are runs like any other.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.facts import RunForked
from stackmem.core.parallel.facts import FrameReturned
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import bounded_blocks, bounded_lines, open_regular, read_regular
from stackmem.foreign.tree import ArchiveError
from stackmem.foreign.zips import ZipPacker, Zipped, opened_zip
from stackmem.run.run_folder import frame_parent
from stackmem.trace.images import IMAGES
from stackmem.trace.lineage import HISTORY, TRACE, RunReader, begun_by, sources
from stackmem.trace.objects import FOLDER, LARGEST_BYTES, REMOVED, Objects
from stackmem.trace.program import SOURCES
from stackmem.trace.signatures import MAX_SIGNED_BYTES, SIGNATURES
from stackmem.trace.snapshot import tree_of

from .run_list import frame_runs

_FILES = ("run.json", "result.json", "changes.patch", "changes.json", SIGNATURES)
_REQUEST = "request.json"
_STORE_FILES = ("HEAD", "config", "stackmem.json")
_ALTERNATES = f"{HISTORY}/objects/info/alternates"
_MAX_ALTERNATES_BYTES = 4_096
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
    frames: tuple[str, ...] = ()  # runs of its parallel frames
    missing_frames: tuple[str, ...] = ()  # those that no longer exist and are not in the archive


def pack(run_dir: Path, out: Path) -> Packed:
    """Write the archive to ``out``, a new file.

    Raise UsageError if ``out`` exists or cannot be written. Raise TraceError if the trace is broken, or a parent is
    missing or has changed.
    """
    run_dir = run_dir.resolve()
    content = _read(run_dir)
    if out.exists():
        raise UsageError(f"{out} already exists; choose another file, or remove it")
    # Hidden and in the same folder: a link needs the same file system, and a crash leaves no half archive.
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with ZipPacker(unfinished) as archive:
            objects = _PackedObjects(archive)
            parents = _write_trace(archive, run_dir, content.count)
            _write_rest(archive, run_dir, [folder for folder, _, _ in sources(run_dir)])
            objects.write(run_dir, content.trees)
            for frame in content.frames:
                _write_frame(archive, frame, run_dir.name, objects)
        size = unfinished.stat().st_size
        os.link(unfinished, out)  # unlike a rename, a link never replaces a file that was created meanwhile
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written ({error.strerror or error}); choose another place with -o"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return Packed(
        run=run_dir.name,
        file=str(out),
        records=content.count,
        parents=parents,
        objects=objects.written,
        missing=objects.missing,
        bytes=size,
        frames=tuple(frame.name for frame in content.frames),
        missing_frames=content.missing_frames,
    )


class _RunContent(Struct):
    """Everything that the records of a run refer to: the trees, and the runs of its parallel frames."""

    count: int
    trees: dict[str, None]
    frames: list[Path]
    missing_frames: tuple[str, ...]


def _read(run_dir: Path) -> _RunContent:
    count, trees, runs = 0, dict[str, None](), dict[str, None]()
    for record in RunReader(run_dir):
        event, count = record.event, record.seq
        trees[event.start.tree if isinstance(event, RunForked) else tree_of(event)] = None
        if isinstance(event, FrameReturned):
            runs[event.run] = None
    # no record names a frame that has not returned yet
    runs |= dict.fromkeys(frame.name for frame in frame_runs(run_dir))
    there = [name for name in runs if frame_parent(name) and (run_dir.parent / name / TRACE).is_file()]
    lost = tuple(name for name in runs if name not in there)
    return _RunContent(count, trees, [run_dir.parent / name for name in there if name != run_dir.name], lost)


def _write_frame(archive: ZipPacker, frame: Path, main: str, objects: _PackedObjects) -> None:
    """Write the run of a parallel frame, which stays a fork if its parent is in the archive."""
    content, fork = _read(frame), begun_by(frame)
    if fork is not None and fork.parent == main:
        with archive.open(f"{frame.name}/{TRACE}") as target:
            target.writelines(_lines(frame, content.count))
        folders = [frame]
    else:
        _write_trace(archive, frame, content.count)
        folders = [folder for folder, _, _ in sources(frame)]
    _write_rest(archive, frame, folders)
    archive.add(f"{frame.name}/{_ALTERNATES}", _alternates(main))
    objects.write(frame, content.trees)


def _alternates(main: str) -> bytes:
    return os.fsencode(f"../../../{main}/{HISTORY}/objects\n")


def _write_trace(archive: ZipPacker, run_dir: Path, count: int) -> tuple[str, ...]:
    files = sources(run_dir)
    with archive.open(f"{run_dir.name}/{TRACE}") as target:
        for folder, at, _ in files:
            target.writelines(_lines(folder, min(at, count)))
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


def _write_rest(archive: ZipPacker, run_dir: Path, folders: list[Path]) -> None:
    """Write the other files of a run. Sources and images are in these folders, the run's and those of its parents."""
    for name in _FILES:
        _add(archive, run_dir, name)
    for name in _STORE_FILES:
        _add(archive, run_dir, f"{HISTORY}/{name}")
    for folder in folders:
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
    request_json = msgspec.json.format(msgspec.json.encode(request), indent=2) + b"\n"
    archive.add(f"{run_dir.name}/{_REQUEST}", request_json)


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


class _PackedObjects:
    """The objects in an archive, each written once: in the run that first needs it."""

    def __init__(self, archive: ZipPacker) -> None:
        self._archive = archive
        self._seen = {""}
        self.written = self.missing = 0

    def write(self, run_dir: Path, trees: Iterable[str]) -> None:
        objects = Objects(run_dir / HISTORY)
        queue = [(tree, "tree") for tree in dict.fromkeys((*trees, objects.base())) if tree not in self._seen]
        self._seen.update(tree for tree, _ in queue)
        while queue:
            name, kind = queue.pop()
            try:
                # Copied as stored, without checking the digest: the reader of the archive has to check it anyway.
                content = read_regular(objects.path(name), LARGEST_BYTES)
                entries = objects.entries(name) if kind == "tree" else ()
            except (TraceError, OSError):
                self.missing += 1
                continue
            member = f"{run_dir.name}/{HISTORY}/objects/{name[:2]}/{name[2:]}"
            self._archive.add(member, content, compressed=False)  # already compressed
            self.written += 1
            for _, inner in entries:
                if inner.id not in self._seen and inner.mode != REMOVED:
                    self._seen.add(inner.id)
                    queue.append((inner.id, "tree" if inner.mode == FOLDER else "blob"))


def unpack(archive: Path, into: Path, most_bytes: int = _MAX_BYTES) -> Path:
    """Unpack an untrusted archive below ``into`` and return the run's folder.

    The size is checked before anything is written: against ``most_bytes``, against a plausible ratio to the archive's
    size, and against the free space. Raise UsageError if the file is not a packed run, contains something that a run
    cannot contain, or does not fit. Anything already written below ``into`` is not a run.
    """
    try:
        with opened_zip(archive) as opened:
            run = _judge(opened, archive, most_bytes)
            _must_fit(sum(file.size for file in opened.files), archive, into)
            opened.unpack(into)
    except ArchiveError as error:
        raise _no_pack(archive, str(error)) from error
    except OSError as error:
        raise _no_pack(archive, error.strerror or str(error)) from error
    return into / run


def _judge(opened: Zipped, archive: Path, most_bytes: int) -> str:
    """Check the file list of an archive and return the name of its run. The other folders are parallel frames.

    Raise UsageError if the archive lists a file that a run cannot contain, or too much content. Raise ArchiveError if
    the archive is damaged.
    """
    entries = opened.files
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
    listed = {entry.name for entry in entries}
    names = list(dict.fromkeys(PurePosixPath(entry.name).parts[0] for entry in entries))
    if not names or any(f"{name}/{TRACE}" not in listed for name in names) or not all(map(frame_parent, names[1:])):
        raise _no_pack(archive, f"it does not contain exactly one folder with a {TRACE}")
    for name in names:
        member = f"{name}/{_ALTERNATES}"
        shared = opened.read((member,), _MAX_ALTERNATES_BYTES) if member in listed else []
        if shared and (name == names[0] or shared != [_alternates(names[0])]):
            raise _no_pack(archive, f"the history of {name[:60]!a} reads objects from outside")
    return names[0]


def _must_fit(total: int, archive: Path, into: Path) -> None:
    """Check the free space. Raise UsageError if the disk has less free space than the archive needs."""
    target = next(folder for folder in (into, *into.absolute().parents) if folder.is_dir())
    if total > (free := shutil.disk_usage(target).free):
        raise UsageError(
            f"{archive} would unpack to {total:,} bytes, and {target} has {free:,} free; free disk space there, or set "
            "TMPDIR to another folder"
        )


def _no_pack(archive: Path, reason: str) -> UsageError:
    return UsageError(f"{archive} is not a packed run ({reason}); stackmem trace pack makes one")
