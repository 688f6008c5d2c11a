"""What can be known of a program before it runs: its calls, lines, variables and yields."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..language import Finding, Reading
from .calling import known_names
from .faults import PlaybookError
from .following import expected, target_of
from .literals import LiteralFault, Reader
from .nodes import Agent, Playbook, Program, StepLine
from .reader import read_program

_WORDS = re.compile(r"[^a-z0-9]+")
_CALL = re.compile(r"(?:\$(\w+)(?::\w+)?\s*=\s*)?(?<![\w.$])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\(")
_SET = re.compile(
    r"\$(\w+)(?::\w+)?\s*(?:=|←|:=|\bto\b)|\b(?:set|store|as|into|in|save|each|ask\w*|get|call it)\s+\$(\w+)", re.I
)
_DECLARED = re.compile(r"\$(\w+):\w+")
_USED = re.compile(r"\$([A-Za-z_]\w*)")
_NOTE = re.compile(r"\bN\d+\b")


def lint(path: str, text: str) -> Reading:
    """The findings, in the order of the lines."""
    yield from ()  # a reading is a generator, also one that reads no other source
    try:
        program = read_program(text)
    except PlaybookError as error:
        return (_finding(path, error.line, error.title, error.message, error=True),)
    found = [
        _finding(path, line, title, message, error=error)
        for agent, book in program.all()
        if not book.python
        for line, title, message, error in _checked(program, agent, book)
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (each.line, each.code, each.message)))


_Fault = tuple[int, str, str, bool]


def _checked(program: Program, agent: Agent, book: Playbook) -> Iterator[_Fault]:
    yield from _calls(program, agent, book)
    yield from _yields(book)
    yield from _lines(book)
    yield from _variables(agent, book)


def _calls(program: Program, agent: Agent, book: Playbook) -> Iterator[_Fault]:
    names = known_names(program, agent.name)
    plain = {name.rpartition(".")[2]: name for name in reversed(names)}
    for step in book.steps:
        if step.code != "QUE":
            continue
        for found in _CALL.finditer(step.text):
            name = found[2]
            if name not in names and name not in plain:
                yield step.line, "Unknown Playbook", f"there is no playbook {name}; known: {', '.join(names)}", True
                continue
            told = _arguments(program, plain.get(name, name), step.text, found.start(2))
            if told:
                yield step.line, "Argument Mismatch", told, True


def _arguments(program: Program, name: str, text: str, at: int) -> str:
    """What is wrong with the arguments of a call in a step, where they are written out."""
    inner = name.rpartition(".")[2]
    book = next((each for _, each in program.all() if each.name == inner), None)
    try:
        call = Reader(text, at).call()
    except LiteralFault:
        return ""  # prose in parentheses is for the model to read
    if book is None:
        return ""
    names = [param.name for param in book.params]
    unknown = [given for given, _ in call.named if given not in names]
    if unknown:
        return f"{book.signature} has no parameter {unknown[0]}"
    if len(call.values) > len(names):
        return f"{book.signature} takes {len(names)} arguments, {len(call.values)} are given"
    return ""


def _yields(book: Playbook) -> Iterator[_Fault]:
    """A queued call whose block never yields is made late, or not at all."""
    for index, step in enumerate(book.steps):
        if step.code != "QUE" or re.search(r"\b(?:Say|SaveArtifact|SendMessage)\(", step.text):
            continue
        following = [each.code for each in book.steps[index + 1 :]]
        behind = next((code for code in following if code != "QUE"), "")
        if behind not in ("YLD", "RET"):
            yield step.line, "Queue Without Yield", "no `YLD call` follows this QUE; add one behind it", False


def _lines(book: Playbook) -> Iterator[_Fault]:
    numbers = {step.number for step in book.steps}
    notes = {note.name for note in book.notes}
    for step in book.steps:
        target = target_of(step)
        if step.code == "JMP" and target not in numbers:
            yield step.line, "Unknown Line", f"{step.label} jumps to a line that {book.name} has not", True
        for name in _NOTE.findall(step.text) if step.code == "CHK" else ():
            if name not in notes:
                yield step.line, "Unknown Note", f"{book.name} has no note {name}", True
    for step in _unreachable(book):
        yield step.line, "Unreachable Line", f"no line leads to {book.name}:{step.label}", False


def _unreachable(book: Playbook) -> list[StepLine]:
    reached = {step.number for step in book.steps[:1]}
    todo = list(book.steps[:1])
    while todo:
        step = todo.pop()
        for each in expected(book, step):
            ends = step.code == "RET" or (step.code == "JMP" and each.number != target_of(step))
            if each.number not in reached and not ends:
                reached.add(each.number)
                todo.append(each)
    return [step for step in book.steps if step.number not in reached]


def _variables(agent: Agent, book: Playbook) -> Iterator[_Fault]:
    """A variable that no line of the agent sets."""
    known = {param.name for each in agent.playbooks for param in each.params}
    for each in agent.playbooks:
        for step in each.steps:
            for found in _SET.finditer(step.text):
                known.add(found[1] or found[2])
            known |= set(_DECLARED.findall(step.text))
            if step.code in ("EXE", "TNK", "YLD") or (step.code == "CND" and "each" in step.text.lower()):
                known |= set(_USED.findall(step.text))
    for step in book.steps:
        for name in _USED.findall(step.text):
            if name not in known:
                yield step.line, "Unknown Variable", f"no line sets ${name}", False


def _finding(path: str, line: int, title: str, message: str, *, error: bool) -> Finding:
    code = f"playbook/{_WORDS.sub('-', title.lower()).strip('-')}"
    return Finding(path, line, 1, "error" if error else "warning", code, message, title)
