"""The fixed policy: what a careful agent does next, given only what is visible.

Order: end a closed frame; find the range and the progress; give phases to children; get the plan; store costly facts;
find the next unit's needs; do the unit. A call that brought no news twice is not repeated. The policy then tries
another way. If all ways are exhausted, the frame ends and reports what is missing.
"""

from __future__ import annotations

from typing import Any

from .chunking import entries
from .finding import find, half_read
from .keeping import store_now
from .knowledge import CHILD, TOLD, FramesAdvised, Held, Knowledge
from .known_facts import dead_ends, fact_lines, newest, told_lines, valid, visible
from .lines import Planned, StatedNeed, topic_of
from .overlooking import look_again, value_used
from .sight import ATTEMPTS, ChosenCall, ReaderSight, command, fresh

_FAILURES = 4
_FRAME_CHARS = 50_000
"""A frame with a longer conversation ends after its current unit. A fresh frame continues."""


def decide(sight: ReaderSight) -> ChosenCall:
    knowledge = sight.knowledge
    objective = knowledge.objective
    if objective is None:
        status_call = fresh(sight, command("./work status", "nothing visible says what is to be done"))
        return status_call or ChosenCall(
            sight.offered.finish, {"result": "No units to do were named."}, "there is no objective"
        )
    done = _progress(knowledge, objective)
    if done is None:
        status_call = fresh(sight, command("./work status", "what is visible does not say how far the work is"))
        if status_call is not None:
            return status_call
        done = objective[0] - 1
    done = min(done, objective[1])
    if done >= objective[1]:
        return finish(sight, objective, done)
    if knowledge.closed or (knowledge.crowded and knowledge.depth is not None and knowledge.depth[0] > 0):
        return finish(sight, objective, done, f"failed unit {done + 1}: this frame had no room left")
    if _outgrown(sight, objective, done):
        return finish(sight, objective, done)
    span = part(sight, objective, done)
    if span is not None:
        if knowledge.children >= ATTEMPTS:
            return finish(sight, objective, done, _trouble(knowledge, done + 1))
        return push(sight, span)
    return _unit(sight, objective, done + 1)


def _progress(knowledge: Knowledge, objective: tuple[int, int]) -> int | None:
    """Return the last unit that is done, or None if it is not visible."""
    candidates = [knowledge.planned_from]
    if knowledge.progress_seen:
        candidates.append(knowledge.done)
    # The sender of an objective starts it at the current progress.
    if knowledge.agent_order < knowledge.objective_order:
        candidates.append(objective[0] - 1)
    return max(candidates) if max(candidates) >= 0 else None


def _outgrown(sight: ReaderSight, objective: tuple[int, int], done: int) -> bool:
    knowledge, offered = sight.knowledge, sight.offered
    if not offered.start or offered.inherits or knowledge.depth is None or knowledge.depth[0] == 0:
        return False
    between_units = objective[0] <= done < objective[1] - 1 and knowledge.done_order > knowledge.agent_order
    return between_units and knowledge.chars > _FRAME_CHARS and not knowledge.too_deep


def _unit(sight: ReaderSight, objective: tuple[int, int], unit: int) -> ChosenCall:
    knowledge = sight.knowledge
    at_once = sight.variant == "hoarder" or (sight.offered.remembers and not sight.offered.heap)
    store_call = store_now(sight, due=False) if at_once else None
    if store_call is not None:
        return store_call
    planned = knowledge.plan.get(unit)
    if planned is None:
        last = min(objective[1], unit + PHASE - 1)
        plan_call = fresh(sight, command(f"./work plan {unit}-{last}", f"the plan of unit {unit} is not visible"))
        return plan_call or finish(sight, objective, unit - 1, f"failed unit {unit}: no plan is shown")
    needs = _needs(knowledge, planned)
    for need in needs:
        if visible(knowledge, need.key) is None:
            search = find(sight, need) or _progress_asked(sight)
            return search or finish(sight, objective, unit - 1, _trouble(knowledge, unit, need.key))
    store_call = half_read(sight, {need.way[5:] for need in needs if need.way.startswith("read ")})
    store_call = store_call or (None if sight.offered.start else store_now(sight, due=False))
    if store_call is not None:
        return store_call
    second_look = look_again(sight, unit, needs)
    if second_look is not None:
        return second_look
    values = " ".join(f"{need.key}={value_used(sight, unit, need)}" for need in needs)
    action = fresh(sight, command(f"./work do {unit} {values}".rstrip(), f"all that unit {unit} needs is visible"))
    if action is None or knowledge.failures.get(unit, 0) >= _FAILURES:
        return finish(sight, objective, unit - 1, _trouble(knowledge, unit))
    return action


