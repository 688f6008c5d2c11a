"""The command line. Each command parses, calls and prints in its own module.

Only typer is imported at the start; a command's module is imported when it is called, so that ``stackmem --help``
is fast.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.completion import get_completion_inspect_parameters
from typer.core import TyperGroup

from stackmem.errors import StackmemError, UsageError, way_out
from stackmem.neighbors import COMMANDS as NEIGHBORS_COMMANDS
from stackmem.tools.plugin_places import any_plugin, ignored_note
from stackmem.version import VERSION

from .catalog import COMMANDS, EXAMPLES, EXIT_CODES, GROUPS
from .container import IN_CONTAINER, refuse_without_linux, run_in_container
from .help_layout import lay_out
from .placement import refuse_options_before_subcommands, with_choice
from .screen.text import escape


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
    if _ASKED:
        from .completion import add_light

        add_light(parent, name)
    else:
        module = import_module(NEIGHBORS_COMMANDS.get(name, f"{__package__}.commands.{name}"))
        if hasattr(module, "app"):
            parent.add_typer(module.app, name=name)
        else:
            parent.command(name)(module.command)
    command = typer.main.get_group(parent).commands[name]
    below = {f"{name} {word}": one for word, one in getattr(command, "commands", {}).items()}
    for words, each in {name: command, **below}.items():
        each.get_params = partial(_as_typed, each.get_params)
        lay_out(each, EXAMPLES[words])
    return command


def _plugin_command(name: str) -> Any:
    """Load a plug-in's command.

    Raises:
        KeyError: No plug-in provides the command.
        UsageError: A plug-in cannot be used, or typer cannot read the command.
    """
    brought = _brought()[name]
    parent = typer.Typer(**_PLAIN)
    try:
        if isinstance(brought, typer.Typer):
            parent.add_typer(brought, name=name)
        else:
            parent.command(name)(brought)
        return typer.main.get_group(parent).commands[name]
    except Exception as error:
        says = f"the signature of the command {name} cannot be read ({error})"
        raise UsageError(f"{says}; fix or uninstall the package that provides it") from error


def _brought() -> dict[str, Any]:
    """Return the commands of plug-ins; used for unknown commands and in the help.

    Raises:
        UsageError: A plug-in cannot be used.
    """
    if _ASKED or not any_plugin():
        return {}
    from .options import load_commands

    return load_commands()


def _as_typed(get_params: Callable[[Any], list[Any]], ctx: Any) -> list[Any]:
    found = get_params(ctx)
    for parameter in found:
        if not isinstance(parameter.get_runtime_param, partial):
            parameter.get_runtime_param = partial(_AsTyped, parameter, parameter.get_runtime_param)
    return found


@dataclass
class _AsTyped:
    """Reads a parameter's value; calls typer only if it needs conversion, because typer's converters load slowly."""

    parameter: Any
    checked: Callable[[], Any]  # returns typer's converter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = self.parameter.multiple or self.parameter.nargs == -1
        if value is None:
            return () if several else None
        wanted = self.parameter.type_descriptor.annotation
        if several and wanted == list[str]:
            return list(value)
        if isinstance(wanted, type) and isinstance(value, wanted):
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
            if brought := {name: self.commands[name].get_short_help_str() for name in _brought()}:
                with formatter.section("From plug-ins"):
                    formatter.write_dl(list(brought.items()))
        except UsageError as error:
            formatter.write(f"\n{error}\n")


_ASKED = "_STACKMEM_COMPLETE" in os.environ
"""Whether a press of Tab started this process."""

_FILES = 1024
_RESTORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that Python ignores in its own process, and restores in child processes."""

_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False, "pretty_exceptions_enable": False}

app = typer.Typer(
    name="stackmem",
    cls=Root,
    help="A coding agent that manages its own working memory: a stack of frames, a heap of chunks, small registers.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    **_PLAIN,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    in_container: bool = typer.Option(
        False, IN_CONTAINER, help="Run the command in a container, with podman or docker. Must be the first argument."
    ),
) -> None:
    """A coding agent that manages its own working memory: a stack of frames, a heap of chunks, small registers."""
    if in_container:
        raise UsageError(f"{IN_CONTAINER} must be the first argument: stackmem {IN_CONTAINER} COMMAND")


