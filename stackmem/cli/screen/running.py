"""What ``run`` prints, before, while and after."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import typer
from msgspec import Struct

from stackmem.errors import TraceError
from stackmem.languages.frame.values import as_text
from stackmem.run.open import Person
from stackmem.run.programs.inputs import read_answers, read_inputs
from stackmem.run.programs.prepare import Asked, PreparedProgram, prepare_program
from stackmem.run.programs.run import ProgramResult, run_program
from stackmem.run.request import read_request
from stackmem.tools.mcp_servers import own_servers
from stackmem.trace.languages import open_language

from .debug_terminal import debugged
from .live import stop_at_once
from .program_screen import ProgramScreen
from .solving import ask_about_size, readable, say, show_patch


class Typed(Struct, frozen=True):
    """The command's own arguments, as they were typed."""

    program: str
    given: tuple[str, ...]
    inputs: str | None
    workspace: str | None
    mounts: tuple[str, ...]
    language: str | None
    options: dict[str, Any]
    say: tuple[str, ...]
    answers: str | None
    interactive: bool
    dry_run: bool
    full: bool
    as_json: bool
    quiet: bool


def typed_from(given: dict[str, Any]) -> Typed:
    """The command's own arguments from all of them, by the names of its parameters."""
    options = {
        "request": given["text"], "config": given["config"], "entry": given["entry"], "lib": given["lib"],
        "debug": given["debug"] or None, "snoop": given["snoop"] or None,
    }  # fmt: skip
    return Typed(
        program=given["program"],
        given=tuple(given["given"] or ()),
        inputs=given["inputs"],
        workspace=given["workspace"],
        mounts=tuple(given["mount"] or ()),
        language=given["language"],
        options={name: value for name, value in options.items() if value is not None},
        say=tuple(given["say"] or ()),
        answers=given["answers"],
        interactive=not given["non_interactive"],
        dry_run=given["dry_run"],
        full=given["full"],
        as_json=given["json"],
        quiet=given["quiet"],
    )


def run_and_show(typed: Typed, flags: dict[str, object]) -> None:
    """Run, show, and exit with the run's code.

    Raises:
        StackmemError: As ``run_program`` does.

    """
    cwd = Path.cwd()
    with own_servers(os.environ, cwd) as warnings:
        for warning in warnings:
            say(warning)
        _run_and_show(typed, flags, cwd)


def _run_and_show(typed: Typed, flags: dict[str, object], cwd: Path) -> None:
    asked = Asked(
        typed.program,
        read_inputs(typed.given, typed.inputs, cwd),
        _options(typed.options, cwd),
        typed.workspace,
        typed.mounts,
        typed.language,
        typed.interactive,
    )
    ready = prepare_program(asked, flags, os.environ, cwd)
    for warning in ready.prepared.warnings:
        say(warning)
    if typed.dry_run:
        _show_outline(ready)
    answers = [*typed.say, *read_answers(typed.answers, cwd)]
    ask_about_size(ready.prepared, as_json=typed.as_json)
    screen = ProgramScreen(ready.language.announcer(), quiet=typed.quiet, full=typed.full, as_json=typed.as_json)
    person = Person(Answers(answers, interactive=typed.interactive), screen, screen.observe, stop_at_once)
    with debugged(ready.language.name, wanted=bool(typed.options.get("debug"))):
        result = run_program(ready, os.environ, person)
    show_program(result, screen, as_json=typed.as_json)


def _options(options: dict[str, Any], cwd: Path) -> dict[str, Any]:
    """With the paths in them absolute."""
    found = dict(options)
    if "config" in found:
        found["config"] = str((cwd / Path(found["config"]).expanduser()).resolve())
    if "lib" in found:
        found["lib"] = [str((cwd / Path(path).expanduser()).resolve()) for path in found["lib"]]
    return found


def _show_outline(ready: PreparedProgram) -> None:
    if ready.halts is not None:
        typer.echo(readable(ready.halts.report))
        sys.exit(1)
    typer.echo(readable(ready.outline))
    sys.exit(0)


class Answers:
    """Answers a program's questions: what was given first, then at the terminal."""

    def __init__(self, given: list[str], *, interactive: bool) -> None:
        self._given = given
        self._interactive = interactive

    def __call__(self, question: str) -> str | None:
        if self._given:
            return self._given.pop(0)
        if not self._interactive or not sys.stdin.isatty():
            return None
        with suppress(EOFError, typer.Abort):
            # The default lets an empty line be an answer: what need not be answered is left out by it.
            asked = readable(question)
            return str(typer.prompt(asked, default="", show_default=False, err=True, prompt_suffix="\n> "))
        return None


def program_talk(
    run_dir: Path, given: list[str], answers: str | None, *, as_json: bool, quiet: bool
) -> tuple[ProgramScreen, Person] | None:
    """The screen and the person of a program's run that is taken up again; None where it is no program's."""
    try:
        program = read_request(run_dir).program
    except TraceError:  # said by what needs it more
        return None
    if program is None:
        return None
    screen = ProgramScreen(open_language(program.language).announcer(), quiet=quiet, full=False, as_json=as_json)
    told = Answers([*given, *read_answers(answers, Path.cwd())], interactive=program.interactive)
    return screen, Person(told, screen, screen.observe, stop_at_once)


def show_program(result: ProgramResult, screen: ProgramScreen, *, as_json: bool) -> None:
    """What the run came to, and exit with its code."""
    run = result.run
    if run.failure:
        say(f"stackmem: {readable(run.failure)}")
    if as_json:
        told = {
            "outcome": run.outcome, "value": result.value, "said": result.said, "run": run.run, "usage": run.usage,
            "result": run.result, "run_dir": run.run_dir, "steps": run.steps, "cost_usd": run.cost_usd,
        }  # fmt: skip
        typer.echo(msgspec.json.encode(told, enc_hook=str).decode())
        sys.exit(run.exit_code)
    if run.outcome == "finished" and result.value is not None:
        typer.echo(readable(as_text(result.value)))
    elif run.outcome == "halted":
        if not screen.told_halt:
            typer.echo(readable(run.result))
    elif run.outcome == "input_needed":
        say(f"input is needed: {readable(run.result)}; answer with stackmem resume {run.run} --say TEXT")
    if not screen.quiet:
        cost = f"${run.cost_usd:.4f}" if run.cost_usd is not None else "cost unknown"
        say(f"{run.outcome}, {run.steps} model replies, {cost}, {run.wall_seconds:.1f} s; run: {readable(run.run_dir)}")
        if run.ending != "popped":
            say(f"go on with: stackmem resume {run.run}")
    if run.changed or run.not_kept:
        show_patch(run)
    sys.exit(run.exit_code)
