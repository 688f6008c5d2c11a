"""The programs and commands that a folder offers, and the user's trust in them.

Trust is recorded like that in a folder's servers (``mcp_servers``), with a digest of every file below
their folder. A file that is added, changed or removed ends it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from stackmem.core.errors import UsageError

from .mcp_servers import FolderServers, NamedFile
from .settings_files import read_within

PROGRAMS_FOLDER = ".stackmem/programs"
COMMAND_FOLDERS = (".stackmem/commands", ".claude/commands")
_MAX_FILES = 1_000
_MAX_BYTES = 10 << 20


def read_programs(folder: Path) -> FolderServers | None:
    """Return the files below a folder's programs, with the digest that trust is recorded with. None without any.

    Raise UsageError if the folder is a link out of the project, or its files cannot be compared.
    """
    return _read_below(folder, PROGRAMS_FOLDER, "programs")


def read_commands(folder: Path, name: str) -> FolderServers | None:
    """Return the files of one of a folder's ``COMMAND_FOLDERS``, like ``read_programs``."""
    return _read_below(folder, name, "commands")


def _read_below(folder: Path, name: str, kind: str) -> FolderServers | None:
    root = folder.resolve()
    target = root / name
    if not target.is_dir():
        return None
    if target.resolve() != target:
        raise UsageError(f"{target} is a link; replace it by a folder")
    files: list[NamedFile] = []
    for parent, folders, others in os.walk(target):
        folders.sort()
        for each in sorted(others + [inner for inner in folders if Path(parent, inner).is_symlink()]):
            path = Path(parent, each)
            if len(files) >= _MAX_FILES:
                raise UsageError(f"{target} has more than {_MAX_FILES:,} files; remove some")
            files.append(NamedFile(str(path.relative_to(root)), _content(path)))
    if not files:
        return None
    digest = hashlib.sha256(f"stackmem trust {kind} 1\n".encode() + msgspec.json.encode(files)).hexdigest()
    return FolderServers(target, {}, tuple(files), digest)


def _content(path: Path) -> str:
    if path.is_symlink():
        try:
            return f"link to {path.readlink()}"
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}); remove it") from error
    raw = read_within(path, _MAX_BYTES)
    return f"SHA-256 {hashlib.sha256(raw).hexdigest()}"
