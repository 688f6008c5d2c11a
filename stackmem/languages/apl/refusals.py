"""The linter's findings, and the halt that each error would cause in a run."""

from __future__ import annotations

from msgspec import Struct

from stackmem.languages.frame.yaml_tree import Place

from .halts import Halt, constant_changed, invalid_template
from .tree import Fault, Step


class At(Struct, frozen=True):
    """The location of the steps that are being checked."""

    module: str  # path of the program that ``module_path`` refers to
    phase: str = ""
    trail: tuple[str, ...] = ()
    validates: bool = True  # whether the inputs are checked before any phase, as in a program


class Refusals:
    """Collects findings and halts."""

    def __init__(self, source: str, at: At) -> None:
        # the linter's findings in the order they were found
        self.errors: list[Fault] = []
        self.warnings: list[Fault] = []
        self.halts: list[Halt] = []  # the halt of each error, except those that a ``try`` would catch
        self._path = source
        self._at = at
        self._tries = 0

    def _error(self, step: Step, title: str, message: str, halt: Halt) -> None:
        self._halts_at(step.head.name, Fault(step.head.position, title, message), halt)

    def _refuse(self, step: Step, title: str, halt: Halt) -> None:
        near = f" Nearest: {', '.join(halt.near)}." if halt.near else ""
        self._error(step, title, f"{halt.reason}{near} {halt.details}.", halt)

    def _halts_at(self, step: str, fault: Fault, halt: Halt) -> None:
        self.add(fault, halt.locate(self._at.phase, step, self._at.trail))

    def add(self, fault: Fault, halt: Halt, *, caught: bool = False) -> None:
        """Add an error. In a run it is a halt, unless a ``try`` catches it."""
        self.errors.append(fault)
        if not self._tries and not caught:
            self.halts.append(halt.at(self._path, fault.position))

    def _warn(self, step: Step, title: str, message: str) -> None:
        self.warnings.append(Fault(step.head.position, title, message))

    def _invalid_template(self, text: str, reason: str, position: Place, step: str) -> None:
        self._halts_at(
            step, Fault(position, "Invalid Template", f"`{text[:80]}`: {reason}"), invalid_template(text, reason)
        )

    def _constant(self, name: str, position: Place, step: str) -> None:
        self._halts_at(step, Fault(position, "Constant Changed", f"`{name}` is a constant."), constant_changed(name))
