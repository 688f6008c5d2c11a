"""Writes a page where a person wants it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from stackmem.errors import UsageError

from .page import page
from .view import read_runs


def write_page(folders: Sequence[Path], output: str | None) -> Path:
    """The page of one run or of two, whole or not at all; a file that was there is replaced.

    Args:
        output: The file; where it is None, ``view.html`` in the first run's folder, which names the second run.

    Raises:
        UsageError: It cannot be written.
        TraceError: A trace is broken.
    """
    name = "view.html" if len(folders) == 1 else f"view-{folders[1].resolve().name}.html"
    path = folders[0] / name if output is None else Path(os.path.expanduser(output))  # noqa: PTH111 - ~nobody is a name
    write_whole(path, page(read_runs(folders)))
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Put the content where the path says, whole or not at all; a file that was there is replaced.

    Raises:
        UsageError: It cannot be written.
    """
    try:
        _replace(path, content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); choose another file with -o") from error


def _replace(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe is written to, never replaced
        return
    fresh = path.parent / f".{path.name[:200]}.{os.getpid()}"
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def open_page(path: Path) -> None:
    """Show the page in the person's browser.

    Raises:
        UsageError: There is none.
    """
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        raise UsageError(f"no browser could be started; open {path} by hand")
