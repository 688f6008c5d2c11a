"""Distribute facts over chunks: one per topic, and more when it is full, so that few chunks are rewritten.

Rule 1: a fact that has a chunk is updated there. A new fact goes to the topic's last chunk while that is small,
        otherwise to a new chunk, ``TOPIC.2``, ``TOPIC.3``.
Rule 2: a chunk with content that is not visible is read before it is rewritten. Rule 3: after a topic has changed, its
first chunk gets everything known, and its other chunks are emptied. Rule 4: a source is named only if all facts come
from one file and match what the file says.
"""

from __future__ import annotations

from .index import SeenChunk, SeenIndex, description, last_part
from .knowledge import Held, Knowledge
from .known_facts import dead_ends, unsaved, unsaved_changes, valid
from .lines import StatedFact, fact_line, lines, topic_of
from .sight import ChosenCall, ReaderSight, fresh

_NO_INDEX = SeenIndex({}, 0, 10_000)


def entries(sight: ReaderSight) -> list[dict[str, str]] | ChosenCall:
    """Return the chunks to store now, or a call that reads what is needed first."""
    knowledge = sight.knowledge
    if sight.variant == "forgetful" or not sight.offered.heap:
        return []
    if knowledge.index is None and "heap_list" in sight.offered.names:
        listed = fresh(sight, ChosenCall("heap_list", {}, "the index tells which chunks there are already"))
        if listed is not None:
            return listed
    index = knowledge.index or _NO_INDEX
    # changes of other topics are already marked in the index
    stored = {topic_of(row.name) for row in index.rows.values() if not row.stale}
    changed = {topic_of(scope) for scope in unsaved_changes(knowledge)}
    new = unsaved(knowledge)
    chunks, room = [], index.budget - index.used
    for topic in sorted({topic_of(key) for key in new} | (changed & stored)):
        keys = [key for key in new if topic_of(key) == topic]
        for name, topic_facts in _targets(knowledge, index, topic, keys, anew=topic in changed).items():
            row = index.rows.get(name)
            if row is not None and topic not in changed and not row.stale and not _covered(knowledge, row):
                read = ChosenCall("heap_read", {"name": name}, f"chunk {name} is to be added to, so it is read before")
                if fresh(sight, read) is not None:
                    return read
            entry = _entry(sight, name, topic_facts, room + (row.chars if row else 0))
            if entry is not None:
                chunks.append(entry)
                room -= len(entry["content"]) - (row.chars if row else 0)
    return chunks


def _targets(
    knowledge: Knowledge, index: SeenIndex, topic: str, new: list[str], *, anew: bool
) -> dict[str, dict[str, Held]]:
    """Return the new content of each chunk of the topic that has to change."""
    rows = sorted((row for row in index.rows.values() if topic_of(row.name) == topic), key=lambda row: row.name)
    facts = valid(knowledge, topic)
    if not rows:
        return {topic: facts}
    if anew or any(row.stale for row in rows):
        return {row.name: facts if row is rows[0] else {} for row in rows}
    keys_by_chunk: dict[str, list[str]] = {}
    fresh_keys = []
    for key in new:
        home = next((row for row in reversed(rows) if key.partition(".")[2] in row.items), None)
        if home is None:
            fresh_keys.append(key)
        else:
            keys_by_chunk.setdefault(home.name, []).append(key)
    if fresh_keys:
        last = last_part(index, topic)
        name = last.name if last else f"{topic}.{len(rows) + 1}"
        keys_by_chunk.setdefault(name, []).extend(fresh_keys)
    return {name: _with_own(knowledge, index.rows.get(name), facts, keys) for name, keys in keys_by_chunk.items()}


def _with_own(knowledge: Knowledge, row: SeenChunk | None, facts: dict[str, Held], keys: list[str]) -> dict[str, Held]:
    """Return the current facts of a chunk, plus the facts that join it."""
    own = (
        {line.key for line in lines(knowledge.chunks.get(row.name, "")) if isinstance(line, StatedFact)}
        if row
        else set()
    )
    items = row.items if row else frozenset()
    return {key: fact for key, fact in facts.items() if key in keys or key in own or key.partition(".")[2] in items}


def _covered(knowledge: Knowledge, row: SeenChunk) -> bool:
    """Return whether the whole content of the chunk is visible."""
    visible_items = {key.partition(".")[2] for key in valid(knowledge, topic_of(row.name))}
    return row.name in knowledge.chunks or (row.is_complete and row.items <= visible_items)


def _entry(sight: ReaderSight, name: str, facts: dict[str, Held], room: int) -> dict[str, str] | None:
    """Return one chunk of at most ``room`` characters, or None if not even a line fits."""
    knowledge, topic = sight.knowledge, topic_of(name)
    content = [f"changed {scope} @ {at}" for scope, (at, _) in knowledge.changed.items() if topic_of(scope) == topic]
    items = []
    size = sum(len(line) + 1 for line in content)
    for key, fact in facts.items():
        if knowledge.loses(key, fact.value):
            continue
        line = fact_line(key, fact.value, fact.at)
        if size + len(line) + 1 > room:
            break
        content.append(line)
        items.append(key.partition(".")[2])
        size += len(line) + 1
    for line in dead_ends(knowledge, topic) if name == topic else []:
        if size + len(line) + 1 <= room:
            content.append(line)
            size += len(line) + 1
    if not content and name != topic:
        content = [f"see {topic}"]
    if not content or size > room:
        return None
    summary = description(items, sight.offered.most("heap_alloc", "description", 200))
    entry = {"name": name, "content": "\n".join(content), "description": summary}
    source = _source(knowledge, facts)
    return entry | {"source": source} if source else entry


def _source(knowledge: Knowledge, facts: dict[str, Held]) -> str:
    rows = knowledge.index.rows if knowledge.index else {}
    sources = set()
    for fact in facts.values():
        source = fact.source
        if source.startswith("chunk:"):
            row = rows.get(source[6:])
            source = row.source if row is not None and not row.stale else ""
        sources.add(source)
    source = sources.pop() if len(sources) == 1 else ""
    return source if 0 < len(source) <= 200 else ""
