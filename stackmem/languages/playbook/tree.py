"""A parsed playbook program: agents, playbooks and their lines.

Lines are looked up by number, so that long programs stay fast.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from .errors import PlaybookError

Number = tuple[int, ...]
"""A line's number: ``02.01`` is ``(2, 1)``. Leading zeros do not matter."""

_LOOP = re.compile(r"\s*(?:while|for|until|repeat|loop)\b", re.I)
_TARGET = re.compile(r"(?:^|[\s:])(\d{1,9}(?:\.\d{1,9}){0,19})\b")


class StepLine(Struct, frozen=True):
    """One line under ``### Steps``."""

    number: Number
    label: str  # its number as written, such as ``02.01``
    code: str
    text: str  # the text after number and code
    line: int  # line in the file, from 1


def number_of(label: str) -> Number:
    """Parse ``02.01`` to ``(2, 1)``."""
    return tuple(int(part) for part in label.split("."))


def target_of(step: StepLine) -> Number | None:
    """Return the number of the line that a JMP, or the jump of a QUE with ``unless``, leads to."""
    if step.code == "JMP":
        match = _TARGET.search(step.text)
    else:
        match = _OWN_JUMP.search(step.text) if is_conditional_queue(step) else None
    return number_of(match[1]) if match else None


def is_conditional_queue(step: StepLine) -> bool:
    """Return whether a QUE has a condition of its own: ``unless`` outside of parentheses and quotes."""
    return step.code == "QUE" and bool(_UNLESS.search(_INSIDE.sub("", step.text)))


_UNLESS = re.compile(r"\bunless\b", re.I)
_INSIDE = re.compile(r"\([^()]*\)|\"[^\"]*\"|'[^']*'")
_OWN_JUMP = re.compile(r"\b(?:JMP|jump\s+to|go\s*to)\s+(?:line\s+|step\s+)?(\d{1,9}(?:\.\d{1,9}){0,19})", re.I)


class _LineBlock:
    """The lines that are direct children of one line, in file order."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self.highest: list[Number] = []  # running maximum of the numbers

    def add(self, number: Number) -> None:
        self.numbers.append(number)
        self.highest.append(max(number, self.highest[-1]) if self.highest else number)

    def next_higher(self, number: Number) -> Number | None:
        """Return the first line with a higher number than ``number``, which is not in the block."""
        index = bisect_right(self.highest, number)
        return self.numbers[index] if index < len(self.numbers) else None


class LineOrder:
    """The lines of one playbook, and how they follow one another."""

    def __init__(self, steps: tuple[StepLine, ...]) -> None:
        self.steps = steps
        self.index = {step.number: index for index, step in enumerate(steps)}  # number to index in ``steps``

    @cached_property
    def _blocks(self) -> dict[Number, _LineBlock]:
        """Maps a parent's number to its child lines."""
        blocks: dict[Number, _LineBlock] = {}
        for step in self.steps:
            blocks.setdefault(step.number[:-1], _LineBlock()).add(step.number)
        return blocks

    @cached_property
    def _following(self) -> dict[Number, Number]:
        """Maps a line to the next one in its block."""
        return {
            number: behind
            for block in self._blocks.values()
            for number, behind in zip(block.numbers, block.numbers[1:], strict=False)
        }

    @cached_property
    def _loops(self) -> frozenset[Number]:
        """The heads of loops: lines that announce a loop, and lines that a JMP inside them leads back to."""
        targets = {
            step.number for step in self.steps if step.code == "LOP" or (step.code == "CND" and _LOOP.match(step.text))
        }
        for step in self.steps:
            target = target_of(step)
            if target and step.number[: len(target)] == target and target in self.index:
                targets.add(target)
        return frozenset(targets)

    def step(self, number: Number) -> StepLine | None:
        index = self.index.get(number)
        return None if index is None else self.steps[index]

    def first_inside(self, number: Number) -> Number | None:
        block = self._blocks.get(number)
        return block.numbers[0] if block else None

    def next_beside(self, number: Number) -> Number | None:
        """Return the next line of the same block. For a number that is not a line, the first higher one."""
        if number in self.index:
            return self._following.get(number)
        block = self._blocks.get(number[:-1])
        return block.next_higher(number) if block else None

    def is_loop(self, number: Number) -> bool:
        return number in self._loops


CODES = ("EXE", "TNK", "QUE", "CND", "CHK", "RET", "JMP", "YLD", "LOP", "ELS")


class Required:
    """Marks a parameter without a default."""


class Param(Struct, frozen=True):
    """A parameter. ``kind`` is the name of a type, or empty."""

    name: str
    kind: str = ""
    default: Any = Required

    @property
    def required(self) -> bool:
        return self.default is Required


