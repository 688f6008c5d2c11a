"""What ``fork`` prints, before, while and after."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import typer

from stackmem.errors import TraceError
from stackmem.run.fork import fork
from stackmem.run.fork_changes import read_changes
from stackmem.run.request import read_request

from .live import open_screen, stop_at_once
from .solving import readable, say, show_result


def fork_and_show(
    folder: Path,
    at: int,
    flags: Mapping[str, str | None],
    heap: tuple[list[str], list[str]],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fork, show, and exit with the new run's code.

    Args:
        heap: What to set, and what to drop, as the flags spell it.

    Raises:
        StackmemError: As ``fork`` does.

    """
    changes = read_changes(flags, *heap, Path.cwd())
    with open_screen(quiet=quiet, asks=_asks(folder, changes.model)) as screen:
        forked = fork(folder, at, changes, os.environ, screen, stop_at_once)
    result = forked.result
    if result.failure:
        say(f"stackmem: {readable(result.failure)}")
    if forked.missing:
        say(f"the workspace is without {', '.join(map(readable, forked.missing))}: they are in no place any more")
    if as_json:
        typer.echo(msgspec.json.encode(result).decode())
    else:
        show_result(result, folder=bool(forked.folder), checked=forked.checked)
    sys.exit(result.exit_code)


def _asks(folder: Path, model: str | None) -> bool:
    """Whether a person is the model, who needs the screen for herself."""
    try:
        return (model or read_request(folder).flags.get("model")) == "human"
    except TraceError:  # said by what needs it more
        return False
