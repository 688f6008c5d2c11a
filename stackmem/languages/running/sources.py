"""Reads a program's sources from permitted places and stores each in the run directory under its digest.

Permitted are the program's own folder, the workspace, the folders of ``--mount``, and the folder of a configuration
(``--config``, or a file of that name found above the program).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from stackmem.core.program_facts import SourceLoaded
from stackmem.core.requests import LoadSource
from stackmem.foreign.files import read_start
from stackmem.run.request import ProgramRequest
from stackmem.workspace.files import Files
from stackmem.workspace.refusals import ToolRefused

from ..frame.bounds import FILE_BYTES

PACKAGED = "stackmem:"
IN_SANDBOX = "python/inside/"
"""Folder of the packaged modules that run in the process of a Python program."""
CONFIGS = (".aplconfig",)
"""Names of configuration files, which may also be in a folder above the program."""


class Loader:
    """The sources that one program may read."""

    def __init__(self, program: Path, folders: tuple[Path, ...] = (), files: tuple[str, Files] | None = None) -> None:
        """Allow sources next to ``program``, in ``folders``, and in the workspace ``files``.

        ``files`` are the path of the workspace for its tools and its files; None before the workspace exists.
        """
        self._program = program
        self._folders = [program.parent, *folders]
        self._files = files

    def read(self, source: LoadSource) -> tuple[str, str, str]:
        """Return ``(path, text, failed)`` of a source."""
        if source.path.startswith(PACKAGED):
            return self._packaged(source.path)
        base = posixpath.dirname(source.beside or str(self._program))
        path = posixpath.normpath(posixpath.join(base, source.path))
        if "\0" in path:
            return path[:200], "", "the path holds a NUL character"
        if self._files is not None and is_below(path, self._files[0]):
            return self._from_workspace(path, listing=source.listing)
        config = posixpath.basename(path) in CONFIGS and str(self._program).startswith(
            _with_slash(posixpath.dirname(path))
        )
        if not config and not any(is_below(path, str(folder)) for folder in self._folders):
            return path, "", f"it is out of reach; what can be reached: {', '.join(self._reach())}"
        source_text = _from_host(Path(path), listing=source.listing, inside=None if config else self._folders)
        if config and not source_text[2]:
            self._folders.append(Path(path).parent)
        return source_text

    def _reach(self) -> list[str]:
        own = [self._files[0]] if self._files else []
        return list(dict.fromkeys([*own, *map(str, self._folders)]))

    def _packaged(self, path: str) -> tuple[str, str, str]:
        name = path.removeprefix(PACKAGED)
        resource = resources.files("stackmem.languages").joinpath(*name.split("/"))
        hidden = name.endswith(".py") and not name.startswith(IN_SANDBOX)
        if ".." in name.split("/") or not name or hidden or not resource.is_file():
            return path, "", "stackmem does not ship this source"
        return path, resource.read_text("utf-8"), ""

    def _from_workspace(self, path: str, *, listing: bool) -> tuple[str, str, str]:
        files = self._files[1] if self._files else None
        try:
            if files is None:
                return path, "", "this run has no workspace"
            if listing:
                return path, "\n".join(files.names(path)), ""
            return path, *_decode(files.read_whole(path, FILE_BYTES))
        except ToolRefused as refused:
            return path, "", "No such file" if "does not exist" in str(refused) else str(refused)


def _from_host(file: Path, *, listing: bool, inside: list[Path] | None) -> tuple[str, str, str]:
    """Read a file or folder of the host. A link that leads out of the permitted folders is not followed."""
    path = str(file)
    try:
        real = file.resolve()
        if inside is not None and not any(real.is_relative_to(folder.resolve()) for folder in inside):
            return path, "", "it is a link that leads out of reach"
        if listing:
            names = sorted(each.name + "/" * each.is_dir() for each in real.iterdir())
            return path, "\n".join(names), ""
        if real.exists() and not real.is_file():
            return path, "", "Is a directory" if real.is_dir() else "it is not a regular file"
        return path, *_decode(read_start(real, FILE_BYTES + 1))
    except OSError as error:
        return path, "", "No such file" if isinstance(error, FileNotFoundError) else error.strerror or "unreadable"


def _decode(raw: bytes) -> tuple[str, str]:
    """Return ``(text, failed)``."""
    if len(raw) > FILE_BYTES:
        return "", f"it is over {FILE_BYTES:,} bytes"
    try:
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return "", f"it is not UTF-8 text (byte {error.start:,})"


def is_below(path: str, folder: str) -> bool:
    """Return whether ``path`` is ``folder`` or inside it. Both must be absolute and normalized."""
    return path == folder.rstrip("/") or path.startswith(_with_slash(folder))


def _with_slash(folder: str) -> str:
    return folder if folder.endswith("/") else f"{folder}/"


SourceReplacement = Callable[[LoadSource, str, str, str], tuple[str, str]]
"""Returns ``(text, failed)`` to use in place of a source, given the request and its path, text and failure."""


def as_read(source: LoadSource, path: str, text: str, failed: str) -> tuple[str, str]:
    """Return the source unchanged."""
    return text, failed


def source_keeper(
    loader: Loader, keep: Callable[[str], str], scrub: Callable[[str], str], replacement: SourceReplacement = as_read
) -> Callable[[LoadSource], SourceLoaded]:
    """Return a function that reads a source, stores its text and returns the event."""

    def load(source: LoadSource) -> SourceLoaded:
        path, text, failed = loader.read(source)
        clean, failed = replacement(source, path, scrub(text), failed)
        if failed:
            return SourceLoaded(path, failed=failed)
        return SourceLoaded(path, keep(clean), len(clean))

    return load


def reachable_folders(request: ProgramRequest, folder: Path | None) -> tuple[Path, ...]:
    """Return the host folders, in addition to the program's own, from which sources may be read."""
    config = request.options.get("config")
    folders = (
        *request.mounts,
        *([str(Path(str(config)).parent)] if config else []),
        *([str(folder)] if folder else []),
    )
    libraries = [Path(str(path)).parent for path in request.options.get("lib") or ()]
    return (*map(Path, folders), *libraries)
