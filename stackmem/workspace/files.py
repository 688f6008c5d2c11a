"""The file tools below one directory on disk, whatever path the model names.

Rule 1: Every path is resolved beneath a directory that was opened once. Nothing outside is opened, not even to stat.
Rule 2: Files that git would execute on the host are not written: hooks, and configuration that names programs.

These tools run outside the sandbox, so they must be safe against a command that changes the tree while they work.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.beneath import Opener, opener_for, passes_link

from .answers import path_parts, protected
from .clip import meant_name, shown_name
from .file_tools import PROTECTED_IN_ROOT, FileTools, Read, WriteTarget
from .listing import IgnoreAnswers, listing
from .overlay.view import folder_view
from .refusals import ToolRefused, other_kind, quote

_OPEN_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY  # so that opening a FIFO does not block
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK

# Lower case, because a case-insensitive disk treats .GIT as .git. ``.git`` may also be a file that names another
# directory.
_PROTECTED = (
    (b".git/hooks", None),
    (b".git", frozenset({"config", "config.worktree", "hooks", "commondir"})),
    (b".", PROTECTED_IN_ROOT),
)


class Files(FileTools):
    """The file tools of one workspace on disk."""

    def __init__(
        self,
        root: Path | int,
        inside: str,
        opener: Opener | None = None,
        scrub: Callable[[str], str] = str,
        subfolder: str = "",
        before_git: Callable[[], object] | None = None,
    ) -> None:
        """Open the root directory, or duplicate a descriptor of it.

        Args:
            root: The workspace's directory.
            inside: Its absolute path as commands and the model see it.
            opener: Resolves paths; None selects the best way that this kernel supports.
            scrub: As in ``FileTools``.
            subfolder: Folder below the root that relative paths start from; empty for the root.
            before_git: Called before a path is opened that may lead into ``.git``.
        """
        super().__init__(inside, scrub)
        # the root, opened with O_PATH; stays valid if the directory is renamed
        self.fd = os.dup(root) if isinstance(root, int) else folder_view(root).fd
        self._subfolder = os.fsencode(subfolder)
        self._before_git = before_git
        # starts a query of what ``.gitignore`` excludes from a listing; None excludes nothing
        self.rules: Callable[[], IgnoreAnswers] | None = None
        self._open: Opener = opener or opener_for(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def spelled(self, path: str) -> str:
        """Return a path from the model relative to the workspace. The path must exist.

        Raise ToolRefused if the path does not exist, or leads out of the workspace.
        """
        try:
            raw = self._spelled(self._relative(path))
            os.close(self._open(self.fd, raw, os.O_PATH))
            return os.fsdecode(os.path.normpath(raw))
        except OSError as error:
            raise self._refused(error, "read", path) from error

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a directory; those of directories end with a slash.

        Raise ToolRefused if the directory cannot be listed, with the reason.
        """
        try:
            fd = self._open(self.fd, self._spelled(self._relative(path)), _OPEN_DIRECTORY)
            try:
                with os.scandir(fd) as entries:
                    names = [shown_name(each.name) + "/" * each.is_dir(follow_symlinks=False) for each in entries]
                return tuple(sorted(names))
            finally:
                os.close(fd)
        except OSError as error:
            raise self._refused(error, "list", path) from error

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents. It may already exist.

        Raise ToolRefused if the directory cannot be created, with the reason.
        """
        try:
            self._make(path, self._relative(path))
        except OSError as error:
            raise self._refused(error, "write", path) from error

    def _relative(self, path: str) -> bytes:
        """Return a path from the model relative to the root; relative paths start at the place."""
        raw = super()._relative(path)
        raw = self._subfolder + b"/" + raw if self._subfolder and not path.startswith("/") else raw
        if self._before_git is not None and (b".git" in raw.lower() or passes_link(self.fd, raw)):
            self._before_git()
            self._before_git = None
        return raw

    def _exists(self, path: bytes) -> bool:
        try:
            os.close(self._open(self.fd, path, os.O_PATH | os.O_NOFOLLOW))
        except OSError as error:
            return error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}
        return True

    @contextmanager
    def _opened(self, path: str, raw: bytes) -> Iterator[tuple[Read, int]]:
        fd = self._open(self.fd, raw, _OPEN_FILE)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise ToolRefused(other_kind(path, status))
            yield partial(os.read, fd), status.st_size
        finally:
            os.close(fd)

    @contextmanager
    def _target(self, path: str, directory: bytes, last: bytes, *, make: bool) -> Iterator[WriteTarget]:
        try:
            parent = self._open(self.fd, self._spelled(directory), os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            if not make:
                raise
            self._make(path, directory)
            parent = self._open(self.fd, directory, os.O_PATH | os.O_DIRECTORY)
        try:
            name, before = self._entry_name(path, parent, last)
            # a write breaks hard links and clears the setuid, setgid and sticky bits
            is_plain = before is not None and before.st_nlink == 1 and not before.st_mode & 0o7000
            yield WriteTarget(
                None if before is None else before.st_size,
                is_plain,
                lambda most: None if before is None else self._start(parent, name, most),
                lambda content: replace(parent, name, content, before),
            )
        finally:
            os.close(parent)

    def _start(self, parent: int, name: bytes, most_bytes: int) -> bytes | None:
        """Return the first bytes of a regular file, or None if it cannot be read."""
        try:
            fd = self._open(parent, name, _OPEN_FILE)
        except OSError:  # the file may be writable but not readable
            return None
        with os.fdopen(fd, "rb") as file:
            return file.read(most_bytes) if stat.S_ISREG(os.fstat(fd).st_mode) else None

    def _make(self, path: str, directory: bytes) -> None:
        prefix = b""
        for part in path_parts(directory):
            parent = self._open(self.fd, prefix or b".", os.O_PATH | os.O_DIRECTORY)
            try:
                if _status(parent, part) is None and part not in (b".", b".."):
                    if self._protected(parent, part):
                        raise ToolRefused(protected(path))
                    os.mkdir(part, dir_fd=parent)
            finally:
                os.close(parent)
            prefix = prefix + b"/" + part if prefix else part
        os.close(self._open(self.fd, prefix or b".", os.O_PATH | os.O_DIRECTORY))

    def _entry_name(self, path: str, parent: int, last: bytes) -> tuple[bytes, os.stat_result | None]:
        """Return the name to write in the parent, and the status of the regular file with that name."""
        name, before = last, _status(parent, last)
        if before is None and (meant := meant_name(last.decode("utf-8", "surrogateescape"))):
            escaped = _status(parent, meant)
            name, before = (meant, escaped) if escaped else (last, None)
        if self._protected(parent, name):
            raise ToolRefused(protected(path))
        if before is None or stat.S_ISREG(before.st_mode):
            return name, before
        if stat.S_ISLNK(before.st_mode):
            raise ToolRefused(f"{quote(path)} is a symlink; write to the file it points to, under that file's own path")
        raise ToolRefused(other_kind(path, before))

    def _protected(self, parent: int, name: bytes) -> bool:
        """Return whether a name is protected. The parent is compared by identity, so that aliases of its path do not
        matter.
        """
        status = os.fstat(parent)
        plain = os.fsdecode(name).casefold()
        for directory, names in _PROTECTED:
            try:
                fd = self._open(self.fd, directory, os.O_PATH | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                if os.path.samestat(status, os.fstat(fd)) and (names is None or plain in names):
                    return True
            finally:
                os.close(fd)
        return False

    def _listing(self, raw: bytes, shown_bytes: int) -> str:
        fd = self._open(self.fd, raw, _OPEN_DIRECTORY)
        try:
            prefix = shown_prefix = b"".join(part + b"/" for part in path_parts(raw))
            if self._subfolder:
                prefix = _folder_prefix(os.path.normpath(raw))
                shown_prefix = _folder_prefix(os.path.relpath(raw, self._subfolder))
            rules = None if self.rules is None else self.rules()
            try:
                return listing(fd, (prefix, shown_prefix), shown_bytes, rules)
            except (TimeoutError, WorkspaceError):  # git does not follow symlinks; list ignored files then
                return listing(fd, (prefix, shown_prefix), shown_bytes)
            finally:
                if rules is not None:
                    rules.close()
        finally:
            os.close(fd)


def _folder_prefix(path: bytes) -> bytes:
    return b"" if path == b"." else path + b"/"


def _status(directory: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


TEMPORARY_PREFIX = ".stackmem-"
"""Prefix of files that are being written. A leftover one belongs to a process that was killed."""

_NEW_FILE_MODE = 0o644
_PERMISSIONS = 0o777  # setuid, setgid and sticky bits are dropped on write


def replace(directory: int, name: bytes, content: bytes, before: os.stat_result | None) -> None:
    """Atomically replace the content of ``name`` in an open directory. On OSError, the old file remains.

    The content is written to a temporary file that is then renamed. An existing name is replaced, never written
    through: this breaks a hard link to a file outside, and replaces a symlink that appears in the last moment.

    ``before`` is the status of the replaced regular file: its permissions and, if allowed, its owner are kept.
    """
    temporary = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}.tmp".encode()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(OSError):  # only root can change the owner
                    os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, before.st_mode & _PERMISSIONS if before else _NEW_FILE_MODE)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
