"""Queries on the knowledge: valid facts, unsaved facts, dead ends, and recent use."""

from __future__ import annotations

from collections.abc import Iterable

from .knowledge import SEEN, Held, Knowledge
from .lines import fact_line, topic_of


def visible(known: Knowledge, key: str) -> Held | None:
    """Return the current fact, or None if it is not visible or was refused."""
    held = known.facts.get(key)
    if held is None or known.wrong.get((key, held.value), -1) >= held.order:
        return None
    return held


def valid(known: Knowledge, topic: str) -> dict[str, Held]:
    """Return the valid facts of the topic, sorted by key."""
    keys = sorted(key for key in known.facts if topic_of(key) == topic)
    held = ((key, visible(known, key)) for key in keys)
    return {key: one for key, one in held if one is not None}


def unsaved(known: Knowledge) -> list[str]:
    """Return the keys of facts that were found in this conversation and may not be stored yet."""
    carried = _carried(known)
    return [
        key for key, held in known.facts.items()
        if held.origin == SEEN and key not in carried and known.saved.get(key) != (held.value, held.at)
        and not known.dials.loses(key, held.value)
    ]  # fmt: skip


def _carried(known: Knowledge) -> set[str]:
    return {need.key for planned in known.plan.values() for need in planned.needs if need.way == "step"}


def given(known: Knowledge) -> set[str]:
    return {key for planned in known.plan.values() for key in planned.gives}


def unsaved_changes(known: Knowledge) -> dict[str, int]:
    return {
        scope: at for scope, (at, _) in known.changed.items()
        if known.changed_by[scope] == SEEN and at > known.saved_changes.get(scope, 0)
    }  # fmt: skip


def dead_ends(known: Knowledge, topic: str = "") -> list[str]:
    """Return the candidates known to be wrong for facts that are still unknown."""
    return [
        f"not {key} = {value}"
        for key in sorted(known.excluded)
        if (not topic or topic_of(key) == topic) and visible(known, key) is None
        for value in sorted(known.excluded_now(key))
    ]


def newest(known: Knowledge, key: str) -> int:
    held = known.facts.get(key)
    return max(held.order if held else 0, known.used.get(key, 0))


def told_lines(known: Knowledge, keys: Iterable[str]) -> list[str]:
    """Return lines with changes of the topics, followed by the facts, without those that the dials lose."""
    named = list(keys)
    topics = {topic_of(key) for key in named}
    changed = [f"changed {scope} @ {at}" for scope, (at, _) in known.changed.items() if topic_of(scope) in topics]
    return changed + fact_lines(known, named)


def fact_lines(known: Knowledge, keys: Iterable[str]) -> list[str]:
    held = ((key, visible(known, key)) for key in keys)
    return [
        fact_line(key, one.value, one.at) for key, one in held
        if one is not None and not known.dials.loses(key, one.value)
    ]  # fmt: skip
