"""The command line: each command parses, calls and prints, in a file of its own.

Only typer and what it needs is imported here: ``stackmem --help`` answers in a moment.
"""

from __future__ import annotations

import os
import sys

import typer

from stackmem.errors import StackmemError
from stackmem.version import VERSION

from . import apply, config, doctor, models, replay, solve, strategies, tasks

EPILOG = """Exit codes: 0 solved or finished; 1 unsolved, or stalled; 2 usage (a bad task, file, name or key); 3 a limit
was reached; 4 the provider failed (also a script that ran dry); 5 the workspace or its isolation failed; 6 replay
derives something else; 7 the trace is broken or cannot be written; 8 input is needed; 130 interrupted;
143 terminated."""

app = typer.Typer(
    name="stackmem",
    help="A coding agent that manages its own working memory: a stack of frames, a heap of chunks, small registers.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command("solve")(solve.command)
app.command("replay")(replay.command)
app.command("apply")(apply.command)
app.add_typer(tasks.app, name="tasks")
app.command("doctor")(doctor.command)
app.command("models")(models.command)
app.command("strategies")(strategies.command)
app.command("config")(config.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(VERSION)
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """A coding agent that manages its own working memory: a stack of frames, a heap of chunks, small registers."""


def main() -> None:
    """Run the command line; every failure is one sentence on stderr and the exit code of its kind."""
    try:
        app(standalone_mode=True)
    except StackmemError as error:
        fail(error)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def fail(error: StackmemError) -> None:
    """Print the error, as one JSON object on stdout too where ``--json`` was asked for, and exit."""
    print(f"stackmem: {error}", file=sys.stderr)  # noqa: T201
    if "--json" in sys.argv[1:]:
        import json

        print(json.dumps({"outcome": "error", "error": str(error)}))  # noqa: T201
    sys.exit(error.exit_code)
