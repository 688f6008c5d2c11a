"""Finds the lines of a file at which a debugger can stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.languages.language import language_of
from stackmem.languages.running.opening import open_language
from stackmem.languages.running.prepare import read_program


def why_never(path: Path) -> Callable[[int], str]:
    """Return a function from a line to the reason a debugger cannot stop there; empty if it can."""
    name = language_of(path.name, linting=True, explicit=True)
    if name is None:
        return lambda _: f"{path.name} is not part of a program in a known language"
    try:
        stop_lines = open_language(name).stop_lines
        lines = sorted(set(stop_lines(str(path), read_program(path)) if stop_lines else ()))
    except UsageError as error:
        fault = str(error)
        return lambda _: fault

    def reason_at(line: int) -> str:
        if line in lines:
            return ""
        following = next((each for each in lines if each > line), None)
        hint = f"; the next one is {following}" if following else ""
        return f"line {line} has no reachable step{hint}"

    return reason_at
