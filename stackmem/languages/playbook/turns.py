"""Checks one reply of the model against the program, item by item.

Rule 1: the pointer moves only to allowed lines; if a reply leaves lines out, ``inference`` finds the path.
Rule 2: nothing after the first fault is performed, and queued calls are dropped. If the fault is a Step that cannot
follow, the calls before it are kept, because the reply is good up to there.
Rule 3: arguments are resolved at their line, except for variables that an earlier queued call will bind.
"""

from __future__ import annotations

from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.program_facts import StepEntered
from stackmem.languages.frame.values import variable_set
from stackmem.languages.operations import Routine

from .calls import Target, artifact_name, bind_arguments, fault_of, find_target
from .inference import GivenCall, PathFinder, wanted_calls
from .literals import CallTo, Variable, variables_in
from .reply_items import (
    AtStep,
    Fired,
    Item,
    Queued,
    ReplyItems,
    ReturnItem,
    SetVar,
    TextItem,
    Unreadable,
    Yielded,
)
from .session_log import brief, call_text, item_text
from .state import PlaybookExecution, PlaybookFrame, excess, resolve, same_value
from .tree import Number, Playbook, StepLine, Trigger, lines_after

_MAX_LISTED = 12


class Turn(Struct):
    """The outcome of a reply."""

    queue: list[Queued] = []  # calls to make at the end of the turn
    end: ReturnItem | Yielded | None = None  # its yield or Return; None if it has neither, or a fault
    fault: str = ""  # what is wrong with the reply; ``text`` is the place
    text: str = ""
    keeps: bool = False  # whether the items before the fault stay in force and their calls are made
    notes: list[str] = []  # further lines for the model
    acted: bool = False  # whether the reply had any effect


def take(here: PlaybookExecution, frame: PlaybookFrame, reply: ReplyItems) -> Routine:
    """Perform a reply up to its end or its first fault. Returns the ``Turn``."""
    reading = _ReplyCheck(here, frame, reply)
    turn = reading.turn
    for item in reply.items:
        here.agent.log.add("HIGH" if isinstance(item, TextItem) and item.kind == "recap" else "LOW", item_text(item))
        yield from reading.take_item(item)
        if turn.fault:
            turn.text = turn.text or item_text(item)
            if not turn.keeps:
                turn.queue.clear()
            turn.end = None
            return turn
    if reply.ignored:
        turn.notes.append(f"the text after the first yield or Return was ignored: {brief(reply.ignored, 200)!r}")
    if turn.end is None:
        turn.queue.clear()
        turn.fault = (
            "the reply ended without a yld line, so its queued calls were not made; "
            "end with `yld call`, `yld user`, `yld exit`, or Return and `yld return`"
        )
    elif isinstance(turn.end, Yielded) and turn.end.to == "call" and not (turn.queue or turn.acted):
        turn.fault = "the reply does nothing; execute the next line"
    return turn


