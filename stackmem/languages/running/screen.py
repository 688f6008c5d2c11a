"""Shows a program's run in the terminal: its output on stdout, its progress on stderr, its questions, its result."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import typer

from stackmem.cli.screen.live import stop_at_once
from stackmem.cli.screen.progress import Progress
from stackmem.cli.screen.result import say_kept, say_unsigned, show_patch
from stackmem.cli.screen.text import echo_json, readable, say, spell_cost
from stackmem.core.errors import Halted, TraceError
from stackmem.core.facts import Event, FramePopped, RunStarted
from stackmem.core.neighbors import neighbor
from stackmem.core.program_facts import ProgramEvent, ProgramHalted, Said, StepFailed
from stackmem.core.state import State
from stackmem.languages.changes import VariableChanges
from stackmem.languages.debugger import DebugMoment, Watcher, together
from stackmem.languages.frame.values import as_text
from stackmem.languages.language import Announcer, Happening
from stackmem.languages.operations import ReplyRefused
from stackmem.run.opened import Person
from stackmem.run.programs.result import ProgramResult
from stackmem.run.stored_request import read_request

from .edited_run import Divergence, continue_program
from .inputs import read_answers
from .opening import open_language

FOLDED_LINES = 40


class ProgramScreen:
    """Receives everything that happens in a program and prints it."""

    def __init__(
        self, announcer: Announcer, *, quiet: bool, full: bool, as_json: bool, full_report: bool = False
    ) -> None:
        self._announcer = announcer
        self._progress = Progress()
        self._folds = not full and sys.stdout is not None and sys.stdout.isatty()
        self._as_json = as_json
        self._changes = VariableChanges(full=full_report)
        self._changed: list[str] = []
        self.quiet = quiet
        self.halt_shown = False  # whether a halt's report was printed

    def __call__(self, happened: tuple[Happening, ...], state: State) -> None:
        """Print what happened, in order."""
        for happening in happened:
            if isinstance(happening, Event):
                self._show_step(happening, state)
            self._show(happening)
        for line in self._changed:
            say(f"  {readable(line)}")
        self._changed.clear()

    def show_changes(self, moment: DebugMoment, _: State) -> None:
        """Collect the changes since the previous line, to be printed after the events of that line."""
        self._changed += self._changes.lines(moment)

    def _show(self, happening: Happening) -> None:
        if isinstance(happening, Said):
            if not self._as_json:
                with suppress(OSError):
                    typer.echo(readable(happening.text))
        elif isinstance(happening, ProgramHalted):
            self.halt_shown = True
            with suppress(OSError):
                typer.echo(readable(happening.report), err=self._as_json)
        elif isinstance(happening, StepFailed) and not self.quiet:
            say(self._fold(readable(f"{happening.path} was not done: {happening.reason}")))
        if not self.quiet:
            if isinstance(happening, ReplyRefused):
                say(f"  refused {readable(happening.name)}: {readable(happening.fault)}")
            for text in self._announcer(happening):
                say(self._fold(readable(text)))

    def _show_step(self, event: Event, state: State) -> None:
        """Print the agent's steps in frames that the program delegated to it."""
        if self.quiet or isinstance(event, ProgramEvent | RunStarted):
            return
        popped = isinstance(event, FramePopped) and len(state.popped) and state.popped[-1].frame.program != "steps"
        if popped or (state.stack and (state.running.program != "steps" or state.program is None)):
            for line in self._progress.lines(event, state):
                say(line)

    def _fold(self, text: str) -> str:
        lines = text.split("\n")
        if not self._folds or len(lines) <= FOLDED_LINES:
            return text
        half = FOLDED_LINES // 2
        left_out = len(lines) - 2 * half
        return "\n".join([*lines[:half], f"[... {left_out:,} lines folded; --full shows them ...]", *lines[-half:]])


class Answers:
    """Answers a program's questions, first from the given answers, then from the terminal."""

    def __init__(self, texts: Iterable[str], *, interactive: bool) -> None:
        self._texts = list(texts)
        self._interactive = interactive

    def __call__(self, question: str) -> str | None:
        if self._texts:
            return self._texts.pop(0)
        if not self._interactive or not sys.stdin.isatty():
            return None
        with suppress(EOFError, typer.Abort):
            # The default makes an empty line a valid answer, so optional questions can be skipped.
            answer = typer.prompt(readable(question), default="", show_default=False, err=True, prompt_suffix="\n> ")
            return str(answer)
        return None


