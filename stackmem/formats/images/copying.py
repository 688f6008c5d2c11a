"""COPY and ADD: copies files from a build context or another root into a root whose links are untrusted.

Rule: A path in a root is resolved as a process inside it would, never by the host.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from stackmem.core.errors import UsageError
from stackmem.foreign.archives import budget_for, unpack_layer
from stackmem.foreign.beneath import open_in_root, opener_for
from stackmem.foreign.files import bounded_blocks, open_regular, read_regular
from stackmem.foreign.tar import is_tar
from stackmem.foreign.tree import ArchiveError, UnpackedTree

from .recipe import RecipeStep, filled_in
from .store import MAX_CONTEXT_FILE_BYTES, is_folder

_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY
_MAX_RULES_BYTES = 1 << 20
Leaves = Callable[[PurePosixPath], bool]


def open_folder(root: int, path: str) -> int:
    """Open a folder of a root, creating it and its parents if missing. Raise UsageError if the path is not a folder."""
    plain = os.fsencode(path.strip("/")) or b"."
    with suppress(FileNotFoundError):
        return _opened(root, plain, path)
    parent_path, _, name = plain.rpartition(b"/")
    parent = open_folder(root, os.fsdecode(parent_path))
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=parent)
        return _opened(root, plain, path)
    except FileNotFoundError as error:
        raise UsageError(f"{path} is a broken link") from error
    finally:
        os.close(parent)


def _opened(root: int, plain: bytes, path: str) -> int:
    try:
        return open_in_root(root, plain, _FOLDER)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be a folder in the image ({error.strerror})") from error


def copy_in(sources: Iterable[Path], root: int, target: str, *, many: bool, mode: int | None, leaves: Leaves) -> None:
    """Copy files, and the content of folders, to a path of a root, like COPY.

    Args:
        target: An absolute path. With a final ``/`` it is a folder.
        many: There are several sources, so the target is a folder.
        mode: Mode of the copies; None keeps the mode of each file.
        leaves: Selects paths below a folder to leave out.
    """
    for source in sources:
        if is_folder(source):
            _copy_folder(source, root, target, mode, leaves)
        elif many or target.endswith("/") or _is_folder(root, target):
            _copy_file(source, root, str(PurePosixPath(target, source.name)), mode)
        else:
            _copy_file(source, root, target, mode)


def _is_folder(root: int, path: str) -> bool:
    try:
        os.close(open_in_root(root, os.fsencode(path.strip("/")) or b".", _FOLDER))
    except OSError:
        return False
    return True


def _copy_folder(source: Path, root: int, target: str, mode: int | None, leaves: Leaves) -> None:
    os.close(open_folder(root, target))
    for location, folders, files in os.walk(source):
        relative = PurePosixPath(location).relative_to(source)
        subfolders = [name for name in folders if not leaves(relative / name)]
        folders[:] = [name for name in subfolders if not Path(location, name).is_symlink()]
        for name in folders:
            fd = open_folder(root, str(PurePosixPath(target, relative, name)))
            with suppress(OSError):  # fails for another user's folder, which never occurs in an upper layer
                Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(Path(location, name).stat().st_mode) | 0o700)
            os.close(fd)
        links = [name for name in subfolders if name not in folders]
        for name in (*links, *(name for name in files if not leaves(relative / name))):
            _copy_file(Path(location, name), root, str(PurePosixPath(target, relative, name)), mode)


def _copy_file(source: Path, root: int, target: str, mode: int | None) -> None:
    status = source.lstat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return  # sockets and pipes have no content
    parent = open_folder(root, str(PurePosixPath(target).parent))
    name = PurePosixPath(target).name
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(source.readlink(), name, dir_fd=parent)
            return
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=parent)
        with os.fdopen(fd, "wb") as out, open_regular(source, follow=False) as file:
            out.writelines(bounded_blocks(file, MAX_CONTEXT_FILE_BYTES))
            os.fchmod(fd, (stat.S_IMODE(status.st_mode) if mode is None else mode) & 0o777)
        os.utime(name, ns=(status.st_mtime_ns, status.st_mtime_ns), dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        problem = "a folder is in its place" if error.errno in (errno.EISDIR, errno.EPERM) else error.strerror
        raise UsageError(f"{target} cannot be written in the image ({problem})") from error
    finally:
        os.close(parent)


def in_context(context: Path, source: str, leaves: Leaves) -> list[Path]:
    """Return the files that a COPY source matches in the build context. Raise UsageError if no file has that name."""
    plain = os.path.normpath(PurePosixPath("/", source)).strip("/")
    try:
        paths = sorted(context.glob(plain)) if plain else [context]
    except (ValueError, NotImplementedError) as error:
        raise UsageError(f"{source} is not a valid file pattern ({error})") from error
    inside = [path for path in paths if path.parent.resolve().is_relative_to(context.resolve()) or path == context]
    matches = [path for path in inside if not plain or not leaves(PurePosixPath(path.relative_to(context)))]
    if not matches:
        raise UsageError(f"{source} is not in {context}")
    return matches


def written(scratch: Path, mark: str, step: RecipeStep, variables: Mapping[str, str]) -> Path:
    """Write a here-document to a file."""
    name = mark.lstrip("<-").strip("\"'")
    if name not in step.texts or "/" in name or name in ("", ".", ".."):
        raise UsageError(f"{mark} is not a here-document with a plain name; write <<NAME and end the text with NAME")
    path = Path(tempfile.mkdtemp(dir=scratch)) / name
    path.write_text(filled_in(step.texts[name], variables))
    path.chmod(0o644)
    return path


def copy_out(root: int, path: str, folder: Path) -> None:
    """Fill a host folder with the content of a folder in a root. Raise UsageError if a link is in the way."""
    with ExitStack() as stack:
        fd = open_folder(root, path)
        stack.callback(os.close, fd)
        if not Path(f"/proc/self/fd/{fd}").readlink().as_posix().endswith(path):
            raise UsageError(f"the working directory {path} is behind a link; name the folder itself")
        target = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, target)
        copy_in([Path(f"/proc/self/fd/{fd}")], target, "/", many=False, mode=None, leaves=leave_nothing)


def leave_nothing(path: PurePosixPath) -> bool:
    return False


def unpacked(source: Path, context: Path, scratch: Path) -> Path:
    """Unpack an archive for ADD and return the folder; return any other file unchanged.

    Raise UsageError if the archive cannot be unpacked, or is a link to a file outside ``context``.

    Args:
        context: Links are not followed outside this folder.
    """
    mode = source.lstat().st_mode
    if (not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)) or is_folder(source):
        return source
    try:
        with _opened_below(context if source.is_relative_to(context) else source.parent, source) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not is_tar(file):
                return source
            folder = Path(tempfile.mkdtemp(dir=scratch))
            with UnpackedTree(folder) as tree:
                unpack_layer(file, tree, budget_for(file), whiteouts=False)
    except FileNotFoundError:
        return source  # a broken link is copied as is
    except (ArchiveError, OSError) as error:
        led_out = isinstance(error, OSError) and error.errno == errno.EXDEV
        reason = f"it is a link that leads out of {context}" if led_out else error
        raise UsageError(
            f"ADD {source.name}: the archive cannot be unpacked ({reason}); use the file itself"
        ) from error
    return folder


@contextmanager
def _opened_below(folder: Path, path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading. Raises OSError (EXDEV) if a link leads out of the folder."""
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = os.fsencode(path.relative_to(folder))
        with os.fdopen(opener_for(root)(root, name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            yield file
    finally:
        os.close(root)


def ignored_by(context: Path) -> Leaves:
    """Return the filter of ``.dockerignore`` for a build context. The last matching line decides."""
    try:
        lines = read_regular(context / ".dockerignore", _MAX_RULES_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return leave_nothing
    rules = []
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            keeps = text.startswith("!")
            rules.append((keeps, re.compile(_pattern(text.lstrip("!").strip().strip("/")))))

    def leaves(path: PurePosixPath) -> bool:
        verdict = False
        for keeps, rule in rules:
            if any(rule.fullmatch(str(each)) for each in (path, *path.parents)):
                verdict = not keeps
        return verdict

    return leaves


def _pattern(text: str) -> str:
    parts = re.split(r"(\*\*/?|\*|\?)", text)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(spelled.get(part, re.escape(part)) for part in parts)
