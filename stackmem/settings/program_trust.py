"""The programs that a folder offers to agents, and the user's trust in them.

Trust is recorded like that in a folder's servers (``mcp_servers``), with a digest of every file below
``.stackmem/programs``. A file that is added, changed or removed ends it.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from stackmem.errors import UsageError

from .mcp_servers import FolderServers, NamedFile
from .settings_files import read_within

PROGRAMS_FOLDER = ".stackmem/programs"
_MAX_FILES = 1_000
_MAX_BYTES = 10 << 20


def read_programs(folder: Path) -> FolderServers | None:
    """Return the files below a folder's programs, with the digest that trust is recorded with. None without any.

    Raises:
        UsageError: The folder is a link out of the project, or its files cannot be compared.
    """
    root = folder.resolve()
    place = root / PROGRAMS_FOLDER
    if not place.is_dir():
        return None
    if place.resolve() != place:
        raise UsageError(f"{place} is a link; replace it by a folder")
    files: list[NamedFile] = []
    for parent, names, others in os.walk(place):
        names.sort()
        for name in sorted(others + [each for each in names if Path(parent, each).is_symlink()]):
            path = Path(parent, name)
            if len(files) >= _MAX_FILES:
                raise UsageError(f"{place} has more than {_MAX_FILES:,} files; remove some")
            files.append(NamedFile(str(path.relative_to(root)), _content(path)))
    if not files:
        return None
    digest = hashlib.sha256(b"stackmem trust programs 1\n" + msgspec.json.encode(files)).hexdigest()
    return FolderServers(place, {}, tuple(files), digest)


def _content(path: Path) -> str:
    if path.is_symlink():
        try:
            return f"link to {path.readlink()}"
        except OSError as error:
            raise UsageError(f"{path} cannot be read ({error.strerror}); remove it") from error
    raw = read_within(path, _MAX_BYTES)
    return f"SHA-256 {hashlib.sha256(raw).hexdigest()}"
