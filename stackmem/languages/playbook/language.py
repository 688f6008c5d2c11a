"""The language interface of playbooks."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from stackmem.core.errors import UsageError
from stackmem.core.program_facts import StepEntered, UserAnswered, VariableSet
from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.languages.language import Announcer, Happening, Language, Launch, ProgramInterface, Reading, inputs_schema
from stackmem.languages.operations import Complete, EnterFrame, LeaveFrame, Program, Source

from . import tree as nodes
from .compiler import REFUSED, compile_program, compiled_path, kept_program, with_default_steps
from .errors import PlaybookError, halt
from .interpreter import check_inputs, choose_entries, entries_of, run_agents
from .lint import findings_of, lint, remarks
from .reader import read_program
from .session_log import brief
from .state import PlaybookState

CONTRACT = "stackmem:playbook/contract.md"


def start(launch: Launch) -> Program:
    """Run the program; see ``language.Language``.

    With the option ``compile`` it returns the coded text instead.
    """
    program = _read(launch)
    _refuse_faulty(launch, program)
    name = str(launch.options.get("entry") or "")
    if launch.options.get("compile"):
        return (yield from compile_program(launch.path, launch.text))[1] if program.plain else launch.text
    check_inputs(program, name, launch.inputs)  # report invalid inputs before a model is paid to compile
    if program.plain:
        program = (yield from compile_program(launch.path, launch.text))[0]
    program = with_default_steps(program)
    try:
        entries = entries_of(program, name, launch.inputs)
    except UsageError as error:
        raise halt("Wrong Input", str(error), posixpath.basename(launch.path)) from error
    contract: Source = yield LoadSource(CONTRACT)
    world = PlaybookState(
        program,
        posixpath.basename(launch.path),
        contract.text,
        snoop=bool(launch.options.get("snoop")),
        source=launch.path,
        loose=launch.options.get("replies") == "loose",
    )
    try:
        return (yield from run_agents(world, entries, launch.watch))
    except RecursionError as error:
        message = "calls nest deeper than can be followed; nest less, or loop instead"
        raise halt("Limit Reached", message, world.source_location(world.frame)) from error


def outline(launch: Launch) -> Reading:
    """Return the lines of every playbook, and where the program starts with which inputs."""
    program = _read(launch)
    _refuse_faulty(launch, program)
    entry = str(launch.options.get("entry") or "")
    lines = []
    if not launch.options.get("compile"):
        check_inputs(program, entry, launch.inputs)
    if program.plain:
        source: Source = yield LoadSource(compiled_path(launch.path), launch.path)
        compiled = kept_program(launch.text, source.text)
        if compiled is None:
            lines.append(f"to be compiled by the model before it starts: {'; '.join(program.plain)}")
        program = compiled or program
    if not launch.options.get("compile") and (entry or not program.plain_triggers):
        entries = entries_of(program, entry, launch.inputs)
        starts = [f"{name}.{book.name}" for name, books in entries.items() for book, _ in books]
        lines.insert(0, f"starts with: {', '.join(starts)}")
    return (*lines, *_outline_lines(with_default_steps(program)))


_SCHEMAS = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object",
}  # fmt: skip


def interface(launch: Launch) -> Reading:
    """Return the program's interface: the parameters of the playbooks that it starts with."""
    yield from ()  # a reading must be a generator, even if it reads no other source
    program = _read(launch)
    books = [book for _, book in choose_entries(program, str(launch.options.get("entry") or ""))]
    params = {param.name: param for book in books for param in book.params}
    properties: dict[str, Any] = {}
    for name, param in params.items():
        kind = _SCHEMAS.get(param.kind.partition("[")[0].strip())
        properties[name] = ({"type": kind} if kind else {}) | ({} if param.required else {"default": param.default})
    says = next((book.says for book in books if book.says), program.agents[0].says)
    return ProgramInterface(
        " ".join(says.split()), inputs_schema(properties, [name for name, param in params.items() if param.required])
    )


