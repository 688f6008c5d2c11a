"""A history that begins where another one stands: what they share stays in the other's store (git's alternates)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stackmem.errors import WorkspaceError

from .history import STATE
from .objects import alternates


def share(parent: Path, child: Path, tree: str) -> None:
    """Make the git directory ``child`` a history that stands at ``tree``, which ``parent`` holds.

    Paths between them are relative, so that the two can be moved together.

    Raises:
        WorkspaceError: The parent has no history, or the child cannot be written.

    """
    try:
        state = msgspec.json.decode((parent / STATE).read_bytes(), type=dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        raise WorkspaceError(
            f"the history {parent} cannot be read ({error}); bring back the run's history.git"
        ) from error
    objects = child / "objects"
    sources = [os.fspath(parent / "objects"), *alternates(parent)]  # git follows relative ones one level deep
    lines = [os.path.relpath(source, objects) for source in dict.fromkeys(sources)]
    try:
        (objects / "info").mkdir(parents=True)
        (objects / "info" / "alternates").write_bytes(b"".join(os.fsencode(line) + b"\n" for line in lines))
        (child / STATE).write_bytes(msgspec.json.encode({**state, "tree": tree}))
    except OSError as error:
        raise WorkspaceError(f"the history {child} cannot be made ({error.strerror}); make room there") from error
