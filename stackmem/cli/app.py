"""The commands, as typer reads them. ``main`` imports this module, except for the help and the version.

Calling a command imports its module.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperGroup

from stackmem.core.errors import UsageError
from stackmem.core.neighbors import COMMANDS as NEIGHBORS_COMMANDS
from stackmem.core.version import VERSION
from stackmem.run.plugins.places import any_plugin

from .catalog import COMMANDS, COMPLETION, DESCRIPTION, EXAMPLES, EXIT_CODES, GROUPS, IN_CONTAINER, ROOT_OPTIONS
from .container import refuse_without_linux, run_in_container
from .help_layout import lay_out
from .placement import refuse_options_before_subcommands, with_choice

Fail = Callable[[str, int], NoReturn]
"""Prints an error and exits with a code."""


def call(fail: Fail) -> object:
    """Perform the command in ``sys.argv``. Returns what typer does: an exit code, or what the command returned."""
    sys.argv[1:] = with_choice(sys.argv[1:])
    if sys.argv[1:2] == [IN_CONTAINER]:
        run_in_container(sys.argv[2:])
    refuse_without_linux(sys.argv[1:], sys.platform)
    if _COMPLETING:
        get_completion_inspect_parameters()  # registers the shells with typer
    try:
        return app(standalone_mode=False, complete_var=COMPLETION)
    except typer.TyperException as error:
        _fail_usage(error, fail)
    except typer.Abort:
        fail("the question was not answered; pass --yes to answer it with yes", 2)


class Commands(Mapping[str, Any]):
    """The commands by name; looking one up imports its module."""

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        command = _own_command(name) if name in COMMANDS else _plugin_command(name)
        refuse_options_before_subcommands(command)
        return command


def _own_command(name: str) -> Any:
    """Load a built-in command, and add its examples."""
    parent = typer.Typer(**_PLAIN)
    if _COMPLETING:
        from .completion import add_light

        add_light(parent, name)
    else:
        module = import_module(NEIGHBORS_COMMANDS.get(name, f"{__package__}.commands.{name}"))
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=name)
        else:
            parent.command(name)(module.command)
    command = typer.main.get_group(parent).commands[name]
    subcommands = {f"{name} {word}": sub for word, sub in getattr(command, "commands", {}).items()}
    for words, each in {name: command, **subcommands}.items():
        each.get_params = partial(_as_typed, each.get_params)
        lay_out(each, EXAMPLES[words])
    return command


def _plugin_command(name: str) -> Any:
    """Load a plug-in's command.

    Raise KeyError if no plug-in provides the command. Raise UsageError if a plug-in cannot be used, or typer cannot
    read the command.
    """
    value = _plugin_commands()[name]
    parent = typer.Typer(**_PLAIN)
    try:
        if isinstance(value, typer.Typer):
            parent.add_typer(value, name=name)
        else:
            parent.command(name)(value)
        return typer.main.get_group(parent).commands[name]
    except Exception as error:
        says = f"the signature of the command {name} cannot be read ({error})"
        raise UsageError(f"{says}; fix or uninstall the package that provides it") from error


def _plugin_commands() -> dict[str, Any]:
    """Return the commands of plug-ins; used for unknown commands and in the help.

    Raise UsageError if a plug-in cannot be used.
    """
    if _COMPLETING or not any_plugin():
        return {}
    from .options import load_commands

    return load_commands()


def _as_typed(get_params: Callable[[Any], list[Any]], ctx: Any) -> list[Any]:
    parameters = get_params(ctx)
    for parameter in parameters:
        if not isinstance(parameter.get_runtime_param, partial):
            parameter.get_runtime_param = partial(_AsTyped, parameter, parameter.get_runtime_param)
    return parameters


@dataclass
class _AsTyped:
    """Reads a parameter's value; calls typer only if it needs conversion, because typer's converters load slowly."""

    parameter: Any
    checked: Callable[[], Any]  # returns typer's converter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = self.parameter.multiple or self.parameter.nargs == -1
        if value is None:
            return () if several else None
        annotation = self.parameter.type_descriptor.annotation
        if several and annotation == list[str]:
            return list(value)
        if isinstance(annotation, type) and isinstance(value, annotation):
            return value
        return self.checked().coerce(value, param=param, ctx=ctx)


class Root(TyperGroup):
    """Finds a command without importing the others."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": Commands()})

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_typed(super().get_params, ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(commands.items()))
        try:
            if rows := {name: self.commands[name].get_short_help_str() for name in _plugin_commands()}:
                with formatter.section("From plug-ins"):
                    formatter.write_dl(list(rows.items()))
        except UsageError as error:
            formatter.write(f"\n{error}\n")


_COMPLETING = COMPLETION in os.environ
"""Whether a press of Tab started this process."""


_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}

app = typer.Typer(
    name="stackmem",
    cls=Root,
    help=DESCRIPTION,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    **_PLAIN,
)


def _version(show: bool) -> None:
    if show:
        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help=ROOT_OPTIONS["--version"]),
    in_container: bool = typer.Option(False, IN_CONTAINER, help=ROOT_OPTIONS[IN_CONTAINER]),
) -> None:
    if in_container:
        raise UsageError(f"{IN_CONTAINER} must be the first argument: stackmem {IN_CONTAINER} COMMAND")


def _fail_usage(error: typer.TyperException, fail: Fail) -> NoReturn:
    """Reword typer's message about a wrong call as one sentence; without a command, print the help."""
    message = " ".join(error.format_message().split())
    command = getattr(getattr(error, "ctx", None), "command_path", "stackmem")
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)  # noqa: T201
        sys.exit(2)
    sentence = f"{message[:1].lower()}{message[1:]}".replace(". Did you mean", "; did you mean")
    sentence = re.sub(r"(\S+) \(Possible options: (.*)\)$", _meant, sentence)
    fail(f"{sentence.rstrip('.?')}; see {command} --help", 2)


def _meant(match: re.Match[str]) -> str:
    """Return the misspelled flag, with the flags that resemble it most."""
    near = {each: SequenceMatcher(None, match[1], each).ratio() for each in match[2].split(", ")}
    nearest = max(near.values()) - 0.15
    return f"{match[1]}; did you mean {' or '.join(each for each, ratio in near.items() if ratio >= nearest)}"