class _ReplyCheck:
    def __init__(self, here: PlaybookExecution, frame: PlaybookFrame, reply: ReplyItems) -> None:
        self._here, self._frame = here, frame
        self._agent = here.agent
        self._stepped = False
        self._dropping = False
        self._calls = {item.call.name for item in reply.items if isinstance(item, Queued) and not item.fired}
        self._behind_triggers = {id(item) for item in reply.items if isinstance(item, Queued) and item.fired}
        self._spare = self._spare_calls(reply)
        self._places: dict[int, int] = {}  # queue positions of spare calls
        self.turn = Turn([], notes=[])

    def _spare_calls(self, reply: ReplyItems) -> dict[int, GivenCall]:
        """Return the calls that do not appear at a line that asks for them, by the identity of their item."""
        spare: dict[int, GivenCall] = {}
        read: dict[Number, list[str]] = {}
        due: list[str] = []
        for item in reply.items:
            if isinstance(item, AtStep):
                line = self._frame.book.step(item.number)
                asks = line is not None and line.code == "QUE" and item.code != "TNK"
                if line and asks and item.number not in read:
                    calls = wanted_calls(self._here.world, self._agent, line)
                    read[item.number] = [each.name for each in calls]
                due = list(read.get(item.number, ())) if asks else []
            elif isinstance(item, Queued) and item.call.name in due:
                due.remove(item.call.name)
            elif isinstance(item, Queued):
                spare[id(item)] = GivenCall(item.call, item.into)
        return spare

    def take_item(self, item: Item) -> Routine:
        if not isinstance(item, Queued):
            self._dropping = False
        match item:
            case TextItem():
                self._note_recap(item)
            case SetVar():
                yield from self._set(item)
            case AtStep():
                yield from self._step(item)
            case Fired():
                self._fire(item)
            case Queued():
                self._queue(item)
            case ReturnItem():
                self._return(item)
            case Yielded():
                self.turn.end = item
            case Unreadable():
                self.turn.fault, self.turn.text = f"this cannot be read: {item.reason}", item.text
            case _:
                assert_never(item)  # pragma: no cover - the type checker ensures that all cases are handled

    def _note_recap(self, item: TextItem) -> None:
        if item.kind == "recap" and item.text:
            self._frame.recap = item.text

    @property
    def _pending(self) -> list[str]:
        return [queued.into for queued in self.turn.queue if queued.into]

    def _undefined_variable(self, value: Any, pending: list[str]) -> str:
        names = [name for name in variables_in(value) if name not in self._agent.variables and name not in pending]
        return f"${names[0]} has no value; set it first, or give a literal" if names else ""

    def _set(self, item: SetVar) -> Routine:
        self.turn.fault = self._undefined_variable(item.value, [])
        if self.turn.fault:
            return
        value = resolve(item.value, self._agent.variables)
        if isinstance(item.value, list | dict) and (reason := excess(value)):
            self.turn.fault = reason
            return
        returned = self._frame.returned
        if not self._stepped and item.name in returned and not same_value(returned[item.name], value):
            self.turn.fault = f"${item.name} was just returned by a call and keeps that value; use it as it is"
            return
        self._agent.set(item.name, value)
        self.turn.acted = True
        yield variable_set(item.name, value)

    def _step(self, item: AtStep) -> Routine:
        frame, book = self._frame, self._frame.book
        line = book.step(item.number) if item.playbook.lower() == book.name.lower() else None
        if line is None:
            message = "is not a line of it" if item.playbook.lower() == book.name.lower() else "is another playbook"
            self.turn.keeps = True
            self.turn.fault = f"{book.name} runs, and {item.playbook}:{item.label} {message}; {expected_lines(frame)}"
            return
        may = line in lines_after(book, frame.at)
        if item.code == "TNK" and not (may and line.code == "TNK"):
            self.turn.acted = True
            return
        if not may and not (yield from self._infer(line)):
            self.turn.fault = f"{book.name}:{line.label} cannot follow here; {expected_lines(frame)}"
            self.turn.keeps = True
            return
        if item.code and item.code != line.code:
            self.turn.notes.append(f"{book.name}:{line.label} is a {line.code}, not a {item.code}")
        self._stepped = self.turn.acted = True
        self._here.notify_debugger("line", f"{line.label}:{line.code} {line.text}", line.line)
        if frame.at != line:
            frame.extra_calls = []
        frame.at = line
        yield StepEntered(f"{book.name}:{line.label}", brief(f"{line.code} {line.text}", 200))

    def _infer(self, target: StepLine) -> Routine:
        """Advance to a line over the lines that the reply leaves out. Returns whether that is possible."""
        frame, book = self._frame, self._frame.book
        calls = [*frame.extra_calls, *(call for item, call in self._spare.items() if self._counts(item))]
        finder = PathFinder(self._here.world, self._agent, book, calls, bool(self.turn.queue))
        path = finder.path(frame.at, target)
        if path is None:
            return False
        for passed in path:
            line = passed.line
            self._here.notify_debugger("line", f"(inferred) {line.label}:{line.code} {line.text}", line.line)
            yield StepEntered(f"{book.name}:{line.label}", brief(f"(inferred) {line.code} {line.text}", 200))
            for call, into in passed.calls:
                yield from self._claim(call, into)
        names = ", ".join(f"{book.name}:{passed.line.label}:{passed.line.code}" for passed in path[:_MAX_LISTED])
        self.turn.notes.append(
            f"inferred: {names} came before {book.name}:{target.label}; name each line that you execute"
        )
        return True

    def _counts(self, item: int) -> bool:
        """Return whether a spare call is or will be made. A call after a trigger counts only once it is queued."""
        return item in self._places or item not in self._behind_triggers

    def _claim(self, call: GivenCall, into: str) -> Routine:
        """Use a call for the skipped line that asks for it, and bind its result as that line says."""
        call.into = into or call.into
        if call.has_returned:
            self._frame.extra_calls = [each for each in self._frame.extra_calls if each is not call]
            if into:
                self._agent.set(into, call.value)
                yield variable_set(into, call.value)
            return
        item = next(item for item, each in self._spare.items() if each is call)
        if item in self._places:
            position = self._places[item]
            self.turn.queue[position] = replace(self.turn.queue[position], into=call.into, spare=False)
            del self._spare[item]

    def _fire(self, item: Fired) -> None:
        trigger_entry = self._trigger(item)
        if trigger_entry is None:
            labels = ", ".join(
                f"{book.name}:{each.label}:{each.code}"
                for book in self._agent.agent.playbooks
                for each in book.triggers
            )
            self.turn.fault = f"unknown trigger {item.playbook}:T{item.number}; known: {labels or 'none'}"
            return
        book, trigger = trigger_entry
        if (book.name, trigger.number) in self._agent.fired_triggers:
            self._dropping = True
            self.turn.notes.append(
                f"{book.name}:{trigger.label} has fired already, and its call was not queued; "
                "it is ready again when a variable changes or a message arrives"
            )
            return
        self._agent.fired_triggers.add((book.name, trigger.number))
        self.turn.acted = True
        if not item.queues and book.name not in self._calls:
            own = {param.name: Variable(param.name) for param in book.params if param.name in self._agent.variables}
            if own:
                self.turn.notes.append(f"inferred: {book.name} was called with {', '.join(f'${name}' for name in own)}")
            self._queue(Queued(CallTo(book.name, (), tuple(own.items())), fired=True, spare=True))

    def _trigger(self, item: Fired) -> tuple[Playbook, Trigger] | None:
        book = self._agent.agent.find(item.playbook)
        for each in book.triggers if book else ():
            if book and each.number == item.number:
                return book, each
        return None

    def _queue(self, item: Queued) -> None:
        if self._dropping and item.fired:
            return
        pending = self._pending
        self.turn.fault = fault_of(self._here.world, self._agent, item.call, pending)
        if self.turn.fault:
            self.turn.text = call_text(item.call)
            return
        call = resolve(self._name_artifact(item.call, pending), self._agent.variables, pending)
        self.turn.fault = excess(call)
        spare = self._spare.get(id(item))
        if spare is not None:
            self._places[id(item)] = len(self.turn.queue)
        into = spare.into if spare else item.into
        self.turn.queue.append(Queued(call, into, item.fired, spare=spare is not None or item.spare))

    def _name_artifact(self, call: CallTo, pending: list[str]) -> CallTo:
        """Resolve ``$x`` in an artifact's name, and return the call."""
        target = find_target(self._here.world.program, self._agent.agent.name, call.name)
        arguments = bind_arguments(target, call) if target else ""
        if (
            not isinstance(target, Target)
            or target.book
            or isinstance(arguments, str)
            or "artifact_name" not in arguments
        ):
            return call
        name = arguments["artifact_name"]
        if isinstance(name, Variable) and name.name in pending:
            return call
        artifact = artifact_name(self._here.world, self._agent, name, loading=call.name == "LoadArtifact")
        if call.values:
            return CallTo(call.name, (artifact, *call.values[1:]), call.keywords)
        return CallTo(call.name, (), tuple({**arguments, "artifact_name": artifact}.items()))

    def _return(self, item: ReturnItem) -> None:
        self.turn.fault = self._undefined_variable(item.value, self._pending)
        if not self.turn.fault:
            self.turn.end = item


def expected_lines(frame: PlaybookFrame) -> str:
    lines = lines_after(frame.book, frame.at)
    return f"expected: {', '.join(_line_name(frame, line) for line in lines[:12])}"


def _line_name(frame: PlaybookFrame, line: StepLine) -> str:
    return f"{frame.book.name}:{line.label}:{line.code}"
