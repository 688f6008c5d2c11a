"""Selects the files of a folder for a copy.

In a git work tree: tracked and unignored files, including nested repositories and submodules, and ignored dependency
folders. Elsewhere: all files. Paths of ``--include`` are added in either case, even if ignored. Never: ``.git``,
``.env*`` at any depth, special files, and folders of stackmem's own runs. A tracked file such as ``.env.example`` or
``.env.test`` is selected nevertheless unless it contains a key of a known form, because tests read it and everyone who
has the repository has it; ``--include`` selects it even then.
"""

# Paths are bytes here, since a name need not be text.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.workspace.clip import shown_name
from stackmem.workspace.secrets import Scrubber

from .exchange import STAGE
from .git import USER_GIT_SECONDS, git, git_and_warnings, user_git_environment

HOME_SECRETS = frozenset(os.fsencode(name) for name in (
    ".ssh", ".aws", ".gnupg", ".netrc", ".git-credentials", ".pgpass", ".kube", ".azure", ".docker/config.json",
    ".config/gh", ".config/gcloud", ".config/git/credentials", ".config/op", ".config/rclone", ".config/stackmem",
    ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge", ".mozilla",
    ".thunderbird", ".password-store", ".local/share/keyrings", "Library/Keychains", ".bash_history", ".zsh_history",
))  # fmt: skip
"""Where a home folder has keys, passwords and browser profiles. A work tree that tracks such a name means another one.
"""
_KEYS = (".ssh", ".gnupg", ".aws", ".netrc", ".config/gh")
_PRIVATE_ENV = re.compile(
    rb"(?i)(?:^|/)\.env(?:rc)?(?:\.(?:local|prod|production|live|secret|secrets|private|.*\.local))?$"
)
_MAX_ENV_BYTES = 64 * 1024
DEPENDENCIES = frozenset({b".venv", b"venv", b"node_modules"})
_STAGE = os.fsencode(STAGE)  # left over from a killed apply
_CLOSED = b"warning: could not open directory '"
_STRANGE = re.compile(rb"(?:^|/)\.{0,2}(?:/|$)")  # an index is untrusted: git lists whatever it contains
_MAX_NAMES = 5  # maximum number of paths in one message


class Selection(Struct, frozen=True):
    """What to copy, by path relative to the folder."""

    files: dict[bytes, os.stat_result]  # regular files and links with their status; their parent folders are implied
    folders: list[bytes]  # folders to create even if they are empty
    dependencies: list[bytes]  # folders of installed packages among them
    skipped: list[bytes]  # skipped files that are worth reporting
    hidden: frozenset[bytes] = frozenset()  # names that no run may see, including those not worth reporting


def select(folder: Path, include: Iterable[str], own: Iterable[Path] = ()) -> Selection:
    """Scan the folder.

    Raise UsageError if a path cannot be read, or ``include`` names a path that cannot be copied.

    Args:
        folder: An absolute path without symlinks.
        include: Paths below the folder.
        own: Absolute folders that are never copied.
    """
    picked = Picked(os.fsencode(folder), own)
    if in_work_tree(folder):
        picked.from_git(folder, b"")
    else:
        picked.walk(b"")
    for name in include:
        picked.include(included(folder, name), name)
    picked.refuse_unreadable()
    names = frozenset((*picked.skipped, *picked.hidden))
    return Selection(picked.files, picked.folders, picked.dependencies(), sorted(picked.skipped), names)


def never_copied(name: bytes) -> bool:
    """Return whether files of this name are excluded at any depth."""
    lower = name.lower()
    return lower == b".git" or lower.startswith(b".env") or name == _STAGE


def tracked_env_files(folder: Path) -> frozenset[bytes]:
    """Return the ``.env.*`` files that the work tree tracks, except those that are named like a person's own."""
    arguments = ("ls-files", "-z", "--", ":(glob).env.*", ":(glob)**/.env.*")
    listed = git(*arguments, cwd=folder, environment=user_git_environment(), seconds=USER_GIT_SECONDS).split(b"\0")[:-1]
    return frozenset(path for path in listed if not _STRANGE.search(path) and not _PRIVATE_ENV.search(path))


def _has_no_key(path: bytes) -> bool:
    """Return whether a file is a small regular one without a key of a known form."""
    try:
        content = read_start(os.fsdecode(path), _MAX_ENV_BYTES + 1, follow=False)
    except OSError:
        return False
    return len(content) <= _MAX_ENV_BYTES and not Scrubber({}).held_in(content)


def keys_in(folder: Path) -> tuple[str, ...]:
    """Return the names in a folder that suggest that it is somebody's home, with their keys."""
    if folder.resolve() == Path.home().resolve():
        return tuple(name for name in _KEYS if os.path.lexists(folder / name)) or (".",)
    names = [name for name in _KEYS if os.path.lexists(folder / name)]
    return tuple(names) if len(names) > 1 and not (folder / ".git").exists() else ()


