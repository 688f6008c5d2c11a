"""``stackmem resume``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import typer

from stackmem.cli.options import Flags, JsonResult, Quiet, RunName, flag, limits, option, run_folder, switch, takes
from stackmem.cli.screen.live import is_played_by_person, open_screen, stop_at_once
from stackmem.cli.screen.result import show_result
from stackmem.cli.screen.text import echo_json, readable, say
from stackmem.core.errors import Halted, UsageError
from stackmem.core.neighbors import neighbor
from stackmem.core.requests import InvokeTool
from stackmem.run.opened import Person
from stackmem.run.repeats import MayRepeat
from stackmem.run.resume import ResumeResult, resume
from stackmem.run.stopped import Stopped
from stackmem.settings.tools.mcp_servers import own_servers


@takes("limits", limits("the start of the run", "of the run"))
def command(
    run: RunName,
    *,
    limits: Flags,
    isolation: str | None = option("--isolation", "Use a different isolation level.", "LEVEL"),
    runs_dir: str | None = flag("runs_dir"),
    json: JsonResult = False,
    quiet: Quiet = False,
    says: list[str] | None = option("--say", "An answer to a question, or the next instruction; repeatable.", "TEXT"),
    answers: str | None = option("--answers", "A YAML list of answers to a program's questions.", "FILE"),
    program: str | None = option(
        "--program",
        "Start a new run of this edited program, reusing recorded answers while its requests are the same.",
        "FILE",
    ),
    model: str | None = option("--model", "A model for a program's run that started without one.", "NAME"),
    debug: bool = switch("--debug", "Debug the program at the terminal, step by step."),
    verbose: bool = switch("--verbose", "Print one line per program step with its changes."),
    yes: bool = switch("--yes", "Repeat calls that may already have been executed."),
) -> None:
    """Continue a run that was killed, interrupted or ended by a limit."""
    folder = run_folder(run, runs_dir)
    changes = {**limits, "isolation": isolation, "model": model, **({"yes": "true"} if yes else {})}
    with own_servers(os.environ, Path.cwd()) as warnings:
        say(*warnings)
        if program is not None and model is not None:
            raise UsageError(
                "--model cannot be combined with --program; if the new run needs a model, resume it with --model"
            )

        def play() -> None:
            talk = neighbor("languages: screen of a program")(
                folder, says or (), answers, as_json=json, quiet=quiet, debug=debug, verbose=verbose
            )
            if talk is None and (debug or verbose):
                raise UsageError(f"{folder.name} is not a run of a program; leave out --debug and --verbose")
            if talk is None and says:
                changes["said"] = "\n".join(says)
            if program is None:
                _resume(folder, changes, talk, as_json=json, quiet=quiet)
            elif talk is None:
                raise UsageError(f"{folder.name} is not a run of a program; leave out --program")
            else:
                neighbor("languages: continue an edited program")(folder, program, changes, *talk, as_json=json)

        try:
            play_or_ask(play, changes, asks=not json)
        except Halted as halted:  # stopped in the debugger before it continued
            neighbor("languages: show a halt")(halted, as_json=json)


def play_or_ask(play: Callable[[], None], changes: Flags, *, asks: bool) -> None:
    """Play; if that could repeat a call, ask at the terminal and play again with ``yes``.

    Raise MayRepeat if the user refuses, or stdin is not a terminal.
    """
    try:
        play()
    except MayRepeat as error:
        if not asks or not sys.stdin.isatty():
            raise
        if not typer.confirm(f"{readable(str(error))}. Repeat it?", err=True):
            raise
        changes["yes"] = "true"
        play()


def _resume(folder: Path, changes: Flags, talk: tuple[Any, Person] | None, *, as_json: bool, quiet: bool) -> NoReturn:
    def say_where(stopped: Stopped) -> None:
        if stopped.torn_bytes:
            say(f"removed the last {stopped.torn_bytes:,} bytes of the trace, which a crash cut short")
        if not quiet:
            say(f"resuming {folder.name} after {_position(stopped)}")

    if talk is not None:
        screen, person = talk
        resumed = resume(folder, changes, os.environ, person.observe, stop_at_once, say_where, person)
        if resumed.program is not None:
            neighbor("languages: show a result")(resumed.program, screen, as_json=as_json)
        _show(resumed, folder.name, as_json=as_json)
        sys.exit(0)
    with open_screen(quiet=quiet, asks=is_played_by_person(folder)) as screen_of_run:
        person = Person(observe_frame=screen_of_run.observe_frame, observe_reading=screen_of_run.observe_reading)
        resumed = resume(folder, changes, os.environ, screen_of_run, stop_at_once, say_where, person)
    _show(resumed, folder.name, as_json=as_json)
    sys.exit(resumed.result.exit_code if resumed.played and resumed.result else 0)


def _position(stopped: Stopped) -> str:
    """Describe where the run continues; for a program, also its step and pending call."""
    program, at = stopped.state.program, f"record {stopped.end.count:,}, step {stopped.state.step:,}"
    if program is None:
        return at
    request = stopped.program.operation if stopped.program is not None else None
    under_way = f", repeating its call of {request.tool}" if isinstance(request, InvokeTool) else ""
    last = ", at its last request" if program.halted is not None else ""
    step = f", in {readable(program.path)}" if program.path else ""
    return f"{at}{step}{under_way}{last}, with variables restored from the recorded answers"


def _show(resumed: ResumeResult, run: str, *, as_json: bool) -> None:
    result = resumed.result
    if result is not None and result.failure:
        say(f"stackmem: {readable(result.failure)}")
    if as_json:
        echo_json(result if result is not None else {"run": run, "outcome": resumed.outcome, "resumed": False})
        return
    if resumed.missing:
        say(f"completed the end of {run}: {', '.join(resumed.missing)}")
    elif not resumed.played:
        typer.echo(f"nothing to resume: {run} has ended ({resumed.outcome})")
    if result is not None:
        show_result(result, folder=bool(resumed.folder), checked=resumed.checked)