def watcher(screen: ProgramScreen, file: str, *, debug: bool, verbose: bool) -> Watcher | None:
    """Return the watcher for the program ``file``: the terminal debugger, the screen's changes, both, or None."""
    watchers: list[Watcher] = [screen.show_changes] if verbose else []
    watchers += [neighbor("doors: debug at the terminal")(Path(file).parent)] if debug else []
    return together(watchers) if watchers else None


def screen_of_kept(
    run_dir: Path,
    answer_texts: Iterable[str],
    answers: str | None,
    *,
    as_json: bool,
    quiet: bool,
    debug: bool,
    verbose: bool,
) -> tuple[ProgramScreen, Person] | None:
    """Return the screen and person for resuming a program's run; None if the run has no program."""
    try:
        program = read_request(run_dir).program
    except TraceError:  # reported later by the code that needs the request
        return None
    if program is None:
        return None
    screen = ProgramScreen(open_language(program.language).announcer(), quiet=quiet, full=False, as_json=as_json)
    replies = Answers([*answer_texts, *read_answers(answers, Path.cwd())], interactive=program.interactive)
    watch = watcher(screen, program.path, debug=debug, verbose=verbose)
    return screen, Person(replies, screen, stop=stop_at_once, watch=watch)


def show_halt(halted: Halted, *, as_json: bool) -> NoReturn:
    """Print the error that prevents a program from starting, and exit with its code."""
    typer.echo(readable(halted.report), err=as_json)
    if as_json:
        echo_json({"outcome": "halted", "value": None, "said": [], "result": halted.report})
    sys.exit(halted.exit_code)


def show_program(result: ProgramResult, screen: ProgramScreen, *, as_json: bool) -> NoReturn:
    """Print the run's result, and exit with its code."""
    run = result.run
    if run.failure:
        say(f"stackmem: {readable(run.failure)}")
    if as_json:
        summary = {
            "outcome": run.outcome, "value": result.value, "said": result.said,
            "failed": [{"path": each.path, "reason": each.reason} for each in result.failed],
            "run": run.run, "usage": run.usage, "result": run.result, "run_dir": run.run_dir, "steps": run.steps,
            "cost_usd": run.cost_usd, "chunks": run.chunks, "changed": run.changed,
        }  # fmt: skip
        echo_json(summary)
        sys.exit(run.exit_code)
    if run.outcome == "finished" and result.value is not None:
        typer.echo(readable(as_text(result.value)))
    elif run.outcome == "halted":
        if not screen.halt_shown:
            typer.echo(readable(run.result))
    elif run.outcome == "input_needed":
        say(f"input needed: {readable(run.result)}; answer with stackmem resume {run.run} --say TEXT")
    say_unsigned(run)
    if not screen.quiet:
        cost = spell_cost(run.cost_usd, run.usage.total)
        say(f"{run.outcome}, {run.steps} model replies, {cost}, {run.wall_seconds:.1f} s; run: {readable(run.run_dir)}")
        if run.ending != "popped":
            say_kept(run)
            say(f"continue with: stackmem resume {run.run}")
    if run.changed or run.not_kept or run.commits or run.changed_meanwhile:
        show_patch(run)
    sys.exit(run.exit_code)


def continue_kept(
    folder: Path, program: str, settings: dict[str, str | None], screen: ProgramScreen, person: Person, *, as_json: bool
) -> NoReturn:
    """Continue the run with an edited program, and exit with the new run's code."""

    def say_where(parted: Divergence) -> None:
        if not screen.quiet:
            location = f" in {readable(parted.path)}" if parted.path else ""
            if parted.changed:
                say(f"changed sources: {', '.join(map(readable, parted.changed))}")
            say(f"{parted.answers:,} of {parted.recorded:,} recorded answers reused; it continues live{location}")

    result = continue_program(folder, Path.cwd() / os.path.expanduser(program), settings, os.environ, person, say_where)
    show_program(result, screen, as_json=as_json)