_FROM_PLUGINS = re.compile(r"\b(strategy|world|task|model|provider|isolation|format)\b")


def _with_ignored_plugins(error: StackmemError) -> str:
    """Return the message of an error. If a name is unknown, it also names the plug-ins that could have brought it."""
    note = ignored_note() if _FROM_PLUGINS.search(str(error)) else ""
    return f"{error}; {note}" if note else str(error)


def main() -> None:
    """Run the command line. Every error is one sentence on stderr, with the exit code of its kind."""
    _put_right()
    if len(sys.argv) == 1 and sys.stdin.isatty() and sys.stdout.isatty():
        sys.argv.append("chat")
    try:
        sys.argv[1:] = with_choice(sys.argv[1:])
        if sys.argv[1:2] == [IN_CONTAINER]:
            run_in_container(sys.argv[2:])
        refuse_without_linux(sys.argv[1:], sys.platform)
        if _ASKED:
            get_completion_inspect_parameters()  # registers the shells with typer
        code = app(standalone_mode=False, complete_var="_STACKMEM_COMPLETE")
        sys.stdout.flush()
    except StackmemError as error:
        fail(_with_ignored_plugins(error), error.exit_code)
    except typer.TyperException as error:
        _fail_usage(error)
    except typer.Abort:
        fail("the question was not answered; pass --yes to answer it with yes", 2)
    except BrokenPipeError:  # the reader of stdout exited early, as ``head`` does
        _silence_stdout()
        sys.exit(141)
    except OSError as error:
        _silence_stdout()
        location = str(error.filename) if error.filename else "the output"
        fail(
            _blame(error) or f"{location} cannot be written or read ({error.strerror or error}); {way_out(error)}",
            2,
        )
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not (message := _blame(error)):
            raise
        fail(message, 2)
    else:
        if code == 130:  # typer's code for Ctrl-C; an interrupted run has already printed its result and exited
            fail("interrupted before there was a result; run the command again", 130)
        sys.exit(code if isinstance(code, int) else 0)
    finally:
        _flush_stderr()


def _blame(error: Exception) -> str:
    """Return a message naming the plug-in whose code raised the error; empty if none did."""
    if not any_plugin():
        return ""
    from stackmem.tools.plugins import blame

    return blame(error)


def fail(says: str, code: int) -> NoReturn:
    """Print the error, also as JSON on stdout with ``--json`` or ``--stream-json``, and exit."""
    with suppress(OSError):
        print(f"stackmem: {escape(says, keep=chr(10))}", file=sys.stderr)  # noqa: T201
    if "--json" in sys.argv[1:]:
        import json

        with suppress(OSError):
            print(json.dumps({"outcome": "error", "error": says}), flush=True)  # noqa: T201
    if "--stream-json" in sys.argv[1:]:
        from .screen.event_stream import error_line

        with suppress(OSError):
            print(error_line(says, code), flush=True)  # noqa: T201
    sys.exit(code)


def _fail_usage(error: typer.TyperException) -> NoReturn:
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


def _put_right() -> None:
    """Reset inherited process settings that would break stackmem or its commands.

    - SIGCHLD: if it is ignored, exit codes of commands cannot be read.
    - Other signals that our parent ignores (``nohup``) are handled by an empty handler. ``SIG_IGN`` would be
      inherited by the commands we start; a handler is not.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in signal.valid_signals() - _RESTORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        """Reserve the numbers of closed standard streams; otherwise a folder we open could get one."""
    os.close(opened)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the descriptor was closed when Python started
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    mask = os.umask(0o022)
    os.umask(mask & ~0o700)  # without these permissions stackmem could not read its own files


def _nothing(*_: object) -> None:
    """Ignore a signal."""


def _silence_stdout() -> None:
    """Discard further output, so that the interpreter does not fail when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _flush_stderr() -> None:
    """Drop progress output that cannot be written; otherwise the interpreter would exit with code 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
