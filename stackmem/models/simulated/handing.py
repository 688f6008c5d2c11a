"""What a frame tells another in its texts: the context of a push, a sub-agent's prompt, the result of a pop."""

from __future__ import annotations

from .knowledge import CHILD, TOLD, Held
from .known_facts import dead_ends, fact_lines, newest, told_lines, valid, visible
from .lines import fact_line, topic_of
from .sight import ReaderSight


def handed_down(sight: ReaderSight, room: int) -> list[str]:
    """What a child is told: what was missing, then facts that no chunk holds, then whole topics, small ones first, then
    what its elder siblings have just found.

    A topic in part is read from the heap all the same; a whole one saves the child that step.
    """
    known = sight.known
    if sight.variant == "forgetful":
        return []
    missing = {key for keys in known.missing.values() for key in keys}
    first = sorted(
        (key for key in known.facts if key in missing or not _on_heap(sight, key)),
        key=lambda key: (key not in missing, -newest(known, key)),
    )
    told = {topic_of(key) for key in known.facts}
    lines = [f"changed {scope} @ {at}" for scope, (at, _) in known.changed.items() if topic_of(scope) not in told]
    lines = _fitting([*lines, *told_lines(known, first), *dead_ends(known)], room)
    room -= sum(len(line) + 1 for line in lines)
    rest = sorted(told) if sight.offered.heap else []
    whole = [fact_lines(known, [key for key in valid(known, topic) if key not in first]) for topic in rest]
    for topic_lines in sorted(whole, key=lambda one: sum(map(len, one))):
        size = sum(len(line) + 1 for line in topic_lines)
        if size > room:
            break
        lines += topic_lines
        room -= size
    just_told = known.results[-2:-1] or known.results
    recent = [
        key for key, held in known.facts.items() if held.origin == CHILD and just_told and held.order >= just_told[0]
    ]
    again = fact_lines(known, sorted(recent, key=lambda key: -known.facts[key].order))
    return lines + _fitting([line for line in again if line not in lines], room)


def handed_up(sight: ReaderSight, stored: list[dict[str, str]], room: int) -> list[str]:
    """What a result tells: changes, then the facts found out here, those that are not stored first."""
    known = sight.known
    if sight.variant == "forgetful":
        return []
    topics = {topic_of(entry["name"]) for entry in stored}
    changed = [f"changed {scope} @ {known.changed[scope][0]}" for scope, by in known.changed_by.items() if by != TOLD]
    found = [key for key, held in known.facts.items() if held.origin != TOLD and visible(known, key) is not None]
    kept = {key for key in found if topic_of(key) in topics or known.saved.get(key) == _saying(known.facts[key])}
    ranked = sorted(found, key=lambda key: (key in kept, -newest(known, key)))
    facts = [fact_line(key, known.facts[key].value, known.facts[key].at) for key in ranked]
    return _fitting([*changed, *facts, *dead_ends(known)], room)


def _saying(held: Held) -> tuple[str, int]:
    return held.value, held.at


def _on_heap(sight: ReaderSight, key: str) -> bool:
    index = sight.known.index
    if index is None or not sight.offered.heap:
        return False
    topic, _, item = key.partition(".")
    rows = [row for row in index.rows.values() if topic_of(row.name) == topic and not row.stale]
    return any(item in row.items or (not row.whole and key in sight.known.saved) for row in rows)


def _fitting(lines: list[str], room: int) -> list[str]:
    found = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line)
    return found
