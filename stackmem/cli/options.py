"""Arguments and flags that several commands share. Flags of settings come from the table of settings.

Also resolves run names, the runs folder, and paths typed by the user.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypeVar

import typer

from stackmem.core.neighbors import neighbor
from stackmem.run.plugins.loading import PluginTable, load_plugins, no_function, open_table
from stackmem.settings import directories
from stackmem.settings.options import LIMIT_OPTIONS, OPTIONS

from .catalog import COMMANDS

R = TypeVar("R")
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run: folder, id, id prefix, last six characters of an id, or 'last'."),
]
Json = Annotated[bool, typer.Option("--json", help="Print only one JSON object on stdout.")]
JsonArray = Annotated[bool, typer.Option("--json", help="Print only one JSON array on stdout.")]
JsonResult = Annotated[bool, typer.Option("--json", help="Print only the result, as a JSON object on stdout.")]
StreamJson = Annotated[bool, typer.Option("--stream-json", help="Print one JSON event per line on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]

_TYPES: Mapping[str, Any] = {"texts": list[str] | None, "switch": bool | None}

Flags = dict[str, Any]
"""Maps names to typed values: a string, a bool for a switch, or a list of strings; None if the flag was not given."""


def option(names: str, says: str, metavar: str | None = None, default: Any = None, **more: Any) -> Any:
    """Define a flag with space-separated ``names``; the default ``...`` makes it required."""
    return typer.Option(default, *names.split(), help=says, metavar=metavar, **more)


def switch(name: str, says: str) -> Any:
    """Define a boolean flag."""
    return typer.Option(False, name, help=says)


def argument(metavar: str, says: str, default: Any = ...) -> Any:
    """Define a positional argument; without a default it is required."""
    return typer.Argument(default, metavar=metavar, help=says)


def flag(name: str, *, short: bool = True) -> Any:
    """Define the flag of a setting; it is None if not given, so that other sources apply.

    ``short`` says whether its short form is free in this command.
    """
    option = OPTIONS[name]
    if option.kind == "switch":
        return typer.Option(None, f"{option.flag}/--no-{option.flag[2:]}", help=option.help_text, show_default=False)
    names = [option.flag, option.short] if short and option.short else [option.flag]
    return typer.Option(None, *names, help=option.help_text, show_default=False, metavar=option.kind.upper())


def settings(*names: str) -> dict[str, Any]:
    """Return the flags of these settings, for ``takes``."""
    return {name: flag(name) for name in names}


def limits(start: str, had: str) -> dict[str, Any]:
    """Return the limit flags of a continued run, for ``takes``.

    Their help says that N counts from ``start``, and +N from the limit that the run ``had``.
    """
    return {
        name: typer.Option(
            None, OPTIONS[name].flag, metavar="N|+N", show_default=False,
            help=f"New limit of {name.removeprefix('max_')}: N counts from {start}; +N is added to the limit {had}.",
        )
        for name in LIMIT_OPTIONS
    }  # fmt: skip


def takes(parameter: str, options: Mapping[str, Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Replace ``parameter`` of a command with these flags, and pass their values to it as one dict.

    Args:
        options: Setting name to typer option.
    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(command)
        def with_flags(**values: Any) -> R:
            own = {name: value for name, value in values.items() if name not in options}
            return command(**own, **{parameter: {name: values[name] for name in options}})

        parameters: list[inspect.Parameter] = []
        signature = inspect.signature(command, eval_str=True)
        for each in signature.parameters.values():
            if each.name != parameter:
                parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=option,
                    annotation=_TYPES.get(OPTIONS[name].kind, str | None),
                )
                for name, option in options.items()
            ]
        with_flags.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_flags

    return decorate


def run_folder(name: str, runs_dir: str | None) -> Path:
    """Find a run; raise ``UsageError`` if no run or several match."""
    from stackmem.run.companion.find import find_run  # slow to import, and few commands need it

    load_plugins()
    return find_run(name, *directories.runs_places(runs_dir, os.environ, Path.cwd()))


@contextmanager
def kept_or_packed(name: str, runs_dir: str | None = None) -> Iterator[Path]:
    """Return a run's folder; an archive from ``trace pack`` is unpacked until the context ends.

    Raise UsageError if no run has this name, or the file is not such an archive.
    """
    path = Path(os.path.expanduser(name))
    if path.suffix == ".zip" and path.is_file():
        load_plugins()  # the run may use a strategy from a plug-in
        with TemporaryDirectory(prefix="stackmem-") as folder:
            yield neighbor("review: unpack a run")(path, Path(folder))
        return
    yield run_folder(name, runs_dir)


def runs_folder(runs_dir: str | None) -> Path:
    """Return the runs folder; raise ``UsageError`` if it cannot be created or written."""
    return directories.runs_folder(runs_dir, os.environ, Path.cwd())


PLUGIN_COMMANDS: dict[str, Any] = {}
"""Commands from plug-ins."""

open_table("commands", PluginTable("command", PLUGIN_COMMANDS, no_function, is_reserved=COMMANDS.__contains__))


def load_commands() -> dict[str, Any]:
    """Load and return the commands of plug-ins; raise ``UsageError`` if one cannot be used."""
    load_plugins()
    return PLUGIN_COMMANDS


def absolute(path: str) -> Path:
    """Resolve a path against the current folder, with ``~`` and links expanded."""
    return (Path.cwd() / os.path.expanduser(path)).resolve()
