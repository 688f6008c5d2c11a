"""Find a fact that is not visible: first in memory, then the way that the plan names."""

from __future__ import annotations

from collections.abc import Iterator

from .index import SeenChunk, last_part
from .knowledge import SEEN, Knowledge, ShownLines
from .known_facts import visible
from .lines import StatedNeed, topic_of
from .listening import signed
from .sight import ChosenCall, ReaderSight, command, fresh

MEMORY = "/memories"
_CODE = """
for entry in context:
    for line in entry['results'].splitlines():
        if any(key in line for key in {keys}) or line.startswith('changed '):
            print(line)
"""
_KEYS = 20
"""One search looks for this many facts that the planned units need."""


def find(sight: ReaderSight, need: StatedNeed) -> ChosenCall | None:
    """Return the next step towards the fact, or None if all ways are exhausted."""
    steps = (fresh(sight, action) for action in _ways(sight, need))
    return next((action for action in steps if action is not None), None)


def _ways(sight: ReaderSight, need: StatedNeed) -> Iterator[ChosenCall | None]:
    yield from _remembered(sight, need)
    search = ChosenCall("conversation_search", {"query": need.key}, f"an earlier turn may have told {need.key}")
    names, repeats = sight.offered.names, sight.knowledge.repeats
    if search.tool in names and sight.knowledge.summed_up and not repeats.get(signed(search.tool, search.arguments)):
        yield search
    if "run_program" in names and sight.knowledge.summed_up:
        yield _code(sight.knowledge, need.key)
    kind, _, rest = need.way.partition(" ")
    if kind == "read":
        yield _read_on(sight.knowledge, need.key, rest)
        yield _read_on(sight.knowledge, need.key, rest, believing=False)
    elif kind == "probe":
        yield from _probe(sight.knowledge, need.key, rest)
    elif kind == "run":
        yield _run(sight.knowledge, need.key, rest)
    elif kind == "unit" and rest.isdigit() and int(rest) in sight.knowledge.stubs and "expand" in sight.offered.names:
        yield ChosenCall("expand", {"index": sight.knowledge.stubs[int(rest)]}, f"unit {rest} gave {need.key}")
    elif kind == "step":
        yield command("./work audit", f"{need.key} is carried from step to step and is not visible any more")


def _remembered(sight: ReaderSight, need: StatedNeed) -> Iterator[ChosenCall | None]:
    knowledge, names = sight.knowledge, sight.offered.names
    topic = topic_of(need.key)
    if not _told_of_change(knowledge, need.key):
        return
    if "heap_list" in names and knowledge.index is None:
        yield ChosenCall("heap_list", {}, f"a chunk may hold {need.key}")
    if "heap_read" in names:
        holding = _holding(knowledge, need.key)
        if holding and "heap_load" in names:
            together = list(
                dict.fromkeys([holding[0], *(name for key in _ahead(knowledge) for name in _useful(knowledge, key))])
            )
            if len(together) > 1:
                yield ChosenCall("heap_load", {"names": together}, "the index says what the planned units will need")
        for name in holding:
            yield ChosenCall("heap_read", {"name": name}, f"the index says that {name} holds {topic} facts")
    if "memory" in names:
        path = f"{MEMORY}/{topic}.md"
        if knowledge.listing is None:
            yield ChosenCall("memory", {"command": "view", "path": MEMORY}, f"{need.key} may be among the notes")
        elif f"- {path} " in knowledge.listing and path not in knowledge.files:
            yield ChosenCall("memory", {"command": "view", "path": path}, f"the notes of {topic} may hold {need.key}")
    if sight.offered.takes("heap_read", "query") and need.way.startswith("unit "):
        name = f"frame:{frame_of(int(need.way[5:]))}" if need.way[5:].isdigit() else ""
        query = need.key
        if sight.offered.shows:  # parts can have any length, so the unit does not determine the name
            name, query = "frame:", f"{need.key} done {need.way}"
        if name:
            yield ChosenCall("heap_read", {"name": name, "query": query}, f"a popped frame was told {need.key}")


def _holding(knowledge: Knowledge, key: str) -> list[str]:
    """Return the chunks that may contain a fact, most recently written first.

    The list is empty if the fact has changed since the chunks were written.
    """
    if knowledge.index is None or not _told_of_change(knowledge, key):
        return []
    rows = sorted(knowledge.index.rows.values(), key=lambda row: row.written)[::-1]
    return [row.name for row in rows if _may_hold(knowledge, row, key)]


