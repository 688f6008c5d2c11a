"""What is stored, where, and when: chunks by topic, notes, memory files; and what a frame hands on in its texts.

Rule 1: what was costly to find and is not known to be stored is stored with the next push or pop, or by a call of its
        own where neither stores.
Rule 2: one chunk a topic. A chunk that holds more than is visible is read before it is written again.
Rule 3: a source is named for facts of one file alone, and only while what is written is what the file says.
Rule 4: what the plan carries from step to step is handed on in results and contexts, and not stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .finding import MEMORY, visible
from .index import Index, description
from .knowledge import SEEN, TOLD, Held, Knowledge
from .lines import fact_line, topic_of
from .sight import Action, Sight, fresh

_BATCH = 4
_NO_INDEX = Index({}, 0, 10_000)


def unsaved(known: Knowledge) -> list[str]:
    """Keys of facts that were found out here and are not known to be stored."""
    carried = _carried(known)
    return [
        key for key, held in known.facts.items()
        if held.origin == SEEN and key not in carried and known.saved.get(key) != (held.value, held.at)
    ]  # fmt: skip


def _carried(known: Knowledge) -> set[str]:
    return {need.key for planned in known.plan.values() for need in planned.needs if need.way == "step"}


def _given(known: Knowledge) -> set[str]:
    return {key for planned in known.plan.values() for key in planned.gives}


def _unsaved_changes(known: Knowledge) -> dict[str, int]:
    return {
        scope: at for scope, (at, _) in known.changed.items()
        if known.changed_by[scope] == SEEN and at > known.saved_changes.get(scope, 0)
    }  # fmt: skip


def entries(sight: Sight) -> list[dict[str, str]] | Action:
    """The chunks to store now, or what must be read before they can be written."""
    known = sight.known
    if sight.variant == "forgetful" or not sight.offered.heap:
        return []
    if known.index is None and "heap_list" in sight.offered.names:
        listed = fresh(sight, Action("heap_list", {}, "the index tells which chunks there are already"))
        if listed is not None:
            return listed
    index = known.index or _NO_INDEX
    changes = _unsaved_changes(known)
    topics = {topic_of(key) for key in unsaved(known)}
    topics |= {topic_of(scope) for scope in changes if topic_of(scope) in index.rows}
    found, room = [], index.budget - index.used
    for topic in sorted(topics):
        row = index.rows.get(topic)
        if row is not None and not row.stale and topic not in known.chunks and topic not in changes:
            mine = {key.partition(".")[2] for key in _valid(known, topic)}
            read = None if row.whole and row.items <= mine else _read_first(sight, topic)
            if read is not None:
                return read
        entry = _entry(sight, topic, room + (row.chars if row else 0))
        if entry is not None:
            found.append(entry)
            room -= len(entry["content"]) - (row.chars if row else 0)
    return found


def _read_first(sight: Sight, topic: str) -> Action | None:
    return fresh(sight, Action("heap_read", {"name": topic}, f"chunk {topic} is to be added to, so it is read before"))


def _valid(known: Knowledge, topic: str) -> dict[str, Held]:
    keys = sorted(key for key in known.facts if topic_of(key) == topic)
    held = ((key, visible(known, key)) for key in keys)
    return {key: one for key, one in held if one is not None}


def _entry(sight: Sight, topic: str, room: int) -> dict[str, str] | None:
    """One topic's chunk in at most ``room`` characters; None where not even a line fits."""
    known = sight.known
    facts = _valid(known, topic)
    lines = [f"changed {scope} @ {at}" for scope, (at, _) in known.changed.items() if topic_of(scope) == topic]
    items = []
    size = sum(len(line) + 1 for line in lines)
    for key, held in facts.items():
        line = fact_line(key, held.value, held.at)
        if size + len(line) + 1 > room:
            break
        lines.append(line)
        items.append(key.partition(".")[2])
        size += len(line) + 1
    for line in dead_ends(known, topic):
        if size + len(line) + 1 <= room:
            lines.append(line)
            size += len(line) + 1
    if not lines or size > room:
        return None
    told = description(items, sight.offered.most("heap_alloc", "description", 200))
    entry = {"name": topic, "content": "\n".join(lines), "description": told}
    source = _source(known, facts)
    return entry | {"source": source} if source else entry


def dead_ends(known: Knowledge, topic: str = "") -> list[str]:
    """Candidates known to be wrong, of facts that are not known."""
    return [
        f"not {key} = {value}"
        for key in sorted(known.excluded)
        if (not topic or topic_of(key) == topic) and visible(known, key) is None
        for value in sorted(known.excluded_now(key))
    ]


def _source(known: Knowledge, facts: dict[str, Held]) -> str:
    rows = known.index.rows if known.index else {}
    sources = set()
    for held in facts.values():
        source = held.source
        if source.startswith("chunk:"):
            row = rows.get(source[6:])
            source = row.source if row is not None and not row.stale else ""
        sources.add(source)
    source = sources.pop() if len(sources) == 1 else ""
    return source if 0 < len(source) <= 200 else ""


