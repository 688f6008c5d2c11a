"""What ``resume --program`` prints."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackmem.errors import UsageError
from stackmem.run.programs.edited_run import Parted, continue_program

from .running import program_talk, show_program
from .solving import readable, say


def continue_and_show(
    folder: Path,
    program: str,
    wanted: dict[str, str | None],
    answers: tuple[list[str], str | None],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Go on with an edited program, and exit with the new run's code.

    Raises:
        StackmemError: As ``continue_program`` does.

    """
    talk = program_talk(folder, *answers, as_json=as_json, quiet=quiet)
    if talk is None:
        raise UsageError(f"{folder.name} is no run of a program; leave out --program")
    screen, person = talk

    def told(parted: Parted) -> None:
        if not quiet:
            where = f" in {readable(parted.path)}" if parted.path else ""
            if parted.changed:
                say(f"read as they are now: {', '.join(map(readable, parted.changed))}")
            say(f"{parted.answers:,} of {parted.recorded:,} recorded answers hold; it goes on from there{where}")

    result = continue_program(folder, Path.cwd() / Path(program).expanduser(), wanted, os.environ, person, told)
    show_program(result, screen, as_json=as_json)
    sys.exit(result.run.exit_code)
