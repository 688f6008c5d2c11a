"""Finds an action or a sub-agent by the name that a model gives it."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def found(name: str, among: Sequence[T], kind: str) -> T | str:
    """The one of that name in any case, else the only one that contains it, else what is wrong."""
    wanted = name.strip().lower()
    exact = [each for each in among if each.name.lower() == wanted]
    if exact:
        return exact[0]
    near = [each for each in among if wanted and wanted in each.name.lower()]
    if len(near) == 1:
        return near[0]
    if near:
        return f"{name[:80]!r} could be {', '.join(each.name for each in near)}; give the whole name"
    known = ", ".join(each.name for each in among) or "none"
    return f"there is no {kind} {name[:80]!r}; known: {known}"


def near(name: str, known: Collection[str]) -> str:
    """The known name that was meant, as it seems; empty where none is like it."""
    found = difflib.get_close_matches(name[:100].lower(), [each.lower() for each in known], n=1, cutoff=0.75)
    return next((each for each in known if each.lower() == found[0]), "") if found else ""