class Trigger(Struct, frozen=True):
    """A line under ``### Triggers``. ``label`` is its number as written, such as ``T1``."""

    number: int
    label: str
    code: Literal["BGN", "CND", "EVT"]
    text: str
    line: int


class Remark(Struct, frozen=True):
    """A line under ``### Notes``, with the name by which ``CHK`` refers to it."""

    name: str
    text: str
    line: int


class Caveat(Struct, frozen=True):
    """A part of the program that has no effect here, or a different one. ``title`` is the linter's name for it."""

    title: str
    message: str
    line: int


class Playbook(Struct, frozen=True, dict=True):
    """A playbook: one H2 section or one ``@playbook`` function."""

    name: str
    params: tuple[Param, ...]
    returns: str
    says: str
    line: int
    steps: tuple[StepLine, ...] = ()  # in file order; empty for a function
    triggers: tuple[Trigger, ...] = ()
    notes: tuple[Remark, ...] = ()
    public: bool = False
    python: str = ""  # the agent's Python blocks, one of which defines the function; empty for prose
    python_line: int = 0  # line of the program's file where the blocks begin
    # its sections with sentences that have no codes and are compiled before the playbook can run
    plain: tuple[str, ...] = ()
    entry: bool = False  # whether the program begins with it, regardless of its triggers
    caveats: tuple[Caveat, ...] = ()

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join('$' + param.name for param in self.params)})"

    def begins(self) -> bool:
        return self.entry or any(trigger.code == "BGN" for trigger in self.triggers)

    @cached_property
    def order(self) -> LineOrder:
        return LineOrder(self.steps)

    def step(self, number: Number) -> StepLine | None:
        return self.order.step(number)


class PlaybookAgent(Struct, frozen=True, dict=True):
    """An agent: one H1 section."""

    name: str
    says: str
    line: int
    playbooks: tuple[Playbook, ...] = ()
    python: str = ""
    python_line: int = 0
    caveats: tuple[Caveat, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Playbook]:
        return {playbook.name: playbook for playbook in self.playbooks}

    def find(self, name: str) -> Playbook | None:
        return self.by_name.get(name)


class PlaybookProgram(Struct, frozen=True, dict=True):
    agents: tuple[PlaybookAgent, ...]

    def all(self) -> Iterator[tuple[PlaybookAgent, Playbook]]:
        for agent in self.agents:
            for playbook in agent.playbooks:
                yield agent, playbook

    @cached_property
    def _agents(self) -> dict[str, PlaybookAgent]:
        return {agent.name: agent for agent in self.agents}

    @cached_property
    def public(self) -> dict[str, list[tuple[str, Playbook]]]:
        """Maps each name to the public playbooks with that name and their agents, in file order."""
        by_name: dict[str, list[tuple[str, Playbook]]] = {}
        for agent, playbook in self.all():
            if playbook.public:
                by_name.setdefault(playbook.name, []).append((agent.name, playbook))
        return by_name

    def book(self, agent: str, name: str) -> Playbook | None:
        owner = self._agents.get(agent)
        return owner.find(name) if owner else None

    def names(self, agent: str) -> tuple[str, ...]:
        """Return the names of an agent's playbooks."""
        owner = self._agents.get(agent)
        return tuple(owner.by_name) if owner else ()

    @property
    def plain(self) -> tuple[str, ...]:
        """The playbooks to compile with their plain sections, such as ``Main (triggers, steps)``."""
        return tuple(f"{book.name} ({', '.join(book.plain)})" for _, book in self.all() if book.plain)

    @property
    def plain_triggers(self) -> bool:
        """Whether the program's start is unknown until it is compiled."""
        return any("triggers" in book.plain for _, book in self.all())

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """All caveats, in file order."""
        own = [caveat for agent in self.agents for caveat in agent.caveats]
        own += [caveat for _, book in self.all() for caveat in book.caveats]
        return tuple(sorted(own, key=lambda caveat: caveat.line))


_CODED = re.compile(r"(?:(?:[A-Za-z_]\w*:)?(\d+(?:\.\d+)*)\s*:\s*|)([A-Z]{3})(?:(?=[\s:.,(])[:\s]*(.*)|$)", re.S)
_TRIGGER = re.compile(r"(?:T?(\d+)\s*:\s*|)(BGN|CND|EVT)\b[:\s]*(.*)", re.S)
_NUMBERED = re.compile(r"T?\d+\s*:")
_NUMBERED_LINE = re.compile(r"(?:[A-Za-z_]\w*:)?\d+(?:\.\d+)*\s*:\s*[A-Z]{3}(?![A-Za-z])|T\d+\s*:")
_CODED_LINE = re.compile(rf"{_NUMBERED_LINE.pattern}|(?:BGN|CND|EVT|EXE|TNK|QUE|CHK|RET|JMP|YLD|LOP|ELS)\b")
_NOTE = re.compile(r"(N\d+)\b[:.\s]*(.*)", re.S)
_MAX_DIGITS = 9
_MAX_PARTS = 20