def _outline_lines(program: nodes.PlaybookProgram) -> Iterator[str]:
    for agent in program.agents:
        yield f"{agent.name}:"
        for book in agent.playbooks:
            yield f"  {book.signature}{' (Python)' if book.python else ''}{' (public)' if book.public else ''}"
            for trigger in book.triggers:
                yield f"    {trigger.label}:{trigger.code} {trigger.text}"
            for step in book.steps:
                yield f"    {'  ' * (len(step.number) - 1)}{step.label}:{step.code} {step.text}".rstrip()


def stop_lines(path: str, text: str) -> Iterator[int]:
    """Yield the lines of all functions, and of the steps that some path through their playbook reaches."""
    try:
        program = read_program(text)
    except PlaybookError:
        return
    for _, book in program.all():
        if book.python:
            yield book.line
        seen: set[int] = set()
        waiting: list[nodes.StepLine | None] = [None]
        while waiting:
            for step in nodes.lines_after(book, waiting.pop()):
                if step.line not in seen and not book.plain:
                    seen.add(step.line)
                    waiting.append(step)
        yield from seen


def _read(launch: Launch) -> nodes.PlaybookProgram:
    try:
        return read_program(launch.text)
    except PlaybookError as error:
        raise error.halt(posixpath.basename(launch.path), launch.text) from error


def _refuse_faulty(launch: Launch, program: nodes.PlaybookProgram) -> None:
    """Halt on the first fault that the linter reports as an error."""
    if not launch.options.get("checked"):
        return
    path = posixpath.basename(launch.path)
    wrong = next((each for each in findings_of(path, program) if each.severity == "error"), None)
    if wrong is not None:
        raise PlaybookError(wrong.title, wrong.message, wrong.line).halt(path, launch.text)


def announcer() -> Announcer:
    return _PlaybookAnnouncer()


def _instruction(tail: str) -> list[str]:
    """Return the lines after the state in the last part of a prompt."""
    return tail.rpartition("*Current state*")[2].split("\n")


def _compiled_parts(request: Complete) -> str:
    """Return the parts that a compile request is about."""
    text = "".join(part.text for part in request.messages[-1].parts if hasattr(part, "text"))
    try:
        return "; ".join(read_program(text.partition(REFUSED)[0]).plain)
    except PlaybookError:
        return "the program"


class _PlaybookAnnouncer:
    """Formats happenings, indented by frame depth."""

    def __init__(self) -> None:
        self._depth = 0

    def __call__(self, happening: Happening) -> tuple[str, ...]:
        match happening:
            case EnterFrame():
                self._depth += 1
                return (self._line(f"▶ {happening.name}: {brief(happening.intent, 200)}", -1),)
            case LeaveFrame():
                self._depth = max(0, self._depth - 1)
                return (self._line(f"◀ {brief(happening.result, 200)}"),)
            case StepEntered():
                return (self._line(f"{happening.path} {happening.call}".rstrip()),)
            case VariableSet():
                size = f", {happening.size:,}" if happening.size else ""
                return (self._line(f"  ${happening.name} ({happening.kind}{size})"),)
            case UserAnswered():
                return (self._line(f"  the user said {brief(happening.text, 200)!r}"),)
            case InvokeTool() if happening.tool == "run_python" and not happening.arguments["answers"]:
                return (self._line("  runs Python"),)
            case Complete(name="compile") if len(happening.messages[-1].parts) == 1:
                return (self._line(f"the model compiles {_compiled_parts(happening)}"),)
            case Complete():
                texts = [part.text for part in happening.messages[-1].parts if hasattr(part, "text")]
                return tuple(self._line(f"  {line}") for line in _instruction(texts[-1]) if line.startswith("what? "))
            case _:
                return ()

    def _line(self, text: str, shift: int = 0) -> str:
        return "  " * max(0, self._depth + shift) + text


LANGUAGE = Language(
    name="playbook",
    says="playbooks in prose, executed by a model whose every step is checked",
    start=start,
    outline=outline,
    lint=lint,
    remarks=remarks,
    stop_lines=stop_lines,
    announcer=announcer,
    interface=interface,
    is_checked=True,
)
