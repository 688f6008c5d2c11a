"""The ``stackmem run`` command."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import typer

from stackmem.cli.options import Flags, JsonResult, Quiet, absolute, argument, option, settings, switch, takes
from stackmem.cli.screen.live import stop_at_once
from stackmem.cli.screen.result import ask_about_size
from stackmem.cli.screen.text import readable, say
from stackmem.core.errors import Halted, UsageError
from stackmem.languages.running.inputs import read_answers, read_inputs
from stackmem.languages.running.prepare import PreparedProgram, ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.languages.running.screen import Answers, ProgramScreen, show_halt, show_program, watcher
from stackmem.run.opened import Person
from stackmem.settings.options import LIMIT_OPTIONS
from stackmem.settings.tools.mcp_servers import own_servers


@takes("flags", settings(
    "model", "strategy", "isolation", "network", "allow", "credentials",
    "include", "git", "layer", "runs_dir", "sandbox_dir", *LIMIT_OPTIONS, "command_seconds", "prompt", "profile",
    "base_url", "window_tokens", "size", "price",
    "temperature", "effort", "service_tier", "headers", "text_calls", "call_schema",
    "heap", "heap_chars", "heap_chunks", "depth", "checkpoints", "read_calls",
    "literal_mib", "otel", "fsync", "apply", "yes",
))  # fmt: skip
def command(
    program: str = argument("FILE|DIR", "A program, or a folder with a main program."),
    input_values: list[str] | None = option("--input", "An input; repeatable.", "K=TEXT|K:=JSON|K=@FILE"),
    inputs: str | None = option("--inputs", "A YAML file of inputs.", "FILE"),
    text: str | None = option("-t --text", "The request, for programs that take one."),
    workspace: str | None = option("--workspace", "The folder to copy. Default: the folder of the program.", "DIR"),
    mount: list[str] | None = option("--mount", "A folder to mount read-only; repeatable.", "DIR"),
    language: str | None = option("--language", "The language, if the suffix does not show it.", "NAME"),
    config: str | None = option("--config", "The configuration file of the language.", "FILE"),
    entry: str | None = option("--entry", "The part of the program to start with.", "NAME"),
    lib: list[str] | None = option("--lib", "A library; repeatable.", "FILE"),
    says: list[str] | None = option("--say", "An answer to a question; repeatable.", "TEXT"),
    answers: str | None = option("--answers", "A YAML list of answers to questions.", "FILE"),
    non_interactive: bool = switch("--non-interactive", "Never ask at the terminal; exit with 8 instead."),
    debug: bool = switch("--debug", "Stop at each step and read debugger commands from the terminal."),
    verbose: bool = switch("--verbose", "Print the changes of each step, one per line."),
    report: str | None = option(
        "--report", "full: print each value that a step registers or changes, complete.", "full"
    ),
    snoop: bool = switch("--snoop", "Print the messages between agents."),
    dry_run: bool = switch("--dry-run", "Check inputs and tools and print the steps, but do not run them."),
    full: bool = switch("--full", "Do not fold long output."),
    *,
    flags: Flags,
    json: JsonResult = False,
    quiet: Quiet = False,
) -> None:
    """Run a program: an interpreter follows it exactly and asks the model only where judgment is needed."""
    cwd = Path.cwd()
    if report not in (None, "full"):
        raise UsageError(f"--report {report}: the only report is full; leave out --report for the short one")
    full_report = report is not None
    options = {
        "request": text, "config": config and str(absolute(config)), "entry": entry,
        "lib": None if lib is None else [str(absolute(path)) for path in lib], "snoop": snoop or None,
    }  # fmt: skip
    with own_servers(os.environ, cwd) as warnings:
        say(*warnings)
        read = read_inputs(input_values or (), inputs, cwd)
        options = {name: value for name, value in options.items() if value is not None}
        arguments = ProgramArguments(
            program, read, options, workspace, tuple(mount or ()), language, not non_interactive
        )
        try:
            ready = prepare_program(arguments, flags, os.environ, cwd)
        except Halted as halted:
            show_halt(halted, as_json=json)
        say(*ready.request.warnings)
        if dry_run:
            _show_outline(ready)
        replies = Answers([*(says or ()), *read_answers(answers, cwd)], interactive=arguments.interactive)
        screen = ProgramScreen(
            ready.language.announcer(), quiet=quiet, full=full or full_report, as_json=json, full_report=full_report
        )
        watch = watcher(screen, ready.program.path, debug=debug, verbose=verbose or full_report)
        agree = partial(ask_about_size, as_json=json)
        person = Person(replies, screen, stop=stop_at_once, agree=agree, watch=watch, notice=say)
        show_program(run_program(ready, os.environ, person), screen, as_json=json)


def _show_outline(ready: PreparedProgram) -> NoReturn:
    if ready.halts is not None:
        typer.echo(readable(ready.halts.report))
        sys.exit(1)
    typer.echo(readable(ready.outline))
    sys.exit(0)
