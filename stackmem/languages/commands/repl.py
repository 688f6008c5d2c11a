"""The ``stackmem repl`` command."""

from __future__ import annotations

import atexit
import io
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from stackmem.cli.options import Flags, Quiet, absolute, argument, option, settings, takes
from stackmem.cli.screen.live import stop_at_once
from stackmem.cli.screen.result import ask_about_size
from stackmem.cli.screen.text import say
from stackmem.core.errors import UsageError
from stackmem.languages import sexp
from stackmem.languages.running.inputs import read_inputs
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.languages.running.screen import ProgramScreen, show_program
from stackmem.languages.sexp.language import LEAVES, PROMPT
from stackmem.languages.sexp.reader import TypedLines
from stackmem.run.opened import Person

from ..frame.bounds import TEXT_CHARS


@takes("flags", settings(
    "model", "strategy", "isolation", "runs_dir", "sandbox_dir", "max_steps", "max_usd", "yes",
))  # fmt: skip
def command(
    program: str | None = argument(
        "[FILE]", "A workflow to run first; the session can use its definitions.", default=None
    ),
    variables: list[str] | None = option("--input", "A variable; repeatable.", "K=TEXT|K:=JSON|K=@FILE"),
    lib: list[str] | None = option("--lib", "A library; repeatable.", "FILE"),
    workspace: str | None = option("--workspace", "The folder to copy. Default: the current folder.", "DIR"),
    *,
    flags: Flags,
    quiet: Quiet = False,
) -> None:
    """Evaluate S-expressions as you type them, in one recorded run; end it with (exit) or end of input."""
    cwd = Path.cwd()
    folder = Path(next(iter(sexp.__path__)))
    options = {"repl": True, "lib": [str(absolute(path)) for path in lib or ()]}
    name = program or str(folder / "repl.sexp")
    arguments = ProgramArguments(
        name, read_inputs(variables or (), None, cwd), options, workspace or str(cwd), language="sexp"
    )
    ready = prepare_program(arguments, flags, os.environ, cwd)
    say(*ready.request.warnings)
    screen = ProgramScreen(ready.language.announcer(), quiet=quiet, full=False, as_json=False)
    if not _ready_to_read():
        raise UsageError("standard input is closed, so expressions cannot be read; use `stackmem run FILE`")
    if sys.stdin.isatty():
        _remember(Path.home() / ".local" / "state" / "stackmem" / "repl-history")
    typed = _first() if program is None else ""
    if typed in LEAVES:
        return
    waiting = [typed] if typed else []
    person = Person(
        lambda question: waiting.pop() if waiting else _read(question),
        screen,
        stop=stop_at_once,
        agree=partial(ask_about_size, as_json=False),
    )
    result = run_program(ready, os.environ, person)
    show_program(result, screen, as_json=False)


def _first() -> str:
    """Read the first expression, before the workspace is copied or a run is stored."""
    while not (typed := _read(PROMPT).strip()):
        pass
    return typed


def _read(question: str) -> str:
    """Read one expression, which may span several lines."""
    lines: list[str] = []
    typed = TypedLines()
    chars = 0
    while True:
        line = _line(f"{question} " if not lines else "... ")
        lines.append(line)
        chars += len(line)
        if not line:
            text = "".join(lines)
            return text if text.strip() else "(exit)"
        if not typed.is_unfinished_with(line) or chars > TEXT_CHARS:  # the reader reports the excess
            return "".join(lines)


def _line(ask: str) -> str:
    """Read one line, including its line end; empty at the end of input.

    Output errors are ignored, so closed or full streams do not end the session.
    """
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(ask)
            sys.stderr.flush()
    if sys.stdin.isatty() and sys.stdout is not None and sys.stderr is not None:
        with suppress(EOFError):
            return input() + "\n"
        return ""
    return sys.stdin.readline()


def _ready_to_read() -> bool:
    """Return whether input can be read. Invalid UTF-8 is read as U+FFFD, because a trace cannot store it."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin is not None


def _remember(path: Path) -> None:
    """Load the input history of earlier sessions, and save it at exit."""
    try:
        import readline
    except ImportError:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
    readline.set_history_length(1_000)

    def keep() -> None:
        with suppress(OSError):
            readline.write_history_file(path)

    atexit.register(keep)
