"""Asks the person at the terminal whether a call that may have been made is made again."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from stackmem.run.repeats import MayRepeat

from .solving import readable


def asking(play: Callable[[], None], wanted: dict[str, str | None], *, asks: bool) -> None:
    """Play; and again with ``yes``, where that would repeat a call and the person says so.

    Raises:
        MayRepeat: She does not, or nobody is there.

    """
    try:
        play()
    except MayRepeat as error:
        if not asks or not sys.stdin.isatty():
            raise
        if not typer.confirm(f"{readable(str(error))}. Make it again?", err=True):
            raise
        wanted["yes"] = "true"
        play()
