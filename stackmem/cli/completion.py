"""Tab completion: reads commands and flags from a table, so that no command is imported.

- Shells evaluate completions, and other people can name runs and tasks. Names with unsafe characters are left out.
- Strategies, models and languages come from the built-in lists; plug-ins are not loaded for a press of Tab.

``scripts/reference.py`` generates ``words.json`` from the commands.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import typer

from stackmem.errors import StackmemError

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*", re.ASCII)
_MOST = 200  # limit of names in one answer; the newest runs


def add_light(parent: typer.Typer, name: str) -> None:
    """Add one root command with flags and arguments from the table, but without its code."""
    table = json.loads(resources.files(__package__).joinpath("words.json").read_text("utf-8"))
    below = {words.partition(" ")[2]: row for words, row in table["commands"].items() if words.startswith(f"{name} ")}
    own = _nothing(table["commands"][name], table["names"])
    if not below:
        parent.command(name)(own)
        return
    group = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
    group.callback()(own)
    for word, row in below.items():
        group.command(word)(_nothing(row, table["names"]))
    parent.add_typer(group, name=name)


def _nothing(row: dict[str, dict[str, str]], names: dict[str, list[str]]) -> Callable[..., None]:
    """Build a command that accepts the row's parameters and does nothing."""

    def command(**_: object) -> None:
        pass  # no help text: typer would load rich to display it

    made = []
    for position, (flag, takes) in enumerate(row["flags"].items()):
        says: dict[str, Any] = {"autocompletion": _values(takes.removesuffix("..."), names)} if takes else {}
        wanted: Any = bool if not takes else list[str] if takes.endswith("...") else str
        made.append(_parameter(f"flag_{position}", typer.Option(None, *flag.split(), **says), wanted))
    for argument, takes in row["arguments"].items():
        wanted = list[str] if takes.endswith("...") else str
        complete = _values(takes.removesuffix("..."), names)
        made.append(_parameter(argument, typer.Argument(None, autocompletion=complete), wanted))
    command.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in made}
    return command


def _parameter(name: str, default: Any, wanted: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=wanted | None)


def _values(takes: str, names: dict[str, list[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        if takes == "runs":
            found = ["last", *_runs(ctx)]
        elif takes == "tasks":
            found = _tasks()
        else:
            found = names.get(takes, [] if takes == "text" else takes.split())
        completed = [f"{before}{comma}{name}" for name in found if _SAFE.fullmatch(name)]
        return [name for name in completed if name.startswith(incomplete)][:_MOST]

    return complete


def _runs(ctx: typer.Context) -> list[str]:
    from stackmem.run.run_folder import is_run
    from stackmem.settings.directories import runs_folder

    flags = {flag: param.name for param in ctx.command.params for flag in param.opts}
    named = ctx.params.get(flags.get("--runs-dir") or "")
    try:
        folder = runs_folder(named, os.environ, Path.cwd())
        return sorted((path.name for path in folder.iterdir() if is_run(path)), reverse=True)
    except (OSError, StackmemError):
        return []


def _tasks() -> list[str]:
    from stackmem.run.tasks.find import list_tasks

    try:
        return [path.name for path in list_tasks(Path.cwd())]
    except OSError:
        return []
