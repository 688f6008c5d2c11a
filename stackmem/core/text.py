"""Cutting and comparing text, always with a visible mark."""

from __future__ import annotations


def mark_cut(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters; a cut shows as a trailing mark."""
    mark = " […]"
    return text if len(text) <= most else text[: max(0, most - len(mark))] + mark[:most]


def clip_chars(text: str, most: int) -> str:
    """Head and tail of ``text`` in at most ``most`` characters, and between them how much was left out."""
    if len(text) <= most:
        return text
    mark = f"\n[... {len(text) - most:,} and a few of {len(text):,} characters left out ...]\n"
    room = max(0, most - len(mark))
    head = room - room // 3
    return (text[:head] + mark + text[len(text) - (room - head) :])[:most]


def tail(text: str, lines: int, chars: int) -> str:
    """The last ``lines`` lines of ``text``, of those the last ``chars`` characters."""
    return "\n".join(text.splitlines()[-lines:])[-chars:]


def edit_distance(one: str, other: str, most: int) -> int:
    """Levenshtein's distance, or ``most + 1`` as soon as it is sure to be more than ``most``."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for above, left in enumerate(one, 1):
        before, row[0] = row[0], above
        for index, right in enumerate(other, 1):
            before, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, before + (left != right))
        if min(row) > most:
            return most + 1
    return row[-1]
