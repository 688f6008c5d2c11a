"""A workspace in memory that gives the same answers as files on disk with a program in a sandbox.

Rule 1: No disk access and no processes.
Rule 2: The file tools answer byte for byte as they would for a folder with the same files; so do the program, ``cat``
    and ``ls``.
Rule 3: Every other command ends with exit code 127 and an error message. Besides that, only time limits, links and
    permissions differ.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from stat import S_IFDIR, S_IFREG

from msgspec import Struct

from stackmem.foreign.beneath import PATH_BYTES

from .answers import path_parts, protected, relative
from .capture import Capture
from .clip import clean, meant_name
from .command import CommandEnd
from .file_tools import PROTECTED_IN_ROOT, FileTools, Read, WriteTarget
from .listing import DirectoryEntry, arranged
from .outcome import ToolOutcome
from .profile import Mount
from .refusals import ToolRefused, quote
from .shown import shown_output
from .workspace import refused_command

_NAME_BYTES = 255
# Shell metacharacters and control characters; a workspace in memory has no shell.
_SHELL = re.compile(r"[\\$`|&;<>(){}\[\]*?~#!\x00-\x08\x0a-\x1f\x7f]")
_PLAIN = re.compile(r"[A-Za-z0-9_./+:@%-]+", re.ASCII)


class MemoryProgram(Struct, frozen=True):
    """The only program of a workspace."""

    path: str  # path relative to the workspace; ``./PATH`` runs it
    # takes the files and the arguments, returns output and exit code, and changes the files in place
    run: Callable[[dict[str, str], list[str]], tuple[str, int]]
    # files that must not change: the program's own text, and the files that it trusts
    fixed: tuple[str, ...] = ()


class MemoryFiles(FileTools):
    """The file tools of a workspace in memory."""

    def __init__(self, files: dict[str, str], inside: str, scrub: Callable[[str], str] = str) -> None:
        super().__init__(inside, scrub)
        self._files = files

    @contextmanager
    def _opened(self, path: str, raw: bytes) -> Iterator[tuple[Read, int]]:
        key = self.resolve(raw)
        if key not in self._files:
            raise ToolRefused(_directory(path))
        content = _bytes(self._files[key])
        yield io.BytesIO(content).read, len(content)

    @contextmanager
    def _target(self, path: str, directory: bytes, last: bytes, *, make: bool) -> Iterator[WriteTarget]:
        try:
            parent = self.resolve(self._spelled(directory))
        except FileNotFoundError:
            if not make:
                raise
            parent = self._future_path(path, directory)
        if parent in self._files:
            raise _failure(errno.ENOTDIR)
        name = self._child_path(parent, last)
        if name is None and (meant := meant_name(_text(last))):
            last, name = (meant, inner) if (inner := self._child_path(parent, meant)) is not None else (last, None)
        if not parent and _text(last).casefold() in PROTECTED_IN_ROOT:
            raise ToolRefused(protected(path))
        if name is not None and name not in self._files:
            raise ToolRefused(_directory(path))
        at = _joined(parent, last) if name is None else name
        old = None if name is None else _bytes(self._files[name])
        yield WriteTarget(
            None if old is None else len(old),
            old is not None,
            lambda most: None if old is None else old[:most],
            lambda content: self._files.update({at: _text(content)}),
        )

    def _future_path(self, path: str, directory: bytes) -> str:
        """Return the path that the directory will have once it contains a file."""
        at = ""
        for part in path_parts(directory):
            if part == b"..":
                at = at.rpartition("/")[0] if at else self.resolve(b"..")
            elif (inner := self._child_path(at, part)) is not None:
                at = inner
            elif not at and _text(part).casefold() in PROTECTED_IN_ROOT:
                raise ToolRefused(protected(path))
            else:
                at = _joined(at, part)
            if at in self._files:
                raise _failure(errno.ENOTDIR)
        return at

    def _listing(self, raw: bytes, shown_bytes: int) -> str:
        key = self.resolve(raw)
        if key in self._files:
            raise _failure(errno.ENOTDIR)
        prefix = b"".join(part + b"/" for part in path_parts(raw))

        def children(name: bytes, most: int) -> tuple[list[DirectoryEntry], str, bool]:
            entries = self.entries(_joined(key, name))
            return entries[:most], "", len(entries) > most

        return arranged((self.entries(key), False), children, prefix, shown_bytes)

    def entries(self, directory: str) -> list[DirectoryEntry]:
        start = f"{directory}/" if directory else ""
        entries: dict[bytes, DirectoryEntry] = {}
        for path, text in self._files.items():
            if path.startswith(start):
                first, slash, _ = path[len(start) :].partition("/")
                name = first.encode("utf-8", "surrogateescape")
                entries[name] = (
                    DirectoryEntry(name, S_IFDIR) if slash else DirectoryEntry(name, S_IFREG, len(_bytes(text)))
                )
        return [entries[name] for name in sorted(entries)]

    def resolve(self, path: bytes) -> str:
        """Resolve ``.`` and ``..`` in the path of an existing file or folder. Raises OSError as ``open`` does."""
        if not path:
            raise _failure(errno.ENOENT)
        if path.startswith(b"/"):
            raise _failure(errno.EXDEV)
        if len(path) >= PATH_BYTES:
            raise _failure(errno.ENAMETOOLONG)
        at = ""
        for part in path.split(b"/"):
            if at in self._files:
                raise _failure(errno.ENOTDIR)
            if part == b"..":
                if not at:
                    raise _failure(errno.EXDEV)
                at = at.rpartition("/")[0]
            elif part not in {b"", b"."}:
                inner = self._child_path(at, part)
                if inner is None:
                    raise _failure(errno.ENOENT)
                at = inner
        return at

    def _child_path(self, directory: str, name: bytes) -> str | None:
        """Return the path of a name in a folder, or None if it does not exist."""
        if len(name) > _NAME_BYTES:
            raise _failure(errno.ENAMETOOLONG)
        at = _joined(directory, name)
        if at in self._files or any(path.startswith(f"{at}/") for path in self._files):
            return at
        return None

    def _exists(self, path: bytes) -> bool:
        try:
            self.resolve(path)
        except OSError as error:
            return error.errno == errno.EXDEV
        return True


class MemoryWorkspace:
    """Files in a dict, and one program that works on them."""

    level = "memory"

    def __init__(
        self, files: Mapping[str, str], inside: str, program: MemoryProgram, scrub: Callable[[str], str] = str
    ) -> None:
        self.files = dict(files)  # maps paths to text; folders exist through the paths of their files
        self.path = inside  # the folder as commands see it
        self._program = program
        self._fixed = {path: self.files.get(path) for path in program.fixed}
        self._scrub = scrub
        self._tools = MemoryFiles(self.files, inside, scrub)

    def place(self, mount: Mount) -> str:
        """Return the path a mount would have. Nothing is mounted."""
        return mount.inside

    def close(self) -> None:
        """Do nothing, because it has no resources to release."""

    def read_file(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> ToolOutcome:
        return self._tools.read(path, start_line, end_line, shown_bytes)

    def write_file(self, path: str, content: str) -> ToolOutcome:
        return self._tools.write(path, content)

    def edit_file(self, path: str, old: str, new: str, *, every: bool) -> ToolOutcome:
        return self._tools.edit(path, old, new, every=every)

    def search_files(self, pattern: str, path: str, glob: str, context: int, shown_bytes: int) -> ToolOutcome:
        """Refuse: a pattern may run forever, so the search needs a sandbox."""
        return ToolOutcome("search_files needs a sandbox, which this workspace lacks; read the files", failed=True)

    def list_files(self, path: str, shown_bytes: int) -> ToolOutcome:
        return self._tools.list(path, shown_bytes)

    def digest(self, path: str) -> str:
        return self._tools.digest(path)

    def run_command(self, command: str, seconds: float, shown_bytes: int) -> ToolOutcome:
        """Run ``./PROGRAM …``, ``cat PATH…`` or ``ls``. The last line of the text says how it ended."""
        if refused := refused_command(command):
            return ToolOutcome(refused, failed=True)
        raw, code = self._ran(command)
        capture = Capture()
        capture.take(raw)
        text = shown_output(
            CommandEnd(capture, code, ""), seconds, shown_bytes, lambda piece: self._scrub(clean(piece))
        )  # fmt: skip
        return ToolOutcome(text, failed=code != 0, exit_code=code)

    def _ran(self, command: str) -> tuple[bytes, int]:
        if not (words := _words(command)):
            return (b"", 0) if words == [] else (_unknown(command, self._program.path), 127)
        match words:
            case [name, *rest] if name in (f"./{self._program.path}", f"{self.path}/{self._program.path}"):
                changed = [path for path, text in self._fixed.items() if self.files.get(path) != text]
                if changed:
                    return f"{changed[0]} was changed, and only the original is run in memory\n".encode(), 127
                text, code = self._program.run(self.files, rest)
                return text.encode("utf-8", "replace"), code
            case ["cat", *paths] if all(map(_PLAIN.fullmatch, paths)) and not any(map(_option, paths)):
                return self._cat(paths)
            case ["ls", *paths] if (
                len(paths) <= 1 and all(map(_PLAIN.fullmatch, paths)) and not any(map(_option, paths))
            ):
                return self._ls(paths[0] if paths else ".")
            case _:
                return _unknown(command, self._program.path), 127

    def _cat(self, paths: list[str]) -> tuple[bytes, int]:
        output, code = b"", 0
        for path in paths:
            try:
                key = self._tools.resolve(relative(path, self.path))
                if key not in self.files:
                    raise _failure(errno.EISDIR)
                output += _bytes(self.files[key])
            except OSError as error:
                if error.errno == errno.EXDEV:
                    return _unknown(f"cat {path}", self._program.path), 127
                output, code = output + f"cat: {path}: {error.strerror}\n".encode(), 1
        return output, code

    def _ls(self, path: str) -> tuple[bytes, int]:
        try:
            key = self._tools.resolve(relative(path, self.path))
        except OSError as error:
            if error.errno == errno.EXDEV:
                return _unknown(f"ls {path}", self._program.path), 127
            return f"ls: cannot access '{path}': {error.strerror}\n".encode(), 2
        if key in self.files:
            return f"{path}\n".encode(), 0
        names = [entry.name for entry in self._tools.entries(key) if not entry.name.startswith(b".")]
        return b"".join(name + b"\n" for name in names), 0


def _words(command: str) -> list[str] | None:
    """Split a command that needs no shell into words. Return None for any other command."""
    if _SHELL.search(command):
        return None
    if command.isascii() and "'" not in command and '"' not in command:
        return command.split()  # same result as shlex, 40 times faster
    try:
        return shlex.split(command)
    except ValueError:
        return None


def _unknown(command: str, program: str) -> bytes:
    short = ascii(command[:80])
    return f"{short} cannot be run in memory; what can: ./{program} ..., cat PATH..., ls\n".encode()


def _option(word: str) -> bool:
    return word.startswith("-")


def _directory(path: str) -> str:
    return f"{quote(path)} is a directory; list_files shows what it holds"


def _joined(directory: str, name: bytes) -> str:
    return f"{directory}/{_text(name)}" if directory else _text(name)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _failure(code: int) -> OSError:
    return OSError(code, os.strerror(code))
