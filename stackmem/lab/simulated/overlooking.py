"""The behavior of a reader that overlooks facts: it looks again, or uses a wrong value.

This applies only if the dial ``long`` is set. A second look does not bring news, so it is made at most once between two
steps of progress. A wrong value that was refused is not used again.
"""

from __future__ import annotations

from collections.abc import Iterable

from .known_facts import visible
from .lines import StatedNeed, topic_of
from .listening import signed
from .sight import CHARS_PER_TOKEN, ChosenCall, ReaderSight, command


def look_again(sight: ReaderSight, unit: int, needs: Iterable[StatedNeed]) -> ChosenCall | None:
    """Return a second look for the first fact that is missed and noticed, or None."""
    for need in needs:
        if _misses(sight, unit, need) and _noticed(sight, unit, need):
            look = _look(need, sight.knowledge.facts[need.key].value)
            if not sight.knowledge.repeats.get(signed(look.tool, look.arguments)):
                return look
    return None


def _look(need: StatedNeed, value: str) -> ChosenCall:
    kind, _, rest = need.way.partition(" ")
    reason = f"{need.key} is in sight somewhere, and it is safer to look again"
    if kind == "read":
        return ChosenCall("read_file", {"path": rest}, reason)
    if kind == "probe":
        return command(f"./work probe {need.key} {value}", reason)
    return command("./work status", reason)


def value_used(sight: ReaderSight, unit: int, need: StatedNeed) -> str:
    """Return the fact's value, or another one if the fact is missed unnoticed."""
    value = sight.knowledge.facts[need.key].value
    if not _misses(sight, unit, need) or _noticed(sight, unit, need):
        return value
    knowledge, topic = sight.knowledge, topic_of(need.key)
    others = (
        fact.value for key in sorted(knowledge.facts) if topic_of(key) == topic and (fact := visible(knowledge, key))
    )
    return next((other for other in others if other != value), f"{value}-x"[-80:])


def _misses(sight: ReaderSight, unit: int, need: StatedNeed) -> bool:
    knowledge = sight.knowledge
    if not knowledge.dials.long:
        return False
    changed = knowledge.changed_at(need.key)[0] > 0
    value = knowledge.facts[need.key].value
    return knowledge.dials.misses(
        need.key, value, _use(sight, unit), knowledge.chars / CHARS_PER_TOKEN, changed=changed
    )


def _noticed(sight: ReaderSight, unit: int, need: StatedNeed) -> bool:
    return sight.knowledge.dials.notices(need.key, sight.knowledge.facts[need.key].value, _use(sight, unit))


def _use(sight: ReaderSight, unit: int) -> str:
    """Return a unit and its number of failures, so that a retry has different luck."""
    return f"{unit}.{sight.knowledge.failures.get(unit, 0)}"
