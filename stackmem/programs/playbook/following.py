"""Which lines may follow a line: the pointer is moved by nobody but this."""

from __future__ import annotations

import re

from .nodes import Number, Playbook, StepLine
from .step_lines import number_of

_LOOP = re.compile(r"\s*(?:while|for|until|repeat|loop)\b", re.I)
_TARGET = re.compile(r"(?:^|[\s:])(\d{1,9}(?:\.\d{1,9}){0,19})\b")


def expected(book: Playbook, at: StepLine | None) -> tuple[StepLine, ...]:
    """The lines that may come behind ``at``, in the order of the file; at the start the first one alone."""
    if at is None:
        return book.steps[:1]
    allowed = {at.number}
    index = book.steps.index(at)
    following = book.steps[index + 1 : index + 2]
    allowed |= {step.number for step in following}
    children = _children(book, at.number)
    allowed |= {step.number for step in children[:1]}
    if at.code in ("CND", "LOP", "ELS") or not children:
        allowed |= _siblings(book, at)
    if target := target_of(at):
        allowed.add(target)
    allowed |= {number for number in _ancestors(at.number) if is_loop(book, number)}
    return tuple(step for step in book.steps if step.number in allowed)


def _children(book: Playbook, number: Number) -> list[StepLine]:
    return [step for step in book.steps if step.number[:-1] == number]


def _ancestors(number: Number) -> list[Number]:
    """The numbers around a line, innermost first."""
    return [number[:length] for length in range(len(number) - 1, 0, -1)]


def _next_sibling(book: Playbook, number: Number) -> Number | None:
    block = [step.number for step in book.steps if step.number[:-1] == number[:-1]]
    later = block[block.index(number) + 1 :] if number in block else [each for each in block if each > number]
    return later[0] if later else None


def _siblings(book: Playbook, at: StepLine) -> set[Number]:
    """The next sibling of a CND; of the last line of a block, that of the first ancestor which has one."""
    found: set[Number] = set()
    own = _next_sibling(book, at.number)
    if own is not None:
        return {own} if at.code in ("CND", "LOP", "ELS") else found
    for number in _ancestors(at.number):
        following = _next_sibling(book, number)
        if following is not None:
            return {following}
    return found


def target_of(step: StepLine) -> Number | None:
    """Where a JMP leads."""
    found = _TARGET.search(step.text) if step.code == "JMP" else None
    return number_of(found[1]) if found else None


def is_loop(book: Playbook, number: Number) -> bool:
    """Whether the line is the head of a loop: it says so, or a JMP of its block leads back to it."""
    head = book.step(number)
    if head is None:
        return False
    if head.code == "LOP" or (head.code == "CND" and _LOOP.match(head.text)):
        return True
    return any(step.number[: len(number)] == number and target_of(step) == number for step in book.steps)
