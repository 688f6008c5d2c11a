"""The fixed policy: what a careful agent does next, given nothing but what is visible.

Order: end what is closed; know the range and the progress; give phases to children; know the plan; keep what was
costly; find what the next unit needs; do it. A call that brought nothing twice is not made again: another way is
taken, and where none is left the frame ends and says what is missing.
"""

from __future__ import annotations

from .finding import find, half_read
from .keeping import store_now
from .knowledge import Knowledge
from .known_facts import visible
from .lines import Planned, StatedNeed
from .nesting import PHASE, finish, part, push
from .sight import ATTEMPTS, ChosenCall, ReaderSight, command, fresh

_FAILURES = 4
_FRAME_CHARS = 50_000
"""A frame whose conversation is longer ends after the unit that it is at; what is left is for a fresh one."""


def decide(sight: ReaderSight) -> ChosenCall:
    known = sight.known
    objective = known.objective
    if objective is None:
        asked = fresh(sight, command("./work status", "nothing visible says what is to be done"))
        return asked or ChosenCall(
            sight.offered.finish, {"result": "No units to do were named."}, "there is no objective"
        )
    done = _progress(known, objective)
    if done is None:
        asked = fresh(sight, command("./work status", "what is visible does not say how far the work is"))
        if asked is not None:
            return asked
        done = objective[0] - 1
    done = min(done, objective[1])
    if done >= objective[1]:
        return finish(sight, objective, done)
    if known.closed or (known.crowded and known.depth is not None and known.depth[0] > 0):
        return finish(sight, objective, done, f"failed unit {done + 1}: this frame had no room left")
    if _outgrown(sight, objective, done):
        return finish(sight, objective, done)
    span = part(sight, objective, done)
    if span is not None:
        if known.children >= ATTEMPTS:
            return finish(sight, objective, done, _trouble(known, done + 1))
        return push(sight, span)
    return _unit(sight, objective, done + 1)


def _progress(known: Knowledge, objective: tuple[int, int]) -> int | None:
    """The last unit that is done; None where nothing visible tells."""
    told = [known.planned_from]
    if known.progress_seen:
        told.append(known.done)
    if known.agent_order < known.objective_order:  # whoever set the objective begins where the work stands
        told.append(objective[0] - 1)
    return max(told) if max(told) >= 0 else None


def _outgrown(sight: ReaderSight, objective: tuple[int, int], done: int) -> bool:
    known, offered = sight.known, sight.offered
    if not offered.start or offered.inherits or known.depth is None or known.depth[0] == 0:
        return False
    between_units = objective[0] <= done < objective[1] - 1 and known.done_order > known.agent_order
    return between_units and known.chars > _FRAME_CHARS and not known.too_deep


def _unit(sight: ReaderSight, objective: tuple[int, int], unit: int) -> ChosenCall:
    known = sight.known
    at_once = sight.variant == "hoarder" or (sight.offered.remembers and not sight.offered.heap)
    kept = store_now(sight, due=False) if at_once else None
    if kept is not None:
        return kept
    planned = known.plan.get(unit)
    if planned is None:
        last = min(objective[1], unit + PHASE - 1)
        asked = fresh(sight, command(f"./work plan {unit}-{last}", f"the plan of unit {unit} is not visible"))
        return asked or finish(sight, objective, unit - 1, f"failed unit {unit}: no plan is shown")
    needs = _needs(known, planned)
    for need in needs:
        if visible(known, need.key) is None:
            found = find(sight, need)
            return found or finish(sight, objective, unit - 1, _trouble(known, unit, need.key))
    kept = half_read(sight, {need.way[5:] for need in needs if need.way.startswith("read ")})
    kept = kept or (None if sight.offered.start else store_now(sight, due=False))
    if kept is not None:
        return kept
    values = " ".join(f"{need.key}={known.facts[need.key].value}" for need in needs)
    action = fresh(sight, command(f"./work do {unit} {values}".rstrip(), f"all that unit {unit} needs is visible"))
    if action is None or known.failures.get(unit, 0) >= _FAILURES:
        return finish(sight, objective, unit - 1, _trouble(known, unit))
    return action


def _needs(known: Knowledge, planned: Planned) -> list[StatedNeed]:
    named = list({need.key: need for need in planned.needs}.values())
    keys = {need.key for need in named}
    return named + [StatedNeed(key, "") for key in sorted(known.missing.get(planned.unit, set()) - keys)]


def _trouble(known: Knowledge, unit: int, key: str = "") -> str:
    missing = [key] if key else sorted(known.missing.get(unit, set()))
    return f"failed unit {unit}: " + (f"missing {', '.join(missing)}" if missing else "it could not be done")
