"""Store facts with separate calls: as a chunk, a note, or a memory file.

Costly facts that may not be stored yet are stored with the next push or pop, if those accept chunks; otherwise with a
separate call. Facts that the plan carries from step to step are handed on in results and contexts, not stored.
"""

from __future__ import annotations

from typing import Any

from .chunking import entries
from .finding import MEMORY
from .known_facts import planned_keys, told_lines, unsaved, unsaved_changes
from .lines import topic_of
from .sight import ChosenCall, ReaderSight, fresh

_EARLIER = "Before anything else, `view` /memories"
_BATCH = 4
"""One call stores this many facts given by units. Facts that had to be searched are stored immediately."""


def store_now(sight: ReaderSight, *, due: bool) -> ChosenCall | None:
    """Return a call that only stores, if one is due.

    Args:
        due: Store everything, because the frame ends or a child starts, and neither call stores.
    """
    knowledge, names = sight.knowledge, sight.offered.names
    if sight.variant == "forgetful" or not sight.offered.remembers:
        return None
    keys = unsaved(knowledge)
    if "add_note" in names:
        return _noted(sight, keys)
    if "memory" in names:
        return _filed(sight, keys)
    at_once = due or sight.variant == "hoarder" or not set(keys) <= planned_keys(knowledge) or len(keys) >= _BATCH
    if not at_once or not (keys or due):
        return None
    chunks = entries(sight)
    if isinstance(chunks, ChosenCall):
        return chunks
    return next((action for action in (_written(sight, entry) for entry in chunks) if action is not None), None)


def _noted(sight: ReaderSight, keys: list[str]) -> ChosenCall | None:
    knowledge = sight.knowledge
    changed = [f"changed {scope} @ {at}" for scope, at in unsaved_changes(knowledge).items()]
    lines = list(dict.fromkeys([*changed, *told_lines(knowledge, keys)]))
    return (
        fresh(sight, ChosenCall("add_note", {"text": "\n".join(lines)}, "this was costly to find")) if lines else None
    )


def _filed(sight: ReaderSight, keys: list[str]) -> ChosenCall | None:
    knowledge = sight.knowledge
    changes = unsaved_changes(knowledge)
    topics = {topic_of(key) for key in keys} | {topic_of(scope) for scope in changes}
    if not topics:
        return None
    if knowledge.listing is None:
        listed = fresh(sight, ChosenCall("memory", {"command": "view", "path": MEMORY}, "the notes may exist already"))
        if listed is not None:
            return listed
    topic = min(topics)
    changed = [f"changed {scope} @ {at}" for scope, at in changes.items() if topic_of(scope) == topic]
    lines = list(dict.fromkeys([*changed, *told_lines(knowledge, [key for key in keys if topic_of(key) == topic])]))
    path = f"{MEMORY}/{topic}.md"
    exists = path in knowledge.files or f"- {path} " in (knowledge.listing or "")
    text = "\n".join(lines) + "\n"
    arguments: dict[str, Any] = {"command": "create", "path": path, "file_text": text}
    if exists or knowledge.refused.get("memory"):
        arguments = {"command": "insert", "path": path, "insert_line": 0, "insert_text": text}
    return fresh(sight, ChosenCall("memory", arguments, "this was costly to find"))


def view_first(system: str, sight: ReaderSight) -> ChosenCall | None:
    """Return the call that lists the memory files of earlier runs, if the prompt asks for it before anything else."""
    if _EARLIER not in system or sight.knowledge.listing is not None:
        return None
    return fresh(sight, ChosenCall("memory", {"command": "view", "path": MEMORY}, "earlier runs may have left notes"))


def _written(sight: ReaderSight, entry: dict[str, str]) -> ChosenCall | None:
    rows = sight.knowledge.index.rows if sight.knowledge.index else {}
    tool = "heap_write" if entry["name"] in rows else "heap_alloc"
    arguments = {name: value for name, value in entry.items() if value}
    return fresh(sight, ChosenCall(tool, arguments, f"{entry['name']} was costly to find"))
