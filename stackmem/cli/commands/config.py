"""``stackmem config``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import typer

from stackmem.cli.options import JsonArray, argument
from stackmem.cli.screen.text import escape
from stackmem.run.assemble import scrubber_of
from stackmem.run.companion.hooks import find_hooks
from stackmem.run.plugins.loading import plugin_problems
from stackmem.run.prepare import find_subject, task_settings
from stackmem.settings.option_values import without_login
from stackmem.settings.options import OPTIONS, Option
from stackmem.settings.settings import Resolved, Value, resolve


def command(
    task: str | None = argument("TASK", "Include the settings of this task.", default=None),
    as_json: JsonArray = False,
) -> None:
    """Show every setting with its value and source."""
    for warning in plugin_problems():
        typer.echo(escape(warning), err=True)
    cwd = Path.cwd()
    own = task_settings(find_subject(task, None, cwd)) if task else {}
    rows = (*config_rows(resolve({}, os.environ, cwd, own), os.environ), *hook_rows(cwd, os.environ))
    typer.echo(config_json(rows) if as_json else config_text(rows))


class ConfigRow(NamedTuple):
    """A setting as displayed: on one line and without secrets."""

    name: str
    bare: Any  # machine-readable: None, a bool, a number, a string or a list of strings
    text: str  # human-readable
    source: str


def config_rows(resolved: Resolved, environ: Mapping[str, str]) -> tuple[ConfigRow, ...]:
    """Return every setting with its source, without secrets from ``environ`` and logins in addresses."""
    scrub = scrubber_of(environ).scrub
    return tuple(_row(value, scrub) for value in resolved.values)


def hook_rows(folder: Path, environ: Mapping[str, str]) -> tuple[ConfigRow, ...]:
    """Return the hooks for work on a folder, each as a row."""
    catalog = find_hooks(folder, "", environ)
    for note in catalog.notes:
        typer.echo(escape(note), err=True)
    scrub = scrubber_of(environ).scrub
    return tuple(
        ConfigRow(f"hook.{hook.event}", scrub(hook.command), escape(scrub(hook.command)), hook.source)
        for hook in catalog.hooks
    )


def config_text(rows: tuple[ConfigRow, ...]) -> str:
    """Format rows in three columns: name, source, value. The value comes last, because only it can be long."""
    name, source = (max(len(row[column]) for row in rows) for column in (0, 3))
    return "\n".join(f"{row.name:<{name}}  {row.source:<{source}}  {row.text}" for row in rows)


def config_json(rows: tuple[ConfigRow, ...]) -> str:
    """Format rows as a JSON array of objects with name, value and source."""
    return json.dumps([{"name": row.name, "value": row.bare, "source": row.source} for row in rows], indent=2)


def _row(value: Value, scrub: Callable[[str], str]) -> ConfigRow:
    bare: Any = value.value
    option = OPTIONS[value.name]
    if isinstance(bare, tuple):
        bare = [scrub(item) for item in bare]
    elif bare is not None and not isinstance(bare, int | float):
        # a path may contain bytes that are not valid text
        text = str(bare).encode("utf-8", "backslashreplace").decode()
        bare = scrub(without_login(text) if option.kind == "address" else text)
    return ConfigRow(value.name, bare, _value_text(option, value, bare), escape(value.source))


def _value_text(option: Option, value: Value, bare: Any) -> str:
    if value.layer == "default":
        return option.default_text
    match bare:
        case None | []:
            return f"none ({option.none_means})"
        case bool():
            return str(bare).lower()
        case int():
            return f"{bare:,}"
        case float():
            return f"{bare:,.12g}"
        case list():
            return ", ".join(escape(item) for item in bare)
        case _:
            return escape(str(bare))
