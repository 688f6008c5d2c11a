"""The command line: each command parses, calls and prints, in a file of its own.

Only typer and what it needs is imported here: ``stackmem --help`` answers in a moment.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

import typer

from stackmem.errors import StackmemError
from stackmem.version import VERSION

from .commands import (
    apply,
    bench,
    compile_,
    config,
    debug,
    diff,
    doctor,
    export,
    fork,
    import_,
    languages,
    lint,
    models,
    repl,
    replay,
    report,
    resume,
    run,
    runs,
    runs_rm,
    solve,
    strategies,
    tasks,
    tasks_import,
    trace,
    trace_pack,
    trace_recover,
    trace_redact,
    trust,
    view,
    whatif,
    worlds,
)

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

app.command("solve", short_help="Let a model solve a task, or work on a copy of a folder.")(solve.command)
app.command("run", short_help="Run a program.")(run.command)
app.command("repl", short_help="Evaluate S-expressions as they are typed.")(repl.command)
app.command("compile", short_help="Turn plain playbooks into coded ones.")(compile_.command)
app.command("debug", short_help="Let an editor debug a playbook program.")(debug.command)
app.command("resume", short_help="Go on with a run that stopped.")(resume.command)
app.command("replay", short_help="Verify every event and prompt of a run.")(replay.command)
app.command("fork", short_help="Go on from a step of a run, with something changed.")(fork.command)
app.command("view", short_help="Write a run, or two, as one HTML file.")(view.command)
app.command("report", short_help="Write what the strategies of a bench solved and cost.")(report.command)
app.command("diff", short_help="Say where two runs part, and what each came to.")(diff.command)
app.command("whatif", short_help="Cost a recorded run under other strategies.")(whatif.command)
app.command("apply", short_help="Apply a run's patch to the folder it came from.")(apply.command)
app.command("export", short_help="Write a run in another tool's format.")(export.command)
app.command("import", short_help="Take another agent's recording in as a run.")(import_.command)
app.command("bench", short_help="Compare memory strategies over many runs.")(bench.command)
app.add_typer(tasks.app, name="tasks", short_help="List, check or import tasks.")
app.add_typer(worlds.app, name="worlds", short_help="Make tasks that test memory.")
tasks.app.command("import", short_help="Make tasks of another benchmark's.")(tasks_import.command)
app.add_typer(runs.app, name="runs", short_help="List the runs there are.")
runs.app.command("rm", short_help="Remove runs with their workspaces.")(runs_rm.command)
app.add_typer(trace.app, name="trace", short_help="Look at a run's trace, and measure it.")
trace.app.command("pack", short_help="Write a run as one archive that needs nothing beside it.")(trace_pack.command)
trace.app.command("recover", short_help="Save what is good of a broken run.")(trace_recover.command)
trace.app.command("redact", short_help="Copy a run with secrets replaced.")(trace_redact.command)
app.command("doctor", short_help="Say what isolation works here, and how to get it.")(doctor.command)
app.command("models", short_help="List the known models with their prices.")(models.command)
app.command("strategies", short_help="List the memory strategies.")(strategies.command)
app.command("lint", short_help="Say what is wrong with programs.")(lint.command)
app.command("trust", short_help="Let a folder's own servers run.")(trust.command)
app.command("languages", short_help="List the languages of programs.")(languages.command)
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
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except StackmemError as error:
        fail(str(error), error.exit_code)
    except typer.TyperException as error:
        _fail_usage(error)
    except typer.Abort:
        fail("the question was not answered; give the answer as a flag (--yes)", 2)
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        _hush()
        sys.exit(141)
    except OSError as error:
        _hush()
        place = str(error.filename) if error.filename else "the output"
        fail(f"{place} cannot be written or read ({error.strerror or error}); make room or rights there", 2)
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        if code == 130:  # typer's word for Ctrl-C; a run that was interrupted has told its result and exited
            fail("interrupted before there was a result; start it again", 130)
        sys.exit(code if isinstance(code, int) else 0)
    finally:
        _settle()


def fail(says: str, code: int) -> NoReturn:
    """Print what is wrong, as one JSON object on stdout too where ``--json`` was asked for, and exit."""
    readable = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in says)
    with suppress(OSError):
        print(f"stackmem: {readable}", file=sys.stderr)  # noqa: T201
    if "--json" in sys.argv[1:]:
        import json

        with suppress(OSError):
            print(json.dumps({"outcome": "error", "error": says}), flush=True)  # noqa: T201
    sys.exit(code)


def _fail_usage(error: typer.TyperException) -> NoReturn:
    """What typer says of a wrong call, as one sentence; a call without a command is answered with the help."""
    says = " ".join(error.format_message().split())
    command = getattr(getattr(error, "ctx", None), "command_path", "stackmem")
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message(), file=sys.stderr)  # noqa: T201
        sys.exit(2)
    told = f"{says[:1].lower()}{says[1:]}".replace(". Did you mean", "; did you mean")
    fail(f"{told.rstrip('.?')}; {command} --help shows what there is", 2)


def _hush() -> None:
    """Nothing more can be said on stdout, nor need the interpreter try as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _settle() -> None:
    """Where nobody reads progress any more, what is left of it is dropped: the interpreter would exit with 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
