"""Checks a program before it runs: its calls, lines, variables and yields."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stackmem.languages.language import Finding, Reading, finding_code, in_order

from .calls import Target, find_target, unknown_name
from .errors import PlaybookError
from .literals import CallTo, LiteralFault, LiteralReader, calls_in
from .python_lint import python_faults
from .reader import read_program
from .tree import Playbook, PlaybookAgent, PlaybookProgram, StepLine, lines_after, target_of

_CALL = re.compile(r"(?:\$(\w+)(?::\w+)?\s*=\s*)?(?<![\w.$])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\(")
_SET = re.compile(
    r"\$(\w+)(?::\w+)?\s*(?:=|←|:=|\bto\b)|\b(?:set|store|as|into|in|save|each|ask\w*|get|call it)\s+\$(\w+)", re.I
)
_DECLARED = re.compile(r"\$(\w+):\w+")
_USED = re.compile(r"\$([A-Za-z_]\w*)")
_NOTE = re.compile(r"\bN\d+\b")
_TELLS = re.compile(r"\b(?:Say|SaveArtifact|SendMessage)\(")
_COMPILED = "the model compiles the {1} of {0} before the program starts"
_MAX_SHOWN = 80
_MAX_PROSE = 100_000  # maximum characters per step spent on text in parentheses that is not a call


def lint(path: str, text: str) -> Reading:
    """Return the findings, ordered by line."""
    yield from ()  # a reading must be a generator, even if it reads no other source
    try:
        program = read_program(text)
    except PlaybookError as error:
        return (_finding(path, error.line, error.title, error.message, error=True),)
    return findings_of(path, program)


def findings_of(path: str, program: PlaybookProgram) -> tuple[Finding, ...]:
    """Return the findings on a program that could be read, ordered by line."""
    findings = [
        _finding(path, line, title, message, error=error)
        for agent in program.agents
        for line, title, message, error in _check_agent(program, agent)
    ]
    findings += _caveats(path, program)
    findings += [
        Finding(
            path,
            book.line,
            1,
            "note",
            "playbook/plain-sentences",
            _COMPILED.format(book.name, " and ".join(book.plain)),
        )
        for _, book in program.all()
        if book.plain
    ]
    return in_order(findings)


def remarks(path: str, text: str) -> tuple[Finding, ...]:
    """Return the parts of a program that have no effect here, or a different one. A run also prints them."""
    try:
        return _caveats(path, read_program(text))
    except PlaybookError:
        return ()


def _caveats(path: str, program: PlaybookProgram) -> tuple[Finding, ...]:
    return tuple(_finding(path, each.line, each.title, each.message, error=False) for each in program.caveats)


_Fault = tuple[int, str, str, bool]


def _check_agent(program: PlaybookProgram, agent: PlaybookAgent) -> Iterator[_Fault]:
    variables = _set_by(agent)
    for line, title, text in python_faults(program, agent):
        yield line, title, text, True
    for book in agent.playbooks:
        yield from _calls(program, agent, book)
        yield from _yields(book)
        yield from _lines(book)
        yield from _variables(book, variables)


def _calls(program: PlaybookProgram, agent: PlaybookAgent, book: Playbook) -> Iterator[_Fault]:
    for step in book.steps:
        for title, text in _faults_in(program, agent, step.text) if step.code == "QUE" else ():
            yield step.line, title, text, True


def _faults_in(program: PlaybookProgram, agent: PlaybookAgent, text: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of the calls in a step.

    If the text in parentheses is prose for the model, only the name is checked.
    """
    done = prose = 0
    for match in _CALL.finditer(text):
        at = match.start(2)
        if at < done:
            continue  # already parsed as part of an enclosing call
        calls = [CallTo(match[2])]
        reader = LiteralReader(text, at)
        if prose < _MAX_PROSE:
            try:
                calls, done = list(calls_in(reader.call())), reader.at
            except LiteralFault:
                prose += reader.at - at
        for call in calls:
            target = find_target(program, agent.name, call.name)
            if target is None:
                yield "Unknown Playbook", unknown_name(program, agent.name, call.name)
            elif message := _mismatch(target, call):
                yield "Argument Mismatch", message


def _mismatch(target: Target, call: CallTo) -> str:
    """Return what is wrong with a call's arguments, if they are spelled out."""
    if target.book is None:
        return ""
    names = {param.name for param in target.params}
    unknown = [keyword for keyword, _ in call.keywords if keyword not in names]
    if unknown:
        return f"{target.book.signature} has no parameter {unknown[0][:_MAX_SHOWN]}"
    if len(call.values) > len(names):
        return f"{target.book.signature} takes {len(names)} arguments, {len(call.values)} are given"
    return ""


def _yields(book: Playbook) -> Iterator[_Fault]:
    """Find queued calls whose block never yields: they are made late, or not at all."""
    behind = ""
    for step in reversed(book.steps):
        if step.code != "QUE":
            behind = step.code
        elif behind not in ("YLD", "RET") and not _TELLS.search(step.text):
            yield step.line, "Queue Without Yield", "no `YLD call` follows this QUE; add one after it", False


def _lines(book: Playbook) -> Iterator[_Fault]:
    notes = {note.name for note in book.notes}
    for step in book.steps:
        target = target_of(step)
        if (step.code == "JMP" or target) and target not in book.order.index:
            yield step.line, "Unknown Line", f"{step.label} jumps to a line that {book.name} does not have", True
        for name in _NOTE.findall(step.text) if step.code == "CHK" else ():
            if name not in notes:
                yield step.line, "Unknown Note", f"{book.name} has no note {name[:_MAX_SHOWN]}", True
    for step in _unreachable(book):
        yield step.line, "Unreachable Line", f"no line leads to {book.name}:{step.label}", False


def _unreachable(book: Playbook) -> list[StepLine]:
    reached = {step.number for step in book.steps[:1]}
    todo = list(book.steps[:1])
    while todo:
        step = todo.pop()
        for each in lines_after(book, step):
            ends = step.code == "RET" or (step.code == "JMP" and each.number != target_of(step))
            if each.number not in reached and not ends:
                reached.add(each.number)
                todo.append(each)
    return [step for step in book.steps if step.number not in reached]


def _set_by(agent: PlaybookAgent) -> frozenset[str]:
    """Return the variables that some line of the agent sets or may set."""
    variables = {param.name for each in agent.playbooks for param in each.params}
    for step in (step for each in agent.playbooks for step in each.steps):
        variables |= {match[1] or match[2] for match in _SET.finditer(step.text)}
        variables |= set(_DECLARED.findall(step.text))
        if step.code in ("EXE", "TNK", "YLD") or (step.code == "CND" and "each" in step.text.lower()):
            variables |= set(_USED.findall(step.text))
    return frozenset(variables)


def _variables(book: Playbook, variables: frozenset[str]) -> Iterator[_Fault]:
    for step in book.steps:
        for name in dict.fromkeys(_USED.findall(step.text)):
            if name not in variables:
                yield step.line, "Unknown Variable", f"no line sets ${name[:_MAX_SHOWN]}", False


def _finding(path: str, line: int, title: str, message: str, *, error: bool) -> Finding:
    code = finding_code("playbook", title)
    return Finding(path, line, 1, "error" if error else "warning", code, message, title)
