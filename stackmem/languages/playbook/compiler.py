"""Gives every playbook coded steps: default ones where it has none, a model's where they are plain sentences.

A compiled program begins with a comment that names the digest of what it was compiled from; while that is still the
program's digest, no model is asked.
"""

from __future__ import annotations

import hashlib
import posixpath
import re

from msgspec.structs import replace

from stackmem.core.messages import Breakpoint
from stackmem.core.requests import LoadSource
from stackmem.languages.operations import Complete, Completion, Routine, Source, prompt

from .errors import PlaybookError, halt
from .reader import read_program
from .tree import Playbook, PlaybookProgram, step_line

INSTRUCTIONS = "stackmem:playbook/compile.md"
MOST_TRIES = 3
_HEADER = re.compile(r"<!-- compiled from sha256:([0-9a-f]{64}) -->\n?")
_FENCED = re.compile(r"\A\s*(`{3,}|~{3,})[\w.]*\n(.*)\n\1\s*\Z", re.S)


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def header(text: str) -> str:
    return f"<!-- compiled from sha256:{digest_of(text)} -->\n"


def compiled_path(path: str) -> str:
    """The file beside a program that its compiled form is kept in."""
    stem = posixpath.basename(path)
    for suffix in (".playbook.md", ".pb"):
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
            break
    return f"{stem}.pbasm"


def compile_program(path: str, text: str) -> Routine:
    """``(program, text)`` of a plain program in its coded form.

    Raises:
        Halted: The model's answers are no coded program.

    """
    kept: Source = yield LoadSource(compiled_path(path), path)
    found = _HEADER.match(kept.text)
    if found and found[1] == digest_of(text):
        return read_program(kept.text), kept.text
    instructions: Source = yield LoadSource(INSTRUCTIONS)
    asked, fault = text, None
    for _ in range(MOST_TRIES):
        answer: Completion = yield Complete(
            prompt(asked), system=instructions.text, breakpoints=(Breakpoint(-1, 0, "1h"),), name="compile"
        )
        made = header(text) + _strip_fence(answer.text)
        try:
            return _read_coded(made), made
        except PlaybookError as error:
            fault = error
            asked = (
                f"{text}\n\n---\nThe last answer was no coded program: line {error.line}: {error.message}\n"
                f"It was:\n{answer.text[:20_000]}"
            )
    told = f"{MOST_TRIES} answers were no coded program; the last: {fault.message if fault else ''}"
    raise halt("Compilation Failed", told, path)


def _read_coded(text: str) -> PlaybookProgram:
    program = read_program(text)
    for _, book in program.all():
        if book.plain:
            raise PlaybookError("Step Without Code", f"the steps of {book.name} have no codes", book.line)
    return program


def _strip_fence(text: str) -> str:
    found = _FENCED.match(text)
    return (found[2] if found else text).strip() + "\n"


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
    """The program with the default steps in every prose playbook that has none."""
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
