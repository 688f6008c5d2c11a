"""Prompt text with ``{{slots}}``; ``run/plan.py`` reads it, ``RunStarted`` records what was made of it.

A file serves several strategies by its traits: a line that begins with ``{{+trait}}`` stands only where the strategy
has that trait, one with ``{{-trait}}`` only where it has not; with several such marks all must hold.
"""

from __future__ import annotations

import re
from importlib import resources

_MARK = re.compile(r"\{\{([+-])([a-z]+)\}\}")


def prompt_text(name: str) -> str:
    """A prompt, its slots not filled: ``NAME`` or ``NAME+TRAIT+TRAIT`` of this package, ``PACKAGE:FILE`` of another."""
    package, colon, file = name.partition(":")
    if colon:
        return resources.files(package).joinpath(file).read_text("utf-8").strip()
    stem, *traits = name.split("+")
    return with_traits(resources.files(__name__).joinpath(f"{stem}.md").read_text("utf-8"), traits).strip()


def with_traits(text: str, traits: list[str]) -> str:
    """``text`` without the lines whose marks do not hold, and without the marks."""
    lines = []
    for line in text.splitlines(keepends=True):
        holds, rest = True, line
        while (mark := _MARK.match(rest)) is not None:
            holds = holds and (mark[2] in traits) == (mark[1] == "+")
            rest = rest[mark.end() :]
        if holds:
            lines.append(rest)
    return "".join(lines)
