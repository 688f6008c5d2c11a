"""Text helpers: cutting with a visible mark, filling slots, comparing, and making text safe to store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

DEEPEST = 64
"""Maximum nesting of values from a model. Deeper ones count as malformed, because every later encoder recurses."""
_SLOT = re.compile(r"\{\{\s*([a-z_0-9]+)\s*\}\}")


def mark_cut(text: str, most: int) -> str:
    """Cut ``text`` to at most ``most`` characters. A trailing mark shows the cut."""
    mark = " […]"
    return text if len(text) <= most else text[: max(0, most - len(mark))] + mark[:most]


def clip_chars(text: str, most: int) -> str:
    """Cut ``text`` in the middle to at most ``most`` characters, with a note about how much was left out."""
    if len(text) <= most:
        return text
    room = max(0, most - len(_left_out(len(text), len(text))))
    head = room - room // 3
    return (text[:head] + _left_out(len(text) - room, len(text)) + text[len(text) - (room - head) :])[:most]


def clip_bytes(text: str, most: int) -> str:
    """Do the same as ``clip_chars`` for ``most`` bytes of UTF-8. Characters are never split."""
    raw = text.encode(errors="replace")
    if len(raw) <= most:
        return text
    room = max(0, most - len(_left_out(len(text), len(text))))
    head = raw[: room - room // 3].decode(errors="ignore")
    end = raw[len(raw) - room // 3 :].decode(errors="ignore")
    mark = _left_out(len(text) - len(head) - len(end), len(text))
    return head + mark + end if room else mark[:most]


def _left_out(chars: int, total: int) -> str:
    return f"\n[... {chars:,} of {total:,} characters left out ...]\n"


def shorten_text(text: str, chars: int, mark: str) -> str:
    """Return the first ``chars`` characters and the mark, or the text itself if that is not longer."""
    short = text[:chars] + mark
    return short if len(short) < len(text) else text


def tail(text: str, lines: int, chars: int) -> str:
    """Return the last ``chars`` characters of the last ``lines`` lines."""
    return "\n".join(text.splitlines()[-lines:])[-chars:]


def edit_distance(text: str, other: str, most: int) -> int:
    """Return the Levenshtein distance, or ``most + 1`` as soon as it certainly exceeds ``most``."""
    if abs(len(text) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for number, left in enumerate(text, 1):
        before, row[0] = row[0], number
        for index, right in enumerate(other, 1):
            before, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, before + (left != right))
        if min(row) > most:
            return most + 1
    return row[-1]


def whole(text: str) -> str:
    """Join split surrogate pairs and replace lone surrogates, so that the text can be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_value(value: Any, deepest: int = DEEPEST) -> Any:
    """Apply ``whole`` to every string of a JSON value.

    Raise ValueError if the value is nested deeper than ``deepest``.
    """
    if deepest < 0:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): whole_value(item, deepest - 1) for name, item in value.items()}
    if isinstance(value, list):
        return [whole_value(item, deepest - 1) for item in value]
    return value


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every ``{{slot}}`` in ``template``. A missing value raises ``KeyError``: a prompt with a hole would go
    unnoticed.
    """
    return _SLOT.sub(lambda slot: values[slot.group(1)], template)


def quantity(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 run`` or ``2,000 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