def label_of(number: Number) -> str:
    """Format ``(2, 1)`` as ``02.01``."""
    return ".".join(f"{part:02}" for part in number)


def is_coded(text: str) -> bool:
    match = _CODED.match(text)
    return bool(match and (match[2] in CODES or match[1]))


def step_line(text: str, line: int, by_place: Number) -> StepLine:
    """Parse a step from its list item. ``by_place`` is its number if the text does not contain one."""
    match = _CODED.match(text)
    label, code, says = (match[1], match[2], match[3] or "") if match else ("", text[:40], "")
    if code not in CODES:
        raise PlaybookError("Unknown Code", f"{code} is not a code of a step; known: {', '.join(CODES)}", line)
    parts = (label or "").split(".")
    if len(parts) > _MAX_PARTS or any(len(part) > _MAX_DIGITS for part in parts):
        message = f"{label[:40]} is not a number of a line; use at most {_MAX_PARTS} parts of {_MAX_DIGITS} digits"
        raise PlaybookError("Bad Number", message, line)
    number = number_of(label) if label else by_place
    return StepLine(number, label or label_of(number), code, says.strip(), line)


def is_plain_trigger(text: str) -> bool:
    """Return whether a trigger is a sentence that has no code yet."""
    return not _TRIGGER.match(text) and not _NUMBERED.match(text)


def trigger_line(text: str, line: int, position: int) -> Trigger:
    """Parse a trigger from its list item. Without a number it gets that of its position.

    Raise PlaybookError if the trigger has no code.
    """
    match = _TRIGGER.match(text)
    if not match or len(match[1] or "") > _MAX_DIGITS:
        raise PlaybookError("Bad Trigger", "a trigger is written `T1:CND text`, with BGN, CND or EVT", line)
    number = int(match[1]) if match[1] else position
    code = match[2]
    return Trigger(number, f"T{number}", code, match[3].strip(), line)  # type: ignore[arg-type]


def split_lines(text: str, *, numbered: bool = False) -> list[tuple[str, int]]:
    """Split a text without bullets at each line that begins a step or trigger, or only at those with a number.

    Each part has the number of its first line within the text, from 0. Other lines continue the part before them.
    """
    begins = _NUMBERED_LINE if numbered else _CODED_LINE
    parts: list[tuple[str, int]] = []
    for number, line in enumerate(text.split("\n")):
        bare = line.strip()
        if parts and bare and not begins.match(bare):
            parts[-1] = (f"{parts[-1][0]}\n{bare}", parts[-1][1])
        elif bare:
            parts.append((bare, number))
    return parts


def note_line(text: str, line: int, position: int) -> Remark:
    match = _NOTE.match(text)
    return Remark(match[1], match[2].strip(), line) if match else Remark(f"N{position}", text.strip(), line)


_BRANCHES = ("CND", "LOP", "ELS")


def lines_after(book: Playbook, at: StepLine | None) -> tuple[StepLine, ...]:
    """Return the lines that may follow ``at``, in file order. Only the first line may follow the start."""
    if at is None:
        return book.steps[:1]
    order = book.order
    places = {order.index[number] for number in _next_numbers(order, at) if number in order.index}
    return tuple(book.steps[index] for index in sorted(places))


def _next_numbers(order: LineOrder, at: StepLine) -> Iterator[Number]:
    yield at.number
    behind = order.index[at.number] + 1
    if behind < len(order.steps):
        yield order.steps[behind].number
    inside = order.first_inside(at.number)
    if inside is not None:
        yield inside
    if at.code in _BRANCHES or inside is None:
        yield from _after_block(order, at)
    target = target_of(at)
    if target:
        yield target
    yield from filter(order.is_loop, _ancestors(at.number))


def _ancestors(number: Number) -> list[Number]:
    """Return the numbers of the enclosing lines, innermost first."""
    return [number[:length] for length in range(len(number) - 1, 0, -1)]


def _after_block(order: LineOrder, at: StepLine) -> Iterator[Number]:
    """Yield the line after the current block.

    After a CND this is the next line of the same block. After the last line of a block, it is the line that follows the
    innermost ancestor that has one.
    """
    own = order.next_beside(at.number)
    if own is not None:
        if at.code in _BRANCHES:
            yield own
        return
    for number in _ancestors(at.number):
        following = order.next_beside(number)
        if following is not None:
            yield following
            return
