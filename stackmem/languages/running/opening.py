"""Opens languages by name, and recorded programs in their language."""

from __future__ import annotations

from importlib import import_module

from msgspec.structs import replace

from stackmem.core.errors import Halted, TraceError, UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.machine import evolve
from stackmem.core.program_facts import ProgramCalled, ProgramStarted
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.languages.calling import linked, with_run_program
from stackmem.languages.debugger import DebugPort, Watcher
from stackmem.languages.language import INTERPRETERS, MODULES, Language, Launch
from stackmem.languages.operations import Program
from stackmem.languages.program import ProgramDecider
from stackmem.memory import open_strategy
from stackmem.trace.program import TextOf


def open_program(
    event: ProgramStarted,
    start: RunStarted,
    strategy: MemoryStrategy,
    text_of: TextOf,
    *,
    keep: bool = True,
    watch: Watcher | None = None,
) -> ProgramDecider:
    """Return the recorded program, at its beginning. ``watch`` receives its moments."""
    try:
        language = open_language(event.language)
        port = DebugPort(watch, evolve(State(), start)) if watch else None
        launch = replace(launch_of(event, start, text_of(event.digest)), watch=port)
        return ProgramDecider(
            event,
            lambda: linked(launch, language, open_language),
            strategy,
            open_strategy,
            text_of,
            keep=keep,
            watch=port,
        )
    except UsageError as error:
        raise TraceError(f"the program cannot be run again ({error}); use the stackmem version that ran it") from error


def open_called(event: ProgramCalled, state: State, strategy: MemoryStrategy, text_of: TextOf) -> ProgramDecider:
    """Return a program that an agent called, at its beginning. ``state`` has its frame running."""

    def begin() -> Program:
        try:
            launch = launch_of(event.start, state.begun, text_of(event.start.digest))
            return (yield from linked(launch, open_language(event.start.language), open_language))
        except UsageError as error:
            raise Halted("Invalid Input", str(error)) from error

    base = len(state.stack) - 1
    return ProgramDecider(event.start, begin, strategy, open_strategy, text_of, keep=False, base=base)


def launch_of(event: ProgramStarted, start: RunStarted, text: str) -> Launch:
    """Rebuild the interpreter's arguments from the recorded events."""
    own = tuple(tool for tool in start.tools if tool.name in start.registered)
    options = {"window_tokens": start.window_tokens, **event.options}
    tools = with_run_program(own)
    return Launch(event.path, text, event.inputs, event.module_path, start.workspace, options, tools)


def open_language(name: str) -> Language:
    """Return the language called ``name``. Raise UsageError if the language does not exist."""
    languages = sorted(set(INTERPRETERS.values()))
    if name not in languages:
        raise UsageError(f"no language {name[:80]!r}; known: {', '.join(languages) or 'none'}")
    language: Language = import_module(MODULES.get(name, f"stackmem.languages.{name}.language")).LANGUAGE
    return language
