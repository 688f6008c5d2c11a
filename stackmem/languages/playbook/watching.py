"""Where a debugger looks in: it is told of every line before it is executed, and of every frame.

A watcher may block as long as it likes, and may raise ``Halted`` to stop the program. It changes nothing else: what
a program does is the same with one and without.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct


class Place(Struct, frozen=True):
    """One frame as a debugger shows it; ``line`` is of the file, from 1."""

    name: str
    line: int
    variables: dict[str, Any]


class Moment(Struct, frozen=True):
    """What is about to happen.

    Attributes:
        kind: A frame began, a line is about to be executed, or a frame ended.
        stack: The frames of the agent that runs, innermost first.
        text: The line, or what the frame came to.

    """

    kind: Literal["entered", "line", "left"]
    agent: str
    path: str
    stack: tuple[Place, ...]
    text: str = ""


class Watcher(Protocol):
    def __call__(self, moment: Moment) -> None: ...


WATCHERS: list[Watcher] = []
"""Those of this process; a program asks for them only where it was started with the option ``debug``."""
