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

from stackmem.core.errors import StackmemError

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*", re.ASCII)
_MOST = 200  # limit of names in one answer; the newest runs


def add_light(parent: typer.Typer, name: str) -> None:
    """Add one root command with flags and arguments from the table, but without its code."""
    table = json.loads(resources.files(__package__).joinpath("words.json").read_text("utf-8"))
    subcommands = {
        words.partition(" ")[2]: row for words, row in table["commands"].items() if words.startswith(f"{name} ")
    }
    own = _nothing(table["commands"][name], table["names"])
    if not subcommands:
        parent.command(name)(own)
        return
    group = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)
    group.callback()(own)
    for word, row in subcommands.items():
        group.command(word)(_nothing(row, table["names"]))
    parent.add_typer(group, name=name)


def _nothing(row: dict[str, dict[str, str]], names: dict[str, list[str]]) -> Callable[..., None]:
    """Build a command that accepts the row's parameters and does nothing."""

    def command(**_: object) -> None:
        pass  # no help text: typer would load rich to display it

    parameters = []
    for position, (flag, takes) in enumerate(row["flags"].items()):
        says: dict[str, Any] = {"autocompletion": _values(takes.removesuffix("..."), names)} if takes else {}
        annotation: Any = bool if not takes else list[str] if takes.endswith("...") else str
        parameters.append(_parameter(f"flag_{position}", typer.Option(None, *flag.split(), **says), annotation))
    for argument, takes in row["arguments"].items():
        annotation = list[str] if takes.endswith("...") else str
        complete = _values(takes.removesuffix("..."), names)
        parameters.append(_parameter(argument, typer.Argument(None, autocompletion=complete), annotation))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation | None)


def _values(takes: str, names: dict[str, list[str]]) -> Callable[[typer.Context, str], list[str]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        if takes == "runs":
            choices = ["last", *_runs(ctx)]
        elif takes == "tasks":
            choices = _tasks()
        else:
            choices = names.get(takes, [] if takes == "text" else takes.split())
        completed = [f"{before}{comma}{name}" for name in choices if _SAFE.fullmatch(name)]
        return [name for name in completed if name.startswith(incomplete)][:_MOST]

    return complete


def _runs(ctx: typer.Context) -> list[str]:
    from stackmem.run.run_folder import is_run
    from stackmem.settings.directories import runs_folder

    flags = {flag: param.name for param in ctx.command.params for flag in param.opts}
    runs_dir = ctx.params.get(flags.get("--runs-dir") or "")
    try:
        folder = runs_folder(runs_dir, os.environ, Path.cwd())
        return sorted((path.name for path in folder.iterdir() if is_run(path)), reverse=True)
    except (OSError, StackmemError):
        return []


def _tasks() -> list[str]:
    from stackmem.run.tasks.find import list_tasks

    try:
        return [path.name for path in list_tasks(Path.cwd())]
    except OSError:
        return []