def _useful(knowledge: Knowledge, key: str) -> list[str]:
    """Return the chunks that may contain a fact, or the chunk that it will be added to."""
    holding = _holding(knowledge, key)
    home = None if holding or knowledge.index is None else last_part(knowledge.index, topic_of(key))
    return [home.name] if home is not None and home.name not in knowledge.chunks else holding


def _code(knowledge: Knowledge, key: str) -> ChosenCall | None:
    """Return the call that searches the history for a fact and for others that are needed soon; None if it was made."""
    if any(call.startswith("run_program ") and f"'{key} = '" in call for call in knowledge.repeats):
        return None
    keys = [f"{each} = " for each in list(dict.fromkeys([key, *_ahead(knowledge)]))[:_KEYS]]
    code = _CODE.format(keys=keys)
    return ChosenCall("run_program", {"path": "history", "inputs": {"code": code}}, f"{key} may be in the history")


def _ahead(knowledge: Knowledge) -> Iterator[str]:
    """Yield the needs of this frame's remaining units that are not visible, as far as they are planned."""
    first, last = knowledge.objective or (0, -1)
    for unit in range(max(first, knowledge.done + 1), last + 1):
        for need in knowledge.plan[unit].needs if unit in knowledge.plan else ():
            if visible(knowledge, need.key) is None:
                yield need.key


def frame_of(unit: int) -> str:
    """Return the name of the frame that did the unit, if ranges are split into tens."""
    first = (unit - 1) // 10 * 10 + 1
    return f"units-{first}-{first + 9}"


def _told_of_change(knowledge: Knowledge, key: str) -> bool:
    """Return whether stored facts can still be valid.

    They are invalid if a change was seen in this conversation and has not been stored since.
    """
    scopes = [scope for scope in (key, topic_of(key)) if knowledge.changed_by.get(scope) == SEEN]
    return all(knowledge.saved_changes.get(scope, 0) >= knowledge.changed[scope][0] for scope in scopes)


def _may_hold(knowledge: Knowledge, row: SeenChunk, key: str) -> bool:
    topic, _, item = key.partition(".")
    if row.stale or row.name in knowledge.chunks or topic_of(row.name) != topic:
        return False
    return item in row.items or not row.is_complete


def _read_on(knowledge: Knowledge, key: str, path: str, *, believing: bool = True) -> ChosenCall | None:
    """Return a call for the first part of a file that was not read since the fact was last in doubt.

    ``believing`` says whether a part counts as read if the agent's own text says so.
    """
    since = knowledge.doubted_since(key)
    spans = [
        span for span in knowledge.spans.get(path, ()) if span.order > since and (believing or not span.from_own_text)
    ]
    return read_from(path, spans, f"{key} occurs in {path}")


def read_from(path: str, spans: list[ShownLines], reason: str) -> ChosenCall | None:
    at = 1
    for span in sorted(spans, key=lambda each: each.first):
        at = span.last + 1 if span.first <= at <= span.last else at
    total = max((span.total for span in spans), default=0)
    if at == 1:
        return ChosenCall("read_file", {"path": path}, reason)
    if at > total >= 0 and total != -1 and all(span.total >= 0 for span in spans):
        return None
    return ChosenCall("read_file", {"path": path, "start_line": at}, f"{reason}, and there is more of it")


def half_read(sight: ReaderSight, paths: set[str]) -> ChosenCall | None:
    """Return a call that reads on in a file, if the content can be kept, because other units will need it."""
    knowledge = sight.knowledge
    # later frames will not need the rest
    alone = knowledge.frames is not None and knowledge.depth is not None and knowledge.depth[0] == 0
    for path in sorted(paths) if sight.offered.remembers and not alone else ():
        spans = sight.knowledge.spans.get(path, [])
        action = fresh(sight, read_from(path, spans, f"the rest of {path} will be needed as well"))
        if action is not None and "start_line" in action.arguments:
            return action
    return None


def _probe(knowledge: Knowledge, key: str, path: str) -> Iterator[ChosenCall | None]:
    candidates = knowledge.candidates.get(key)
    if candidates is None:
        yield _read_on(knowledge, key, path)
        return
    excluded = knowledge.excluded_now(key)
    for candidate in candidates:
        if candidate not in excluded:
            yield command(f"./work probe {key} {candidate}", f"{candidate} is a candidate not tried so far")


def _run(knowledge: Knowledge, key: str, line: str) -> ChosenCall | None:
    since = knowledge.doubted_since(key)
    for _ in range(100):
        if knowledge.ran.get(line, -1) <= since:
            return command(line, f"its output tells {key}")
        if line not in knowledge.next_page:
            return None
        line = knowledge.next_page[line]
    return None
