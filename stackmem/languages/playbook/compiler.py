"""Gives every playbook coded steps.

A playbook without steps gets the default ones. If its steps are plain sentences, the model compiles them.

A compiled program begins with a comment that contains the digest of its source. As long as the digest matches, the
model is not asked again.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import Any

from msgspec.structs import replace

from stackmem.core.messages import Breakpoint
from stackmem.core.requests import LoadSource
from stackmem.languages.operations import Complete, Completion, Routine, Source, prompt

from .errors import PlaybookError, halt
from .reader import read_program
from .tree import Playbook, PlaybookProgram, step_line

INSTRUCTIONS = "stackmem:playbook/compile.md"
MAX_TRIES = 3
REFUSED = "\n\n---\nThe last answer was not a coded program"
"""Appended to the program when the model is asked again."""
_HEADER = re.compile(r"<!-- compiled from sha256:([0-9a-f]{64}) -->\n?")
_FENCED = re.compile(r"\A\s*(`{3,}|~{3,})[\w.]*\n(.*)\n\1\s*\Z", re.S)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def header(text: str) -> str:
    return f"<!-- compiled from sha256:{digest_of(text)} -->\n"


def compiled_path(path: str) -> str:
    """Return the file name of a program's compiled form, which is in the same folder."""
    stem = posixpath.basename(path)
    for suffix in (".playbook.md", ".pb"):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
            break
    return f"{stem}.pbasm"


def compile_program(path: str, text: str) -> Routine:
    """Compile a plain program. Returns ``(program, text)`` of the coded form.

    Raise Halted if the model's answers are not a coded program.
    """
    source = read_program(text)
    compiled: Source = yield LoadSource(compiled_path(path), path)
    program = kept_program(text, compiled.text)
    if program:
        return program, compiled.text
    instructions: Source = yield LoadSource(INSTRUCTIONS)
    request, fault = text, None
    for _ in range(MAX_TRIES):
        answer: Completion = yield Complete(
            prompt(request), system=instructions.text, breakpoints=(Breakpoint(-1, 0, "1h"),), name="compile"
        )
        coded_text = header(text) + _strip_fence(answer.text)
        try:
            return _read_coded(coded_text, source), coded_text
        except PlaybookError as error:
            fault = error
            request = f"{text}{REFUSED}: line {error.line}: {error.message}\nIt was:\n{answer.text[:20_000]}"
    message = f"{MAX_TRIES} answers were not coded programs; the last: {fault.message if fault else ''}"
    raise halt("Compilation Failed", message, path)


def kept_program(text: str, stored: str) -> PlaybookProgram | None:
    """Read the stored compiled form; None if it belongs to a different text or is invalid."""
    match = _HEADER.match(stored)
    if not match or match[1] != digest_of(text):
        return None
    try:
        return _read_coded(stored, read_program(text))
    except PlaybookError:
        return None


def _read_coded(text: str, source: PlaybookProgram) -> PlaybookProgram:
    """Read a compiled program and check that it differs from its source only in the codes.

    Raise PlaybookError if the text is not a coded program, or changes a part that must not be compiled.
    """
    program = read_program(text)
    for _, book in program.all():
        if book.plain:
            problem = f"the {' and '.join(book.plain)} of {book.name} have no codes"
            raise PlaybookError("Step Without Code", problem, book.line)
    names = [[(agent.name, sorted(agent.by_name)) for agent in each.agents] for each in (source, program)]
    if names[0] != names[1]:
        problem = "; ".join(f"{agent} with {', '.join(books) or 'none'}" for agent, books in names[0])
        raise PlaybookError("Changed Program", f"the agents and playbooks must stay {problem[:1000]}")
    for before, after in zip(source.agents, program.agents, strict=True):
        for book in before.playbooks:
            if changed := _changes(book, after.by_name[book.name]):
                problem = f"the answer changes {changed} of {book.name}; copy it as it is"
                raise PlaybookError("Changed Program", problem, after.by_name[book.name].line)
    return program


def _changes(book: Playbook, coded: Playbook) -> str:
    """Name the first part of a compiled playbook that was changed although it did not need compiling."""
    parts: dict[str, list[Any]] = {
        "the parameters": [[param.name for param in each.params] for each in (book, coded)],
        "the Python": ["".join(each.python.split()) for each in (book, coded)],
        "public": [each.public for each in (book, coded)],
        "cli_entry": [each.entry for each in (book, coded)],
    }
    if "triggers" not in book.plain:
        parts["the triggers"] = [
            [(line.label, line.code, line.text) for line in each.triggers] for each in (book, coded)
        ]
    if book.steps:
        parts["the steps"] = [[(line.number, line.code, line.text) for line in each.steps] for each in (book, coded)]
    return next((part for part, (before, after) in parts.items() if before != after), "")


def _strip_fence(text: str) -> str:
    match = _FENCED.match(text)
    return (match[2] if match else text).strip() + "\n"


_STEPS = (
    (1,), "TNK about what is asked for and how to get there",
    (2,), "CND If something that only the user knows is missing",
    (2, 1), "QUE Say(the question)",
    (2, 2), "YLD user",
    (3,), 'EXE set $task to what is to be done and $task_status to "started"',
    (4,), 'CND While $task_status is not "done"',
    (4, 1), "TNK about the next action and set $task_action to call, communicate or finish",
    (4, 2), "CND If $task_action is call",
    (4, 2, 1), "QUE the playbooks or functions that bring the task forward",
    (4, 2, 2), "YLD call",
    (4, 3), "CND If $task_action is communicate, set $communication_type to ask or tell",
    (4, 3, 1), "QUE Say(the message)",
    (4, 3, 2), "YLD user if $communication_type is ask, else call",
    (4, 4), 'CND If $task_action is finish, set $task_status to "done"',
    (4, 99), "JMP 04",
    (5,), "EXE save a result of over 500 characters as an artifact",
    (6,), "RET the result, or the name of the artifact",
)  # fmt: skip


def with_default_steps(program: PlaybookProgram) -> PlaybookProgram:
    """Return the program with the default steps in every prose playbook that has none."""
    agents = tuple(
        replace(agent, playbooks=tuple(_with_steps(book) for book in agent.playbooks)) for agent in program.agents
    )
    return PlaybookProgram(agents)


def _with_steps(book: Playbook) -> Playbook:
    if book.python or book.steps or book.plain:
        return book
    numbers, texts = _STEPS[::2], _STEPS[1::2]
    steps = tuple(step_line(str(text), book.line, tuple(number)) for number, text in zip(numbers, texts, strict=True))
    return replace(book, steps=steps)
