"""Showing the beginning of a long text instead of the whole, with a mark that says how to get the rest."""

from __future__ import annotations


def shortened(text: str, chars: int, mark: str) -> str:
    """The first ``chars`` characters of ``text`` and the mark; the text itself where that is no shorter."""
    short = text[:chars] + mark
    return short if len(short) < len(text) else text
