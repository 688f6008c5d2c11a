"""The effects of a tool call, declared once for each tool on its class in ``tools.py``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Behavior(Struct, frozen=True):
    """The effects of a call, whoever makes it.

    Attributes:
        reads_files: It shows content of the workspace.
        changes_files: It may change the workspace. A snapshot follows it, and resuming restores the files before it.
        repeatable: It has the same effect whatever the files contain, so resuming does not restore them first.
        while_closing: It is allowed in a frame that is closed, because it stores something or ends the frame.
        frame: Whether it starts or ends a frame.
        bounded: The field whose text may be at most as large as one result that the model sees.
        hidden: Fields that are offered only by strategies that request them.
        blank: Required fields that an offer may hide. They are then empty.
    """

    reads_files: bool = False
    changes_files: bool = False
    repeatable: bool = False
    while_closing: bool = False
    frame: Literal["", "starts", "ends"] = ""
    bounded: str = ""
    hidden: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()
