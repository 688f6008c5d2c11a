"""Adds the rest of a long history to the repository of a run, which the agent may have changed in the meantime.

Rule 1: Objects come first, then references, then the boundary. So a crash in between leaves a valid repository, and
    adding the rest again completes it.
Rule 2: The repository is under the agent's control: links in it are not followed, and what the agent changed stays.
Rule 3: An overlay caches its lower layers, so existing files are only written through the view of the workspace.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from stackmem.foreign.beneath import opener_for
from stackmem.foreign.files import descriptor_of_regular, open_regular, read_regular
from stackmem.history.objects import FILE
from stackmem.history.restore import put_file, remove_file

from .git_state import OPERATION_FILES, OPERATION_FOLDERS

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PACKED_REFS, _SHALLOW = "packed-refs", "shallow"
_MAX_BYTES = 64 * 1024 * 1024
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def add_history(repository: Path, root: int, lent: Path | None, before: bytes | None) -> None:
    """Add a repository's packs, references and boundary to the ``.git`` of a workspace. Raises ``OSError``.

    Args:
        repository: The git directory with the whole history.
        root: Descriptor of the workspace's root folder.
        lent: Folder with the objects that the repository borrows, if it does.
        before: The boundary that the repository had at first. Another one was changed by the agent and stays. None
            leaves the boundary as it is.
    """
    opener = opener_for(root)
    inside = opener(root, b".git", _FOLDER)
    try:
        packs = os.open(lent / "pack", _FOLDER) if lent is not None else _folder_in(inside, "objects", "pack")
        try:
            for part in sorted((repository / "objects" / "pack").iterdir(), key=lambda path: path.suffix == ".idx"):
                _move(part, packs)
        finally:
            os.close(packs)
        _add_loose_objects(repository / "objects", inside)
        references = _with_missing(_read(inside, _PACKED_REFS), read_regular(repository / _PACKED_REFS, _MAX_BYTES))
        _replace(inside, _PACKED_REFS, references)
        if before is not None and _read(inside, _SHALLOW) == before:
            boundary = b""
            with suppress(FileNotFoundError):
                boundary = read_regular(repository / _SHALLOW, _MAX_BYTES)
            _replace(inside, _SHALLOW, boundary)
    finally:
        os.close(inside)


def head_of(root: int) -> tuple[str, str]:
    """Return the branch and the commit of HEAD in the ``.git`` of a workspace; the branch is empty if detached."""
    inside = opener_for(root)(root, b".git", _FOLDER)
    try:
        line = _read(inside, "HEAD").decode("utf-8", "replace").strip()
        if not line.startswith("ref: "):
            return "", line
        branch = line.removeprefix("ref: ")
        return branch, _commit_of(inside, branch)
    finally:
        os.close(inside)


def move_head(repository: Path, root: int, branch: str, commit: str, commits: Collection[str]) -> str:
    """Let HEAD, the index and an interrupted operation be those of another repository. Raises ``OSError``.

    Returns the branch that keeps commits of the agent which no other branch reaches, or an empty string.
    """
    at, present = head_of(root)
    inside = opener_for(root)(root, b".git", _FOLDER)
    try:
        old = (_commit_of(inside, branch) if branch else "", "" if at else present)
        own = next((each for each in old if each and each != commit and each not in commits), "")
        new_branch = f"agent-{own[:10]}" if own else ""
        if own:
            put_file(root, f".git/refs/heads/{new_branch}".encode(), FILE, f"{own}\n".encode())
        for name in OPERATION_FILES:
            remove_file(root, b".git/" + name.encode())
        for name in OPERATION_FOLDERS:
            _remove_folder(inside, name)
        if branch:
            put_file(root, b".git/" + os.fsencode(branch), FILE, f"{commit}\n".encode())
        _replace(inside, "index", read_regular(repository / "index", _MAX_INDEX_BYTES))
        _replace(inside, "HEAD", read_regular(repository / "HEAD"))
        for name in (*OPERATION_FILES, *OPERATION_FOLDERS):
            _copy_operation(repository / name, root, name)
    finally:
        os.close(inside)
    return new_branch


def _commit_of(inside: int, branch: str) -> str:
    try:
        folder = _folder_in(inside, *branch.split("/")[:-1])
        try:
            loose = _read(folder, branch.rpartition("/")[2])
        finally:
            os.close(folder)
    except OSError:
        loose = b""
    if not loose:
        line = dict(_references(_read(inside, _PACKED_REFS))).get(os.fsencode(branch), b"")
        loose = line.partition(b" ")[0]
    commit = loose.decode("utf-8", "replace").strip()
    return commit if _COMMIT.fullmatch(commit) else ""


def _remove_folder(inside: int, name: str) -> None:
    try:
        folder = _folder_in(inside, name)
    except OSError:  # it does not exist, or is not a folder
        return
    try:
        for each in os.listdir(folder):
            with suppress(OSError):
                os.unlink(each, dir_fd=folder)
    finally:
        os.close(folder)
    with suppress(OSError):
        os.rmdir(name, dir_fd=inside)


def _copy_operation(source: Path, root: int, name: str) -> None:
    if source.is_dir():
        for each in sorted(source.iterdir()):
            put_file(root, f".git/{name}/{each.name}".encode(), FILE, read_regular(each))
    elif source.exists():
        put_file(root, f".git/{name}".encode(), FILE, read_regular(source))


def _folder_in(folder: int, *names: str) -> int:
    fd = os.dup(folder)
    for name in names:
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _add_loose_objects(objects: Path, inside: int) -> None:
    """Move the objects outside packs: the text that replaces each excluded blob."""
    into = _folder_in(inside, "objects")
    try:
        for part in objects.glob("[0-9a-f][0-9a-f]/*"):
            with suppress(FileExistsError):
                os.mkdir(part.parent.name, 0o777, dir_fd=into)
            folder = _folder_in(into, part.parent.name)
            try:
                _move(part, folder)
            finally:
                os.close(folder)
    finally:
        os.close(into)


def _move(part: Path, into: int) -> None:
    """Move a file into an open folder. A file with the same name stays, because names are digests of the content."""
    with suppress(FileNotFoundError):
        os.stat(part.name, dir_fd=into, follow_symlinks=False)
        return
    name = f"tmp_{part.name}"
    try:
        os.rename(part, name, dst_dir_fd=into)
    except OSError:  # another file system, or an overlay
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=into)
        with (
            open_regular(part) as source,
            os.fdopen(os.open(name, os.O_WRONLY | _NEW, 0o444, dir_fd=into), "wb") as copy,
        ):
            shutil.copyfileobj(source, copy, 1 << 20)
    os.rename(name, part.name, src_dir_fd=into, dst_dir_fd=into)


def _read(folder: int, name: str) -> bytes:
    """Return the content of a regular file, or nothing if there is none."""
    try:
        fd = descriptor_of_regular(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read(_MAX_BYTES)


def _replace(folder: int, name: str, content: bytes) -> None:
    """Replace a file as git does, under git's own lock. Nothing is left of a file without content."""
    lock = f"{name}.lock"
    with os.fdopen(os.open(lock, os.O_WRONLY | _NEW, 0o644, dir_fd=folder), "wb") as file:
        file.write(content)
    if content:
        os.rename(lock, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    os.unlink(lock, dir_fd=folder)


def _with_missing(present: bytes, full: bytes) -> bytes:
    """Return packed references with those that are missing, sorted by name as git requires."""
    added = {name: lines for name, lines in _references(full) if not name.startswith(b"refs/heads/")}
    references = added | dict(_references(present))
    lines = b"".join(references[name] for name in sorted(references))
    return b"# pack-refs with: peeled fully-peeled sorted \n" + lines if lines else b""


def _references(packed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each reference with its line, and the line of the commit that it leads to."""
    name, lines = b"", b""
    for line in packed.splitlines(keepends=True):
        if line.startswith(b"#"):
            continue
        if line.startswith(b"^"):
            lines += line
            continue
        if name:
            yield name, lines
        name, lines = line.rstrip(b"\n").partition(b" ")[2], line
    if name:
        yield name, lines
