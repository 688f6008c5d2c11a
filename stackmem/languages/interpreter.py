"""The generator of a program, run from answer to answer, and back to its last question after a halt."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from stackmem.core.program_facts import Note
from stackmem.errors import ProgramError, UsageError

from .chunks import chunk_name
from .operations import Answer, EnterFrame, Halted, KeepChunk, LeaveFrame, Operation, Program, Value
from .questions import ReadSpending


class Ended(Struct, frozen=True):
    """The interpreter is through: with a value, or with a fault."""

    value: Value = None
    fault: Halted | None = None


class Interpreter:
    """One program under way.

    Attributes:
        asked: What it waits for, or how it ended.
        frames: Those that it has open, outermost first.
        called: Name of a chunk to what the program called it.

    """

    def __init__(self, make: Callable[[], Program], tell: Callable[[object], object], *, keep: bool) -> None:
        """Run the program to its first operation.

        Args:
            make: The program from its beginning.
            tell: Told of every operation, and of every answer from outside.
            keep: Whether answers are kept, so that a halted program can be taken up again.

        """
        self._make, self._tell, self._keep = make, tell, keep
        self._begin()

    def _begin(self) -> None:
        self._kept: list[tuple[bool, Answer]] = []
        self.frames: list[EnterFrame] = []
        self.called: dict[str, str] = {}
        self.asked: Operation | ReadSpending | Note | Ended = Ended()
        self._under_way = False
        self._program = self._make()
        self.go_on()

    def listen(self, tell: Callable[[object], object]) -> None:
        """Tell another one from here on, as the program goes on live; it is told again what is being waited for.

        What was kept is let go: only a recorded halt is taken back, and no more of those come.
        """
        self._tell = tell
        self._keep, self._kept = False, []
        if not isinstance(self.asked, ReadSpending | Note | Ended):
            tell(self.asked)

    def go_on(self) -> None:
        """Run on from a note, to the next operation or note, or to the end."""
        self._step(lambda: self._program.send(None))

    def answer(self, answer: Answer, *, outside: bool = False) -> None:
        """Answer the operation that the program waits for."""
        asked = self.asked
        self._under_way = True
        if self._keep:
            self._kept.append((outside, answer))
        if outside:
            self._tell(answer)
        match asked:
            case EnterFrame():
                self.frames.append(asked)
            case LeaveFrame():
                self.frames = self.frames[:-1]
            case KeepChunk():
                self.called.setdefault(chunk_name(asked.name), asked.name)
            case _:
                pass
        self._step(lambda: self._program.send(answer))

    def refuse(self, error: Halted) -> None:
        """Raise ``error`` where the program waits."""
        if self._keep:
            self._kept.append((False, error))
        self._step(lambda: self._program.throw(error))

    def back_to_question(self) -> None:
        """After a fault: stand again where the program last asked something of the world."""
        last = max((index for index, (outside, _) in enumerate(self._kept) if outside), default=-1)
        fed, tell = self._kept[: max(0, last)], self._tell
        self._tell = id
        self._begin()
        for outside, answer in fed:
            self._skip_notes()
            if isinstance(answer, Halted):
                self.refuse(answer)
            else:
                self.answer(answer, outside=outside)
        if last >= 0:
            self._skip_notes()
        self._tell = tell

    def _skip_notes(self) -> None:
        while self._at_note():
            self.go_on()

    def _at_note(self) -> bool:
        return isinstance(self.asked, Note)

    def _step(self, run: Callable[[], Operation | ReadSpending | Note]) -> None:
        try:
            self.asked = run()
            if not isinstance(self.asked, ReadSpending | Note):
                self._tell(self.asked)
        except StopIteration as stop:
            self.asked = Ended(stop.value)
        except Halted as halted:
            self.asked = Ended(fault=halted)
        except RecursionError:
            told = "the program nests deeper than its interpreter can follow; nest less, or loop instead"
            self.asked = Ended(fault=Halted("Limit Reached", told))
        except ProgramError as error:
            self.asked = Ended(fault=Halted("Program Error", str(error)))
        except UsageError as error:
            if not self._under_way:
                raise
            self.asked = Ended(fault=Halted("Invalid Input", str(error)))