def _progress_asked(sight: ReaderSight) -> ChosenCall | None:
    """Ask for the progress when all ways are exhausted: the unit may have been done out of sight."""
    if sight.knowledge.progress_seen:
        return None
    return fresh(sight, command("./work status", "no way is left, and what is visible does not say what is done"))


def _needs(knowledge: Knowledge, planned: Planned) -> list[StatedNeed]:
    planned_needs = list({need.key: need for need in planned.needs}.values())
    keys = {need.key for need in planned_needs}
    return planned_needs + [StatedNeed(key, "") for key in sorted(knowledge.missing.get(planned.unit, set()) - keys)]


def _trouble(knowledge: Knowledge, unit: int, key: str = "") -> str:
    missing = [key] if key else sorted(knowledge.missing.get(unit, set()))
    return f"failed unit {unit}: " + (f"missing {', '.join(missing)}" if missing else "it could not be done")


def handed_down(sight: ReaderSight, room: int, shown_chunks: frozenset[str] = frozenset()) -> list[str]:
    """Return the lines for a child, in the order of their priority, that fit into ``room`` characters.

    Missing facts come first, then facts outside the heap, then whole topics, small ones first, then recent results of
    earlier siblings. Half a topic would not save the child a read from the heap, a whole one does. Chunks that the
    child sees (``shown_chunks``) are not repeated.
    """
    knowledge = sight.knowledge
    if sight.variant == "forgetful":
        return []
    missing = {key for keys in knowledge.missing.values() for key in keys}
    first = sorted(
        (key for key in knowledge.facts if key in missing or not _on_heap(sight, key)),
        key=lambda key: (key not in missing, -newest(knowledge, key)),
    )
    known_topics = {topic_of(key) for key in knowledge.facts}
    lines = [
        f"changed {scope} @ {at}" for scope, (at, _) in knowledge.changed.items() if topic_of(scope) not in known_topics
    ]
    lines = _fitting([*lines, *told_lines(knowledge, first), *dead_ends(knowledge)], room)
    room -= sum(len(line) + 1 for line in lines)
    in_shown = {topic_of(name) for name in shown_chunks}
    rest = sorted(known_topics - in_shown) if sight.offered.heap else []
    lines_by_topic = [
        fact_lines(knowledge, [key for key in valid(knowledge, topic) if key not in first]) for topic in rest
    ]
    for topic_lines in sorted(lines_by_topic, key=lambda lines_of_topic: sum(map(len, lines_of_topic))):
        size = sum(len(line) + 1 for line in topic_lines)
        if size > room:
            break
        lines += topic_lines
        room -= size
    just_told = knowledge.results[-2:-1] or knowledge.results
    recent = [
        key for key, fact in knowledge.facts.items()
        if fact.origin == CHILD and just_told and fact.order >= just_told[0] and topic_of(key) not in in_shown
    ]  # fmt: skip
    recent_lines = fact_lines(knowledge, sorted(recent, key=lambda key: -knowledge.facts[key].order))
    return lines + _fitting([line for line in recent_lines if line not in lines], room)


def handed_up(sight: ReaderSight, stored: list[dict[str, str]], room: int) -> list[str]:
    """Return the lines of a result: changes, then the facts found in this frame, unsaved ones first."""
    knowledge = sight.knowledge
    if sight.variant == "forgetful":
        return []
    topics = {topic_of(entry["name"]) for entry in stored}
    changed = [
        f"changed {scope} @ {knowledge.changed[scope][0]}" for scope, by in knowledge.changed_by.items() if by != TOLD
    ]
    own_keys = [
        key for key, fact in knowledge.facts.items() if fact.origin != TOLD and visible(knowledge, key) is not None
    ]
    stored_keys = {
        key for key in own_keys if topic_of(key) in topics or knowledge.saved.get(key) == _saying(knowledge.facts[key])
    }
    ranked = sorted(own_keys, key=lambda key: (key in stored_keys, -newest(knowledge, key)))
    return _fitting([*changed, *fact_lines(knowledge, ranked), *dead_ends(knowledge)], room)


