"""The ``stackmem examples`` command, which lists and copies the example programs in the package."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from pathlib import Path

import typer

from stackmem.cli.options import argument, option
from stackmem.cli.screen.text import readable
from stackmem.core.errors import UsageError


def command(
    name: str | None = argument("[NAME]", "The example to copy, as listed.", default=None),
    to: Path | None = option("--to", "The new folder. Default: the name of the example.", "DIR"),
) -> None:
    """List the example programs; with a NAME, copy that example so that you can change and run it."""
    shipped = shipped_examples()
    programs = {main.parent.relative_to(shipped).as_posix(): main for main in sorted(shipped.glob("*/*/main.*"))}
    if name is None:
        width = max(map(len, programs))
        for each in programs:
            typer.echo(f"{each:<{width}}  {description_of(shipped, each)}")
        typer.echo("\nstackmem examples NAME copies an example with a script that runs it without a model")
        return
    if name not in programs:
        near = difflib.get_close_matches(name, programs, n=1, cutoff=0.4)
        raise UsageError(
            f"no example {name[:80]!r}; " + (f"did you mean {near[0]!r}?" if near else "stackmem examples lists them")
        )
    main = programs[name]
    target = Path(os.path.expanduser(to or main.parent.name))
    try:
        shutil.copytree(main.parent, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{target} cannot be created ({reason}); choose another folder with --to") from error
    script = target / "script.yaml"
    more = flags_of(shipped, name).replace(f"examples/{name}/", f"{target}/")
    run = f"stackmem run {target} --model script:{script}"
    typer.echo(readable(f"{target}\nrun it: {f'{run} {more}'.rstrip()}"))


def flags_of(shipped: Path, name: str) -> str:
    """Return the flags that an example needs besides ``--model``."""
    match = re.fullmatch(r"`(--[^`]+)`", _cells(shipped, name)[2])
    return match[1] if match else ""


def description_of(shipped: Path, name: str) -> str:
    """Return what an example shows, in one line."""
    return _cells(shipped, name)[1].replace("`", "")


def _cells(shipped: Path, name: str) -> tuple[str, str, str]:
    """Return the row of an example in the README of the examples: name, description, flags; empty if it has no row."""
    for line in (shipped / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        if cells[0] == f"`{name}`" and len(cells) == 3:
            return cells[0], cells[1], cells[2]
    return f"`{name}`", "", ""


def shipped_examples() -> Path:
    """Return the examples folder: inside the package in a wheel, next to the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    packaged = package / "_examples"
    return packaged if packaged.is_dir() else package.parent / "examples"
