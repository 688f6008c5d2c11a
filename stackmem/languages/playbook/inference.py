"""Finds the path from the current line of a playbook to a line that a reply names, if the reply leaves out lines.

Rule 1: a condition, a jump, a TNK, and a ``YLD call`` with an empty queue may be skipped, because they have no effect.
Rule 2: a QUE may be skipped if each of its calls appears elsewhere in the reply, or was made by a trigger at the
current line, with equal arguments as far as the line spells them out.
Rule 3: EXE, CHK, RET and every other YLD are never skipped, and a loop is not restarted before its last line, so no
effect is lost.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from .calls import bind_arguments, find_target
from .literals import CallTo, LiteralFault, LiteralReader
from .state import AgentState, PlaybookState, resolve, same_value
from .tree import Playbook, StepLine, is_conditional_queue, lines_after, target_of

_CALL = re.compile(r"(?:\$(\w+)(?::\w+)?\s*=\s*)?(?<![\w.$])([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\s*\(")
_MAX_LINES = 200
"""Maximum number of lines searched; beyond that, no path is reported."""
_MAX_CHARS = 2_000
"""Maximum number of characters of a QUE that are searched for calls."""
_INTO = re.compile(r"\s*\$(\w+)(?::\w+)?\s*=")
_WORD = re.compile(r"(?<![\w.$])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")


class GivenCall(Struct, eq=False):
    """A call that does not appear at a line that asks for it."""

    call: CallTo
    into: str = ""  # the variable it binds or will bind
    has_returned: bool = False  # whether the call has returned, with this ``value``
    value: Any = None


class WantedCall(Struct, frozen=True):
    """A call that a QUE line asks for. ``call`` is None if its arguments are prose."""

    name: str
    into: str = ""
    call: CallTo | None = None


class PassedLine(Struct, frozen=True):
    """A skipped line, and the calls that did what it asks for, each with the variable it binds."""

    line: StepLine
    calls: tuple[tuple[GivenCall, str], ...] = ()


def wanted_calls(world: PlaybookState, agent: AgentState, line: StepLine) -> list[WantedCall]:
    """Return the calls that a QUE line asks for. Names that cannot be called count as ordinary words."""

    def is_callable(name: str) -> bool:
        return find_target(world.program, agent.agent.name, name) is not None

    text = line.text[:_MAX_CHARS]
    calls = list(_written_calls(text, is_callable))
    if calls:
        return calls
    into = _INTO.match(text)
    names = dict.fromkeys(word for word in _WORD.findall(text) if is_callable(word))
    return [WantedCall(name, into[1] if into and len(names) == 1 else "") for name in names]


def _written_calls(text: str, is_callable: Callable[[str], bool]) -> Iterator[WantedCall]:
    done = 0
    for match in _CALL.finditer(text):
        if match.start(2) < done or not is_callable(match[2]):
            continue
        reader = LiteralReader(text, match.start(2))
        try:
            call: CallTo | None = reader.call()
            done = reader.at
        except LiteralFault:
            call = None
        yield WantedCall(match[2], match[1] or "", call)


class PathFinder(Struct, frozen=True):
    """Searches the path for one step."""

    world: PlaybookState
    agent: AgentState
    book: Playbook
    extra_calls: list[GivenCall]  # the calls that do not appear at a line that asks for them
    waiting: bool  # whether calls are queued, which a ``YLD call`` would make

    def path(self, at: StepLine | None, target: StepLine) -> list[PassedLine] | None:
        """Return the skipped lines in order; None if no legal path exists that loses no effect."""
        before: dict[StepLine, StepLine | None] = dict.fromkeys(self._following(at))
        todo = deque(before)
        while todo and len(before) <= _MAX_LINES:
            line = todo.popleft()
            if line == target:
                return self._walk(before, line)
            if not self._silent(line):
                continue
            for each in self._following(line):
                if each not in before:
                    before[each] = line
                    todo.append(each)
        return None

    def _following(self, at: StepLine | None) -> list[StepLine]:
        """Return the lines that can follow ``at``. The head of an enclosing loop follows only the loop's last line."""
        lines = [line for line in lines_after(self.book, at) if line != at]
        if at is None:
            return lines
        if at.code == "JMP":
            return [line for line in lines if line.number == target_of(at)]
        return [line for line in lines if line.number != at.number[: len(line.number)] or self._ends(at, line)]

    def _ends(self, at: StepLine, loop: StepLine) -> bool:
        """Return whether a line is the last one of an enclosing loop."""
        inner = range(len(loop.number) + 1, len(at.number) + 1)
        return all(self.book.order.next_beside(at.number[:length]) is None for length in inner)

    def _silent(self, line: StepLine) -> bool:
        match line.code:
            case "CND" | "LOP" | "ELS" | "JMP" | "TNK":
                return True
            case "YLD":
                return not self.waiting and line.text.lower().removeprefix("for ").startswith("call")
            case "QUE":
                return is_conditional_queue(line) or self._claims(line, self.extra_calls) is not None
            case _:
                return False

    def _walk(self, before: dict[StepLine, StepLine | None], target: StepLine) -> list[PassedLine] | None:
        """Return the lines up to the target if each call that their QUE lines ask for has its own given call."""
        lines: list[StepLine] = []
        line = before[target]
        while line is not None:
            lines.append(line)
            line = before[line]
        calls, passed = list(self.extra_calls), list[PassedLine]()
        for each in reversed(lines):
            claims = self._claims(each, calls) if each.code == "QUE" else []
            if claims is None and is_conditional_queue(each):
                claims = []  # its condition was false
            if claims is None:
                return None
            calls = [call for call in calls if all(call is not claim for claim, _ in claims)]
            passed.append(PassedLine(each, tuple(claims)))
        return passed

    def _claims(self, line: StepLine, calls: list[GivenCall]) -> list[tuple[GivenCall, str]] | None:
        """Match each call that a QUE asks for with a given call and the variable to bind; None if one is missing."""
        wants, unused, claims = wanted_calls(self.world, self.agent, line), list(calls), []
        for want in wants:
            claim = next((call for call in unused if self._does(call, want)), None)
            if claim is None:
                return None
            unused.remove(claim)
            claims.append((claim, want.into))
        return claims if wants else None

    def _does(self, call: GivenCall, want: WantedCall) -> bool:
        """Return whether a call does what a line asks for."""
        names = [find_target(self.world.program, self.agent.agent.name, each) for each in (call.call.name, want.name)]
        if names[0] is None or names[0] != names[1] or (call.into and want.into and call.into != want.into):
            return False
        if want.call is None:
            return True
        bound = [bind_arguments(names[0], each) for each in (call.call, want.call)]
        first, second = (resolve(each, self.agent.variables) if isinstance(each, dict) else None for each in bound)
        return first is not None and second is not None and same_value(first, second)
