"""What a model's reply says, item by item."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .line_order import Number
from .literals import CallTo


class Said(Struct, frozen=True):
    """``recap``, ``plan``, a ``what?`` line, or text that belongs to nothing (``prose``)."""

    kind: Literal["recap", "plan", "what", "prose"]
    text: str


class SetVar(Struct, frozen=True):
    name: str
    value: Any


class AtStep(Struct, frozen=True):
    """A line of a playbook is executed; ``label`` is as it was written, ``code`` may be empty."""

    playbook: str
    number: Number
    label: str
    code: str


class Fired(Struct, frozen=True):
    """A trigger; ``queues`` says that calls stand behind it on its line."""

    playbook: str
    number: int
    code: str
    queues: bool = False


class Queued(Struct, frozen=True):
    """A call, and the variable that its result is bound to; ``fired`` where it stands behind a trigger."""

    call: CallTo
    into: str = ""
    fired: bool = False


class Returned(Struct, frozen=True):
    value: Any


class Yielded(Struct, frozen=True):
    to: Literal["user", "call", "return", "exit"]


class Unreadable(Struct, frozen=True):
    """From here on nothing of the reply is performed."""

    why: str
    text: str


Item = Said | SetVar | AtStep | Fired | Queued | Returned | Yielded | Unreadable


class Reply(Struct, frozen=True):
    """A reply as it was read.

    Attributes:
        items: Up to the first yield, Return or fault.
        ignored: What stands behind that, without what the contract allows there.

    """

    items: tuple[Item, ...]
    ignored: str = ""
