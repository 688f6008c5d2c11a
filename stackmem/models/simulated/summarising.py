"""A compaction request is answered by text: progress, then facts, newest used first, with bounded loss."""

from __future__ import annotations

import re

from msgspec import Struct

from stackmem.core.messages import Message, Text

from .knowledge import Knowledge
from .known_facts import dead_ends, newest, visible
from .lines import fact_line

LINES = 40
_REQUEST = re.compile(r"\s*COMPACTION REQUEST \(kind: ([a-z_]{1,40}); at most ([\d,]{1,12}) characters\)")
_HEADINGS = {"structured": "# State"}


class SummaryRequest(Struct, frozen=True):
    kind: str
    chars: int


def compaction_wanted(last: Message) -> SummaryRequest | None:
    """What the last message asks to be summarised, if it does."""
    for part in reversed(last.parts):
        found = _REQUEST.match(part.text) if isinstance(part, Text) else None
        if found:
            return SummaryRequest(found[1], int(found[2].replace(",", "")))
    return None


def summary(known: Knowledge, wanted: SummaryRequest) -> str:
    """At most forty lines and the characters asked for; what does not fit is lost."""
    keys = sorted(known.facts, key=lambda key: (-newest(known, key), key))
    facts = [fact_line(key, held.value, held.at) for key in keys if (held := visible(known, key)) is not None]
    changed = [f"changed {scope} @ {at}" for scope, (at, _) in known.changed.items()]
    done = max(known.done, known.planned_from)
    progress = [f"done units 1-{done}"] if done > 0 else []
    heading = [_HEADINGS[wanted.kind]] if wanted.kind in _HEADINGS else []
    lines, room = [], wanted.chars
    for line in [*heading, *progress, *changed[-5:], *facts, *dead_ends(known)][:LINES]:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines) or "Nothing is known so far."[: max(1, wanted.chars)]