def store_now(sight: Sight, *, due: bool) -> Action | None:
    """A call that only stores, where one is due.

    Args:
        due: Everything is stored, since the frame ends or a child starts and neither call stores.

    """
    known, names = sight.known, sight.offered.names
    if sight.variant == "forgetful" or not sight.offered.remembers:
        return None
    keys = unsaved(known)
    if "add_note" in names:
        return _noted(sight, keys)
    if "memory" in names:
        return _filed(sight, keys)
    at_once = due or sight.variant == "hoarder" or not set(keys) <= _given(known) or len(keys) >= _BATCH
    if not at_once or not (keys or due):
        return None
    wanted = entries(sight)
    if isinstance(wanted, Action):
        return wanted
    return next((action for action in (_written(sight, entry) for entry in wanted) if action is not None), None)


def _noted(sight: Sight, keys: list[str]) -> Action | None:
    known = sight.known
    changed = [f"changed {scope} @ {at}" for scope, at in _unsaved_changes(known).items()]
    lines = list(dict.fromkeys([*changed, *_lines(known, keys)]))
    return fresh(sight, Action("add_note", {"text": "\n".join(lines)}, "this was costly to find")) if lines else None


def _filed(sight: Sight, keys: list[str]) -> Action | None:
    known = sight.known
    changes = _unsaved_changes(known)
    topics = {topic_of(key) for key in keys} | {topic_of(scope) for scope in changes}
    if not topics:
        return None
    if known.listing is None:
        listed = fresh(sight, Action("memory", {"command": "view", "path": MEMORY}, "the notes may exist already"))
        if listed is not None:
            return listed
    topic = min(topics)
    changed = [f"changed {scope} @ {at}" for scope, at in changes.items() if topic_of(scope) == topic]
    lines = list(dict.fromkeys([*changed, *_lines(known, [key for key in keys if topic_of(key) == topic])]))
    path = f"{MEMORY}/{topic}.md"
    exists = path in known.files or f"- {path} " in (known.listing or "")
    text = "\n".join(lines) + "\n"
    arguments: dict[str, Any] = {"command": "create", "path": path, "file_text": text}
    if exists or known.refused.get("memory"):
        arguments = {"command": "insert", "path": path, "insert_line": 0, "insert_text": text}
    return fresh(sight, Action("memory", arguments, "this was costly to find"))


def _written(sight: Sight, entry: dict[str, str]) -> Action | None:
    known = sight.known.index.rows if sight.known.index else {}
    tool = "heap_write" if entry["name"] in known else "heap_alloc"
    arguments = {name: value for name, value in entry.items() if value}
    return fresh(sight, Action(tool, arguments, f"{entry['name']} was costly to find"))


def _lines(known: Knowledge, keys: Iterable[str]) -> list[str]:
    """The facts, after what is known to have changed of their topics."""
    named = list(keys)
    topics = {topic_of(key) for key in named}
    changed = [f"changed {scope} @ {at}" for scope, (at, _) in known.changed.items() if topic_of(scope) in topics]
    return changed + _facts(known, named)


def _facts(known: Knowledge, keys: Iterable[str]) -> list[str]:
    held = ((key, visible(known, key)) for key in keys)
    return [fact_line(key, one.value, one.at) for key, one in held if one is not None]


def handed_down(sight: Sight, room: int) -> list[str]:
    """What a child is told: what was missing, then facts that no chunk holds, then whole topics, small ones first.

    A topic in part would be read from the heap all the same; a whole one saves the child that step.
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
    lines = _fitting([*lines, *_lines(known, first), *dead_ends(known)], room)
    room -= sum(len(line) + 1 for line in lines)
    rest = sorted(told) if sight.offered.heap else []
    whole = [_facts(known, [key for key in _valid(known, topic) if key not in first]) for topic in rest]
    for topic_lines in sorted(whole, key=lambda one: sum(map(len, one))):
        size = sum(len(line) + 1 for line in topic_lines)
        if size > room:
            break
        lines += topic_lines
        room -= size
    return lines


def handed_up(sight: Sight, stored: list[dict[str, str]], room: int) -> list[str]:
    """What a result tells: changes, then the facts found out here, those that are not stored first."""
    known = sight.known
    if sight.variant == "forgetful":
        return []
    topics = {entry["name"] for entry in stored}
    changed = [f"changed {scope} @ {known.changed[scope][0]}" for scope, by in known.changed_by.items() if by != TOLD]
    found = [key for key, held in known.facts.items() if held.origin != TOLD and visible(known, key) is not None]
    kept = {key for key in found if topic_of(key) in topics or known.saved.get(key) == _saying(known.facts[key])}
    ranked = sorted(found, key=lambda key: (key in kept, -newest(known, key)))
    facts = [fact_line(key, known.facts[key].value, known.facts[key].at) for key in ranked]
    return _fitting([*changed, *facts, *dead_ends(known)], room)


def _saying(held: Held) -> tuple[str, int]:
    return held.value, held.at


def newest(known: Knowledge, key: str) -> int:
    held = known.facts.get(key)
    return max(held.order if held else 0, known.used.get(key, 0))


def _on_heap(sight: Sight, key: str) -> bool:
    index = sight.known.index
    topic, _, item = key.partition(".")
    row = index.rows.get(topic) if index else None
    if row is None or row.stale or not sight.offered.heap:
        return False
    return item in row.items or (not row.whole and key in sight.known.saved)


def _fitting(lines: list[str], room: int) -> list[str]:
    found = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        found.append(line)
    return found
