"""Queries on the knowledge: valid facts, unsaved facts, dead ends, and recent use."""

from __future__ import annotations

from collections.abc import Iterable

from .knowledge import SEEN, Held, Knowledge
from .lines import fact_line, topic_of


def visible(knowledge: Knowledge, key: str) -> Held | None:
    """Return the current fact, or None if it is not visible or was refused."""
    fact = knowledge.facts.get(key)
    if fact is None or knowledge.wrong.get((key, fact.value), -1) >= fact.order:
        return None
    return fact


def valid(knowledge: Knowledge, topic: str) -> dict[str, Held]:
    """Return the valid facts of the topic, sorted by key."""
    keys = sorted(key for key in knowledge.facts if topic_of(key) == topic)
    facts = ((key, visible(knowledge, key)) for key in keys)
    return {key: fact for key, fact in facts if fact is not None}


def unsaved(knowledge: Knowledge) -> list[str]:
    """Return the keys of facts that were found in this conversation and may not be stored yet."""
    carried = _carried(knowledge)
    return [
        key for key, fact in knowledge.facts.items()
        if fact.origin == SEEN and key not in carried and knowledge.saved.get(key) != (fact.value, fact.at)
        and not knowledge.loses(key, fact.value)
    ]  # fmt: skip


def _carried(knowledge: Knowledge) -> set[str]:
    return {need.key for planned in knowledge.plan.values() for need in planned.needs if need.way == "step"}


def planned_keys(knowledge: Knowledge) -> set[str]:
    return {key for planned in knowledge.plan.values() for key in planned.gives}


def unsaved_changes(knowledge: Knowledge) -> dict[str, int]:
    return {
        scope: at for scope, (at, _) in knowledge.changed.items()
        if knowledge.changed_by[scope] == SEEN and at > knowledge.saved_changes.get(scope, 0)
    }  # fmt: skip


def dead_ends(knowledge: Knowledge, topic: str = "") -> list[str]:
    """Return the candidates known to be wrong for facts that are still unknown."""
    return [
        f"not {key} = {value}"
        for key in sorted(knowledge.excluded)
        if (not topic or topic_of(key) == topic) and visible(knowledge, key) is None
        for value in sorted(knowledge.excluded_now(key))
    ]


def newest(knowledge: Knowledge, key: str) -> int:
    fact = knowledge.facts.get(key)
    return max(fact.order if fact else 0, knowledge.used.get(key, 0))


def told_lines(knowledge: Knowledge, keys: Iterable[str]) -> list[str]:
    """Return lines with changes of the topics, followed by the facts, without those that the dials lose."""
    key_list = list(keys)
    topics = {topic_of(key) for key in key_list}
    changed = [f"changed {scope} @ {at}" for scope, (at, _) in knowledge.changed.items() if topic_of(scope) in topics]
    return changed + fact_lines(knowledge, key_list)


def fact_lines(knowledge: Knowledge, keys: Iterable[str]) -> list[str]:
    facts = ((key, visible(knowledge, key)) for key in keys)
    return [
        fact_line(key, fact.value, fact.at) for key, fact in facts
        if fact is not None and not knowledge.loses(key, fact.value)
    ]  # fmt: skip