def _saying(fact: Held) -> tuple[str, int]:
    return fact.value, fact.at


def _on_heap(sight: ReaderSight, key: str) -> bool:
    index = sight.knowledge.index
    if index is None or not sight.offered.heap:
        return False
    topic, _, item = key.partition(".")
    rows = [row for row in index.rows.values() if topic_of(row.name) == topic and not row.stale]
    return any(item in row.items or (not row.is_complete and key in sight.knowledge.saved) for row in rows)


def _fitting(lines: list[str], room: int) -> list[str]:
    fitting = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        fitting.append(line)
    return fitting


PHASE = 10
"""Units that a frame does without children, and parts that a frame splits its range into."""

_DEPTH = (0, 5)
_TASK = (
    "The workspace has ./work: `plan A-B` says what units need, `do K KEY=VALUE …` performs one, `probe KEY CANDIDATE` "
    "tries a candidate, `status` says how far the work is. Report the last unit done and every fact found, one a line."
)
_RETURN = "The last unit done, what failed, and new facts, one a line."
_ROOT_RETURN = "The units were performed in order, each with the values that held at the time."


def part(sight: ReaderSight, objective: tuple[int, int], done: int) -> tuple[int, int] | None:
    """Return the next range for a child, or None if this frame does the work itself."""
    knowledge, variant = sight.knowledge, sight.variant
    if not sight.offered.start or knowledge.too_deep or knowledge.closed or variant == "never-push":
        return None
    if knowledge.refused.get(sight.offered.start, 0) >= ATTEMPTS:
        return None
    first, last = objective
    depth, deepest = knowledge.depth or _DEPTH
    levels = deepest - depth
    units = last - first + 1
    if knowledge.frames is not None:
        # a unit that was started here is also finished here
        between = knowledge.done_order > knowledge.agent_order or not knowledge.agent_order
        return _as_advised(knowledge, knowledge.frames, (done + 1, last)) if levels > 0 and between else None
    if variant == "always-push":
        return (done + 1, done + 1) if units > 1 and levels > 0 else None
    if units <= PHASE or levels <= 0:
        return None
    size = PHASE if variant == "flat" else _size(units, levels)
    start = done + 1
    return start, min(last, first - 1 + size * -(-(start - first + 1) // size))


_STEPS_A_UNIT = 1.2
"""The assumed steps per unit: one that does it, plus its share of plans and searches."""
_EXPERIENCE = 5  # After this many units, the observed calls per unit are used instead, if they are twice as many.


def _as_advised(knowledge: Knowledge, frames: FramesAdvised, remaining: tuple[int, int]) -> tuple[int, int] | None:
    """Return the next range according to the advice in the prompt: equal parts of phases or groups of them."""
    first, last = remaining
    calls_per_unit = knowledge.calls / len(knowledge.sent) if len(knowledge.sent) >= _EXPERIENCE else 0.0
    steps = (last - first + 1) * (calls_per_unit if calls_per_unit > 2 * _STEPS_A_UNIT else _STEPS_A_UNIT) + 1
    if steps <= frames.least:
        return None
    size = frames.phase
    while steps > 2 * frames.phase * size > 0 and size < steps:
        size *= frames.phase
    return first, first - 1 + -(-(last - first + 1) // max(1, round(steps / size)))


def _size(units: int, levels: int) -> int:
    if levels == 1:
        return max(PHASE, -(-units // PHASE))
    size = PHASE
    while -(-units // size) > PHASE:
        size *= PHASE
    return size


def push(sight: ReaderSight, span: tuple[int, int]) -> ChosenCall:
    """Return the call that starts a child for the range, or a call that must store or read something first."""
    knowledge, offered = sight.knowledge, sight.offered
    stored: list[dict[str, str]] = []
    if offered.takes(offered.start, "store"):
        chunks = entries(sight) if not knowledge.refused.get(offered.start) else []
        if isinstance(chunks, ChosenCall):
            return chunks
        stored = chunks
    else:
        first = store_now(sight, due=True)
        if first is not None:
            return first
    name = f"units-{span[0]}-{span[1]}"
    arguments: dict[str, Any] = {"name": name, **_briefing(sight, span, stored)}
    if stored:
        arguments["store"] = stored
    return ChosenCall(offered.start, arguments, f"units {span[0]} to {span[1]} make up a separate phase")


def _briefing(sight: ReaderSight, span: tuple[int, int], stored: list[dict[str, str]]) -> dict[str, str]:
    offered = sight.offered
    objective = f"Do units {span[0]} to {span[1]}."
    tool = offered.start
    if offered.takes(tool, "prompt"):
        opening = objective if offered.inherits else f"{objective}\n{_TASK}"
        return {"prompt": "\n".join([opening, *_facts(sight, offered.most(tool, "prompt", 4_000) - len(opening) - 1)])}
    room = offered.most(tool, "context", 500)
    if not offered.takes(tool, "objective"):
        return {"context": "\n".join([objective, *_facts(sight, room - len(objective) - 1)])[:room]}
    most = offered.most(tool, "objective", 200)
    rows = sight.knowledge.index.rows if sight.knowledge.index else {}
    sizes = {name: row.chars for name, row in rows.items() if not row.stale and (row.items or not row.is_complete)}
    sizes |= {entry["name"]: len(entry["content"]) for entry in stored}
    if offered.shows:
        return _told_by_name(sight, objective, sizes, room)
    context = "\n".join(_facts(sight, room)) or (
        "The facts so far are on the heap." if offered.heap else "Nothing yet."
    )
    names = sorted(sizes)
    # a topic in the context does not need a pointer
    for name in [name for name in names if f"{topic_of(name)}." not in context]:
        pointer = f" See heap '{name}'."
        objective += pointer if len(objective) + len(pointer) <= most else ""
    return {"objective": objective[:most], "context": context[:room], "return_spec": _RETURN[: _most_return(sight)]}


SHOWN_CHARS = 4_000
"""The size of named chunks that a child receives, as stated in the guide of `adaptive`."""


def _told_by_name(sight: ReaderSight, objective: str, sizes: dict[str, int], room: int) -> dict[str, str]:
    """Return the arguments for a child that receives the chunks named in its context, small ones first."""
    remaining, chunk_names = SHOWN_CHARS, list[str]()
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        remaining -= sizes[name]
        if remaining < 0:
            break
        chunk_names.append(name)
    context = " ".join(f"See heap '{name}'." for name in chunk_names)
    lines = handed_down(sight, room - len(context) - 1, frozenset(chunk_names))
    context_text = "\n".join([context, *lines] if context else lines) or "Nothing yet."
    return {"objective": objective, "context": context_text[:room], "return_spec": _RETURN[: _most_return(sight)]}


def _most_return(sight: ReaderSight) -> int:
    return sight.offered.most(sight.offered.start, "return_spec", 200)


def _facts(sight: ReaderSight, room: int) -> list[str]:
    return [] if sight.offered.inherits else handed_down(sight, room)


def finish(sight: ReaderSight, objective: tuple[int, int], done: int, trouble: str = "") -> ChosenCall:
    """Return the call that ends the frame, or a call that must store or read something first."""
    knowledge, offered = sight.knowledge, sight.offered
    tool = offered.finish
    stored: list[dict[str, str]] = []
    tries = knowledge.refused.get(tool, 0)
    root = knowledge.depth is not None and knowledge.depth[0] == 0
    if offered.start and not root and not knowledge.closed and not offered.takes(tool, "store"):
        first = store_now(sight, due=True)
        if first is not None:
            return first
    if offered.start and not root and offered.takes(tool, "store") and tries == 0:
        chunks = entries(sight)
        if isinstance(chunks, ChosenCall):
            return chunks
        stored = chunks
    lines = [f"done units {objective[0]}-{done}"] if done >= objective[0] else []
    lines += [trouble] if trouble else []
    most = 1_000 if offered.start and not root else 4_000
    room = min(most, offered.most(tool, "result", most)) if tries == 0 else 200
    if offered.start and not root:
        lines += handed_up(sight, stored, room - sum(len(line) + 1 for line in lines))
    elif not trouble:
        lines.append(_ROOT_RETURN)
    arguments: dict[str, Any] = {"result": "\n".join(lines)[:room] or "Nothing was to be done."}
    if stored:
        arguments["store"] = stored
    return ChosenCall(tool, arguments, "everything that this frame is for is done" if not trouble else "no way is left")
