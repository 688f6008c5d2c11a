"""Playbooks as the machine sees them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackmem.languages.effects import LoadSource, Program, Source
from stackmem.languages.language import Language, Launch, Reading

from . import nodes
from .agents import run_agents
from .announcing import announcer
from .compiling import compiled, compiled_path, digest_of
from .entry import entries_of
from .faults import PlaybookError, halted
from .frames import play
from .linter import lint
from .react import with_default_steps
from .reader import read_program
from .state import World

CONTRACT = "stackmem:playbook/contract.md"


def start(launch: Launch) -> Program:
    """The program; see ``language.Language``. The option ``compile`` gives its coded text instead of running it."""
    program = _read(launch)
    named = str(launch.options.get("entry") or "")
    if launch.options.get("compile"):
        return (yield from compiled(launch.path, launch.text))[1] if program.plain else launch.text
    entries = entries_of(program, named, launch.inputs)
    if program.plain:
        program = (yield from compiled(launch.path, launch.text))[0]
        entries = entries_of(program, named, launch.inputs)
    program = with_default_steps(program)
    entries = entries_of(program, named, launch.inputs)
    contract: Source = yield LoadSource(CONTRACT)
    world = World(program, posixpath.basename(launch.path), contract.text, snoop=bool(launch.options.get("snoop")))
    try:
        return (yield from run_agents(world, entries, play, debug=bool(launch.options.get("debug"))))
    except RecursionError as error:
        told = "calls nest deeper than can be followed; nest less, or loop instead"
        raise halted("Limit Reached", told, world.where(world.frame)) from error


def outline(launch: Launch) -> Reading:
    """Every playbook with its lines; where the program starts, and with what."""
    program = _read(launch)
    lines = []
    if not launch.options.get("compile"):
        entries = entries_of(program, str(launch.options.get("entry") or ""), launch.inputs)
        starts = [f"{name}.{book.name}" for name, books in entries.items() for book, _ in books]
        lines.append(f"starts with: {', '.join(starts)}")
    if program.plain:
        kept: Source = yield LoadSource(compiled_path(launch.path), launch.path)
        if digest_of(launch.text) in kept.text[:200]:
            program = _read(Launch(launch.path, kept.text))
        else:
            lines.append("to be compiled by the model before it starts")
    return (*lines, *_outlined(with_default_steps(program)))


def _outlined(program: nodes.Program) -> Iterator[str]:
    for agent in program.agents:
        yield f"{agent.name}:"
        for book in agent.playbooks:
            yield f"  {book.signature}{' (Python)' if book.python else ''}{' (public)' if book.public else ''}"
            for trigger in book.triggers:
                yield f"    {trigger.label}:{trigger.code} {trigger.text}"
            for step in book.steps:
                yield f"    {'  ' * (len(step.number) - 1)}{step.label}:{step.code} {step.text}".rstrip()


def _read(launch: Launch) -> nodes.Program:
    try:
        return read_program(launch.text)
    except PlaybookError as error:
        raise error.halted(posixpath.basename(launch.path), launch.text) from error


LANGUAGE = Language(
    name="playbook",
    says="playbooks in prose, executed by a model that is held to them",
    suffixes=(".pb", ".pbasm", ".playbook.md"),
    main="main.pb",
    start=start,
    outline=outline,
    lint=lint,
    announcer=announcer,
)
