"""Keeps a procedure that an agent proposed (see ``run.companion.learning``) as a program of the user's folder.

Rule 1: Keeping copies the proposal to ``.stackmem/programs`` of the folder and renews the user's trust there. If that
    folder has programs that the user does not trust, nothing is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.foreign.files import open_regular
from stackmem.run.companion.learning import MAX_CHARS, PROPOSALS, proposals
from stackmem.settings.mcp_servers import is_trusted, trust
from stackmem.settings.program_trust import PROGRAMS_FOLDER, read_programs


def proposed(run_dir: Path, name: str) -> str:
    """Return the text of a proposal.

    Raise UsageError if the run does not propose such a program, or it cannot be read.
    """
    if name not in proposals(run_dir):
        names = ", ".join(proposals(run_dir)) or "none"
        raise UsageError(f"{run_dir.name} does not propose {name[:80]!r}; its proposals: {names}")
    try:
        with open_regular(run_dir / PROPOSALS / name, follow=False) as file:
            return file.read(4 * MAX_CHARS).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the proposal {name} cannot be read ({error})") from error


def keep_program(run_dir: Path, name: str, folder: Path, environ: Mapping[str, str], *, replace: bool) -> Path:
    """Copy a proposal to the folder's programs, trust them, and return the file.

    Raises:
        UsageError: See ``proposed``; the folder has programs that the user does not trust, or a different one of this
            name and ``replace`` is false; or the file cannot be written.
    """
    text = proposed(run_dir, name)
    before = read_programs(folder)
    if before is not None and not is_trusted(before, environ):
        raise UsageError(f"{folder / PROGRAMS_FOLDER} has programs that you do not trust; run stackmem trust {folder}")
    target = folder.resolve() / PROGRAMS_FOLDER / name
    if os.path.lexists(target) and not replace:
        raise UsageError(f"{target} exists; pass --replace, or rename it")
    part = target.with_name(f".{name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{target} cannot be written ({error.strerror or error})") from error
    after = read_programs(folder)
    if after is not None:
        trust(after, environ)
    return target
