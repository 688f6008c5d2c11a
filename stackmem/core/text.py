"""Text: cut with a visible mark, filled into slots, compared, and made safe to store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

DEEPEST = 64
"""A model's values that are nested deeper are called malformed: every later encoder recurses."""
_SLOT = re.compile(r"\{\{\s*([a-z_0-9]+)\s*\}\}")


def mark_cut(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters; a cut shows as a trailing mark."""
    mark = " […]"
    return text if len(text) <= most else text[: max(0, most - len(mark))] + mark[:most]


def clip_chars(text: str, most: int) -> str:
    """Head and tail of ``text`` in at most ``most`` characters, and between them how much was left out."""
    if len(text) <= most:
        return text
    room = max(0, most - len(_left_out(len(text), len(text))))
    head = room - room // 3
    return (text[:head] + _left_out(len(text) - room, len(text)) + text[len(text) - (room - head) :])[:most]


def clip_bytes(text: str, most: int) -> str:
    """As ``clip_chars``, in at most ``most`` bytes of UTF-8; no character is cut in two."""
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
    """The first ``chars`` characters of ``text`` and the mark; the text itself where that is no shorter."""
    short = text[:chars] + mark
    return short if len(short) < len(text) else text


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


def whole(text: str) -> str:
    """``text`` with split surrogate pairs joined and lone ones replaced, so that it can be written as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_value(value: Any, deepest: int = DEEPEST) -> Any:
    """A JSON value with every string of it ``whole``."""
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
    """``template`` with every ``{{slot}}`` replaced; strict, because a prompt with a hole in it is a silent fault."""
    return _SLOT.sub(lambda slot: values[slot.group(1)], template)
