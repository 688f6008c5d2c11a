"""Runs a program's generator from answer to answer, for ``languages.program``."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from stackmem.core.errors import Halted, ProgramError, UsageError
from stackmem.core.program_facts import Note

from .language import Happening
from .operations import (
    Answer,
    EnterFrame,
    KeepChunk,
    LeaveFrame,
    Operation,
    Program,
    ReadSpending,
    Value,
)
from .settle import chunk_name


class Ended(Struct, frozen=True):
    """The interpreter's end, with a value or a fault."""

    value: Value = None
    fault: Halted | None = None


class ProgramInterpreter:
    """Runs the generator from answer to answer, and back to its last question after a halt.

    ``operation`` is the operation or note that the generator waits for, or its end. ``frames`` are its open frames,
    outermost first. ``called`` maps chunk names to the names that the program used for them.
    """

    def __init__(self, make: Callable[[], Program], *, keep: bool) -> None:
        """Run the program to its first operation. See ``ProgramDecider``."""
        self._make, self._keep = make, keep
        self._listens = False
        self.happened: list[Happening] = []  # every operation and every outside answer, once ``listen`` was called
        self._begin()

    def _begin(self) -> None:
        self._kept_answers: list[tuple[bool, Answer]] = []
        self.frames: list[EnterFrame] = []
        self.called: dict[str, str] = {}
        self.operation: Operation | Note | Ended = Ended()
        self._under_way = False
        self._program = self._make()
        self.go_on()

    def listen(self) -> None:
        """Record happenings from now on, starting with the pending operation, and discard the kept answers."""
        self._listens = True
        self._keep, self._kept_answers = False, []
        self._note_operation()

    def _note_operation(self) -> None:
        if self._listens and not isinstance(self.operation, ReadSpending | Note | Ended):
            self.happened.append(self.operation)

    def go_on(self) -> None:
        """Continue from a note to the next operation or note, or to the end."""
        self._step(lambda: self._program.send(None))

    def answer(self, answer: Answer, *, outside: bool = False) -> None:
        """Answer the pending operation."""
        operation = self.operation
        self._under_way = True
        if self._keep:
            self._kept_answers.append((outside, answer))
        if outside and self._listens:
            self.happened.append(answer)
        match operation:
            case EnterFrame():
                self.frames.append(operation)
            case LeaveFrame():
                self.frames = self.frames[:-1]
            case KeepChunk():
                self.called.setdefault(chunk_name(operation.name), operation.name)
            case _:
                pass
        self._step(lambda: self._program.send(answer))

    def refuse(self, error: Halted) -> None:
        """Raise ``error`` at the point where the program waits."""
        if self._keep:
            self._kept_answers.append((False, error))
        self._step(lambda: self._program.throw(error))

    def back_to_question(self) -> None:
        """After a fault, rerun the program up to the last operation that the outside world answered."""
        last = max((index for index, (outside, _) in enumerate(self._kept_answers) if outside), default=-1)
        fed = self._kept_answers[: max(0, last)]
        self._begin()
        for outside, answer in fed:
            self._skip_notes()
            if isinstance(answer, Halted):
                self.refuse(answer)
            else:
                self.answer(answer, outside=outside)
        if last >= 0:
            self._skip_notes()

    def _skip_notes(self) -> None:
        while isinstance(self.operation, Note):
            self.go_on()

    def _step(self, run: Callable[[], Operation | Note]) -> None:
        try:
            self.operation = run()
            self._note_operation()
        except StopIteration as stop:
            self.operation = Ended(stop.value)
        except Halted as halted:
            self.operation = Ended(fault=halted)
        except RecursionError:
            report = "the program nests deeper than its interpreter can follow; nest less, or loop instead"
            self.operation = Ended(fault=Halted("Limit Reached", report))
        except ProgramError as error:
            self.operation = Ended(fault=Halted("Program Error", str(error)))
        except UsageError as error:
            if not self._under_way:
                raise
            self.operation = Ended(fault=Halted("Invalid Input", str(error)))
