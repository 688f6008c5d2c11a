"""Files that steer a check without being asked for by it, as the run found them again in the copy that is checked.

Rule 1: what Python, node or a shell's PATH take up by themselves is put back always: no check is about it.
Rule 2: settings of test runners are put back where the run found tests. Where it found none, the tests are the run's
    own, and so are their settings. Of a file that holds other things, too, those settings alone count as a change.
Rule 3: tests are put back where the person says so; tests that the run added stay.
Rule 4: only the copy is written, and nothing through a link.
"""

from __future__ import annotations

import configparser
import errno
import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from stackmem.errors import WorkspaceError
from stackmem.foreign.files import read_start
from stackmem.workspace.clip import shown_name
from stackmem.workspace.overlay.mount import is_whiteout

from .history import History
from .layer import Layer, Overlay
from .objects import EXECUTABLE, FILE, LINK
from .restore import content_of, put_file, remove_file

SteeringKind = Literal["start", "settings", "tests"]
_KINDS: tuple[SteeringKind, ...] = ("start", "settings", "tests")
Found = tuple[str, bytes]
"""A file's mode, as git spells it, and its content."""

_START = re.compile(
    r"(.*/)?(sitecustomize|usercustomize|pytest|pluggy|unittest)(\.py|/.*)|(.*/)?_pytest/.*|.*\.pth"
    r"|(.*/)?[^/]+\.(dist|egg)-info/entry_points\.txt|(.*/)?\.(npmrc|yarnrc(\.yml)?|pnpmfile\.cjs|pnp\.c?js)"
    r"|(.*/)?\.cargo/config(\.toml)?|(.*/)?\.?venv/(bin/.*|pyvenv\.cfg)|(.*/)?node_modules/\.bin/.*"
)
_SETTINGS = re.compile(
    r"(.*/)?(conftest\.py|\.?pytest\.(ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml|noxfile\.py|\.coveragerc"
    r"|(gnu)?makefile|justfile|rakefile|package\.json|(jest|vitest|ava|karma|playwright|cypress)\.(config|conf)\.[^/]+"
    r"|\.mocharc\.[^/]+|\.(jest|nyc|c8)rc[^/]*|phpunit\.xml[^/]*|\.rspec|nextest\.toml)"
)
_TESTS = re.compile(
    r"(.*/)?(tests?|__tests__|specs?)/.*|(.*/)?test_[^/]*\.py|(.*/)?[^/]*_test\.[a-z]+|(.*/)?[^/]*\.(test|spec)\.[a-z]+"
)
_RUNNERS = ("scripts", "jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "wireit", "workspaces")
_PASSED_OVER = {b".git", b"__pycache__", b".mypy_cache", b".ruff_cache", b".pytest_cache"}
_INSTALLED = {b".venv", b"venv", b"node_modules"}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BYTES = 64 << 20


def steers(path: bytes) -> SteeringKind | None:
    """What a file steers by its path in the workspace."""
    name = os.fsdecode(path).lower()
    if _START.fullmatch(name):
        return "start"
    if _SETTINGS.fullmatch(name):
        return "settings"
    return "tests" if _TESTS.fullmatch(name) else None


class FoundFiles:
    """What a run found in its workspace, for checks of a copy of it.

    Attributes:
        most: What is put back, with all that stands before it: ``start``, ``settings`` or ``tests``.
    """

    def __init__(self, history: History, git_dir: Path, tree: str, most: SteeringKind = "settings") -> None:
        """Read from the tree that the run began with; of a layer, from the folder under it."""
        self.most = most
        self._git_dir = git_dir
        self._began = history.files(tree)

    def put_back(self, copy: Layer) -> tuple[str, ...]:
        """Put back what steers the check, and return what had been another, by name.

        Raises:
            WorkspaceError: The copy cannot be written, or a file of it read.
        """
        kinds = set(_KINDS[: _KINDS.index(self.most) + 1])
        if self.most == "settings" and not self._had_tests(copy):
            kinds.discard("settings")
        other = []
        for path in sorted({*self._candidates(copy)}):
            kind = steers(path)
            if kind not in kinds:
                continue
            before, now = self._found(copy, path), current(copy.view.fd, path)
            if before == now or (before is None and kind == "tests") or same_settings(path, before, now):
                continue
            try:
                _put(copy.view.fd, path, before)
            except OSError as error:
                raise WorkspaceError(
                    f"{shown_name(path)} steers the check and cannot be put back to what the run found "
                    f"({error.strerror}); --check-files left judges without"
                ) from error
            other.append(shown_name(path))
        return tuple(other)

    def _candidates(self, copy: Layer) -> Iterator[bytes]:
        """Paths at which the copy may differ from what was found."""
        if isinstance(copy, Overlay):
            for path, entry in _walk(copy.upper, _PASSED_OVER):
                yield path
                if is_whiteout(entry.stat(follow_symlinks=False)) or _is_opaque(entry.path):
                    yield from (b"%s/%s" % (path, name) for name, _ in _walk(_inner(copy.folder, path), _PASSED_OVER))
            return
        yield from (path for path in self._began if steers(path))
        yield from (path for path, _ in _walk(copy.view.root, _PASSED_OVER | _INSTALLED))

    def _found(self, copy: Layer, path: bytes) -> Found | None:
        if isinstance(copy, Overlay):
            if any(path == each or path.startswith(each + b"/") for each in copy.hidden):
                return None
            folder = os.open(copy.folder, _FOLDER)
            try:
                return current(folder, path)
            finally:
                os.close(folder)
        node = self._began.get(path)
        return None if node is None else (node.mode, content_of(self._git_dir, node.id))

    def _had_tests(self, copy: Layer) -> bool:
        if isinstance(copy, Overlay):
            there = _walk(copy.folder, _PASSED_OVER | _INSTALLED)
            return any(steers(path) == "tests" and entry.is_file(follow_symlinks=False) for path, entry in there)
        return any(steers(path) == "tests" for path in self._began)


def _put(root: int, path: bytes, found: Found | None) -> None:
    """Have what was found stand at a path, whatever stands there."""
    try:
        remove_file(root, path)
    except IsADirectoryError:
        shutil.rmtree(b"/proc/self/fd/%d/%s" % (root, path))
    if found is not None:
        put_file(root, path, *found)


def _walk(folder: Path, skip: set[bytes]) -> Iterator[tuple[bytes, os.DirEntry[bytes]]]:
    """Everything below a folder by its path there, without following a link; nothing where it is no folder."""
    waiting = [b""]
    while waiting:
        above = waiting.pop()
        place = os.path.join(os.fsencode(folder), above)  # noqa: PTH118 - of bytes
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                path = os.path.join(above, entry.name)  # noqa: PTH118 - of bytes
                yield path, entry
                if entry.is_dir(follow_symlinks=False) and entry.name not in skip:
                    waiting.append(path)


def _inner(folder: Path, path: bytes) -> Path:
    """A folder in another one; one that is empty where a link leads there."""
    inner = folder / os.fsdecode(path)
    return inner if inner.resolve() == folder.resolve() / os.fsdecode(path) else Path("/proc/self/fdinfo/none")


def _is_opaque(path: bytes) -> bool:
    """Whether a folder of a layer hides the one below it."""
    for kind in ("trusted", "user"):
        with suppress(OSError):
            return os.getxattr(path, f"{kind}.overlay.opaque", follow_symlinks=False) == b"y"
    return False


def current(root: int, path: bytes) -> Found | None:
    """What stands at a path below an open folder; None where there is no file, or a link leads there.

    Raises:
        OSError: It cannot be read, or is too large.
    """
    *above, name = path.split(b"/")
    folder = os.dup(root)
    try:
        for each in above:
            folder, left = os.open(each, _FOLDER, dir_fd=folder), folder
            os.close(left)
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return LINK, os.readlink(name, dir_fd=folder)
        if not stat.S_ISREG(status.st_mode):
            return None
        content = read_start(name, _MOST_BYTES + 1, follow=False, dir_fd=folder)
        if len(content) > _MOST_BYTES:
            raise OSError(errno.EFBIG, "too large a file for one that steers a check", os.fsdecode(path))
        return EXECUTABLE if status.st_mode & 0o100 else FILE, content
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    finally:
        os.close(folder)


def same_settings(path: bytes, before: Found | None, now: Found | None) -> bool:
    """Whether two versions of a file that holds other things, too, steer tests alike."""
    name = path.rpartition(b"/")[2].decode("ascii", "replace").lower()
    if name not in _PARTS or any(each is not None and each[0] == LINK for each in (before, now)):
        return False
    try:
        ours, theirs = (None if each is None else _PARTS[name](each[1].decode("utf-8")) for each in (before, now))
    except (ValueError, configparser.Error, RecursionError, AttributeError):
        return False
    return (ours or None) == (theirs or None)


def _of_pyproject(text: str) -> Any:
    return {
        name: part
        for name, part in tomllib.loads(text).get("tool", {}).items()
        if name in ("pytest", "tox", "coverage")
    }


def _of_setup(text: str) -> Any:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {name: dict(parser.items(name)) for name in parser.sections() if name.startswith(("tool:", "coverage:"))}


def _of_package(text: str) -> Any:
    return {name: part for name, part in json.loads(text).items() if name in _RUNNERS}


def _of_entry_points(text: str) -> Any:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    return dict(parser.items("pytest11")) if parser.has_section("pytest11") else {}


_PARTS: Mapping[str, Callable[[str], Any]] = {
    "pyproject.toml": _of_pyproject, "setup.cfg": _of_setup, "package.json": _of_package,
    "entry_points.txt": _of_entry_points,
}  # fmt: skip