def real_folder(folder: Path) -> Path:
    """Return the folder with links resolved. Raises ``UsageError`` if it does not exist."""
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"no folder {shown_name(str(folder))}; name an existing one") from error
    if not root.is_dir():
        raise UsageError(f"{shown_name(str(folder))} is a file; name the folder to work on")
    return root


def own_below(root: Path, own: Iterable[Path]) -> list[Path]:
    """Return the folders that are inside ``root``. A folder that contains ``root`` does not count."""
    resolved = [path.resolve() for path in own]
    return [path for path in resolved if path.is_relative_to(root) and path != root]


class Picked:
    def __init__(self, root: bytes, own: Iterable[Path]) -> None:
        self.files: dict[bytes, os.stat_result] = {}
        self.folders: list[bytes] = []
        self.skipped: set[bytes] = set()
        self.hidden: set[bytes] = set()
        self._root = root
        self._own = {os.path.relpath(os.fsencode(path), root) for path in own} - {b"."}
        self._unreadable: list[bytes] = []
        self._real: dict[bytes, bool] = {b"": True}
        self._closed: dict[bytes, bool] = {}  # folders that are excluded
        self._tracked_above: set[bytes] = set()  # folders with tracked files
        self._installed: set[bytes] = set()
        folder = Path(os.fsdecode(root))
        self._tracked_env = tracked_env_files(folder) if in_work_tree(folder) else frozenset()
        self.open_env = {path for path in self._tracked_env if _has_no_key(self._at(path))}
        self._home = HOME_SECRETS if keys_in(folder) else frozenset[bytes]()

    def from_git(self, folder: Path, prefix: bytes) -> None:
        """Select what git lists. A folder in its list is another repository and is queried separately."""
        tracked = self._listed(folder, "--cached")
        for path in tracked:
            self._note_tracked(prefix + path)
        others = self._listed(folder, "--others", "--exclude-standard")
        for path in (*tracked, *others):
            if _STRANGE.search(path.rstrip(b"/")):
                raise UsageError(
                    f"the repository {shown_name(os.fspath(folder))} claims to track {shown_name(path)}, which is not"
                    " in it; do not trust this repository, or clone it again"
                )
            full_path = prefix + path.rstrip(b"/")
            if self._add(full_path) and os.path.lexists(self._at(full_path + b"/.git")):
                self.from_git(Path(os.fsdecode(self._at(full_path))), full_path + b"/")
        for path in self._listed(folder, "--others", "--ignored", "--exclude-standard", "--directory"):
            parts = path.rstrip(b"/").split(b"/")
            depth = next((number for number, part in enumerate(parts) if part in DEPENDENCIES), None)
            if depth is not None:
                self._installed.add(prefix + b"/".join(parts[: depth + 1]))
                self.walk(prefix + path.rstrip(b"/"))

    def _listed(self, folder: Path, *options: str) -> list[bytes]:
        output, warnings = git_and_warnings(
            "ls-files", "-z", *options, cwd=folder, environment=user_git_environment(), seconds=USER_GIT_SECONDS
        )
        for warning in warnings.splitlines():
            if warning.startswith(_CLOSED):  # git continues as if the folder were empty
                self._unreadable.append(warning.removeprefix(_CLOSED).split(b"'")[0].rstrip(b"/"))
        return output.split(b"\0")[:-1]

    def include(self, path: bytes, name: str) -> None:
        """Select what the user names, ignored or not."""
        if path in self._tracked_env:
            self.open_env.add(path)
            self.skipped.discard(path)
        if self.never(path):
            raise UsageError(f"--include {shown_name(name)} is never copied; choose another path")
        if self._status(path) is None:
            raise UsageError(f"--include {shown_name(name)} leads through a link; name the path it points to")
        self.walk(path)

    def walk(self, start: bytes) -> None:
        """Select everything at and below a path; the empty path is the whole folder."""
        todo = [start]
        if start and not self._add(start):
            return
        while todo:
            folder = todo.pop()
            if folder:
                self.folders.append(folder)
            try:
                names = os.listdir(self._at(folder))
            except OSError:
                self._unreadable.append(folder)
                continue
            paths = [folder + b"/" + name if folder else name for name in names]
            todo += [path for path in paths if self._add(path)]

    def _at(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root

    def _add(self, path: bytes) -> bool:
        """Select one path. Returns True for a folder, which the caller must scan."""
        if path in self.files or self.never(path):
            return False
        status = self._status(path)
        if status is None:
            return False  # tracked, but deleted
        if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
            self.files[path] = status
            return False
        if stat.S_ISDIR(status.st_mode):
            return True
        self.skipped.add(path)
        return False

    def _status(self, path: bytes) -> os.stat_result | None:
        """Return the status of a path, or None if it is missing or behind a link."""
        folder = path.rpartition(b"/")[0]
        try:
            if not (self._real.get(folder) or self._is_real(folder)):
                return None
            return os.lstat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            self._unreadable.append(path)
            return None

    def _is_real(self, folder: bytes) -> bool:
        """Return whether neither the folder nor any of its parents is a link."""
        unknown = []
        while folder not in self._real:
            unknown.append(folder)
            folder = folder.rpartition(b"/")[0]
        real = self._real[folder]
        for path in reversed(unknown):
            real = real and stat.S_ISDIR(os.lstat(self._at(path)).st_mode)
            self._real[path] = real
        return real

    def never(self, path: bytes) -> bool:
        parent, _, name = path.rpartition(b"/")
        if parent and parent not in self._closed:
            parts = parent.split(b"/")
            names = (b"/".join(parts[: number + 1]) for number in range(len(parts)))
            self._closed[parent] = any(self._is_closed(at, part) for at, part in zip(names, parts, strict=True))
        return (bool(parent) and self._closed[parent]) or self._is_closed(path, name)

    def _is_closed(self, path: bytes, name: bytes) -> bool:
        if name[:1] != b"." and not self._own and not self._home:
            return False  # most names
        if path in self.open_env:
            return False
        if path in self._own or path in self._home or name.lower().startswith(b".env"):
            self.skipped.add(path)
            return True
        if never_copied(name):
            self.hidden.add(path)
            return True
        return False

    def _note_tracked(self, path: bytes) -> None:
        parent = path.rpartition(b"/")[0]
        while parent and parent not in self._tracked_above:
            self._tracked_above.add(parent)
            parent = parent.rpartition(b"/")[0]

    def dependencies(self) -> list[bytes]:
        """Return folders of installed packages: ignored ones, and others of these names without tracked files."""
        paths = {path for path in self._installed if path not in self._tracked_above}
        parents = {path.rpartition(b"/")[0] for path in self.files}
        for path in {*self.folders, *parents}:
            parts = path.split(b"/")
            for number, part in enumerate(parts):
                at = b"/".join(parts[: number + 1])
                if at in paths:
                    break
                if part in DEPENDENCIES and at not in self._tracked_above and self._holds(at, part):
                    paths.add(at)
                    break
        return sorted(paths)

    def _holds(self, path: bytes, name: bytes) -> bool:
        return name != b"venv" or path + b"/pyvenv.cfg" in self.files

    def refuse_unreadable(self) -> None:
        """Raise for unreadable files, before anything is copied."""
        root = self._root
        closed = [] if os.geteuid() == 0 else [path for path in self.files if not self._readable(path)]
        wrong = sorted({*self._unreadable, *closed})
        if wrong:
            names = ", ".join(shown_name(path) or "." for path in wrong[:_MAX_NAMES])
            more = f" and {len(wrong) - _MAX_NAMES} more" if len(wrong) > _MAX_NAMES else ""
            raise UsageError(
                f"cannot read {names}{more} in {shown_name(root)}; make them readable, or add them to .gitignore"
            )

    def _readable(self, path: bytes) -> bool:
        linked = stat.S_ISLNK(self.files[path].st_mode)
        return linked or os.access(self._at(path), os.R_OK)


def in_work_tree(folder: Path) -> bool:
    """Return whether git knows the folder: as a work tree, or as an unignored part of one."""
    try:
        answer = git(
            "rev-parse",
            "--is-inside-work-tree",
            cwd=folder,
            environment=user_git_environment(),
            seconds=USER_GIT_SECONDS,
        )
    except WorkspaceError as error:
        if b"not a git repository" in str(error).encode() and not os.path.lexists(folder / ".git"):
            return False
        raise UsageError(
            f"git cannot read the repository of {folder}, so its ignored files are unknown ({error}); repair it first"
        ) from error
    if answer.strip() != b"true":
        return False
    # A home directory in git often ignores everything that was not added explicitly; treat such folders as separate.
    return bool(
        git("ls-files", "-z", cwd=folder, environment=user_git_environment(), seconds=USER_GIT_SECONDS)
    ) or not _ignored(folder)


def _ignored(folder: Path) -> bool:
    try:
        return bool(
            git(
                "check-ignore",
                os.fspath(folder),
                cwd=folder.parent,
                environment=user_git_environment(),
                seconds=USER_GIT_SECONDS,
            )
        )
    except WorkspaceError:  # exit 1: not ignored; otherwise not in a repository
        return False


def included(folder: Path, name: str) -> bytes:
    """Return the path of ``--include`` relative to the folder."""
    path = os.path.normpath(os.path.join(folder, name))
    inside = Path(path).parent.resolve() / Path(path).name
    if not name or path == str(folder) or not Path(path).is_relative_to(folder) or not inside.is_relative_to(folder):
        raise UsageError(f"--include {shown_name(name)} is not below {folder}; name a path inside the folder")
    if not os.path.lexists(path):
        raise UsageError(f"--include {shown_name(name)} does not exist in {folder}; name a path inside the folder")
    return os.path.relpath(os.fsencode(path), os.fsencode(folder))
