"""ForEach and While: one decision, many iterations.

Rule 1: results are in the order of the items, regardless of which iterations ran in parallel.
Rule 2: parallel iterations see the payload as it was before the loop. Their changes are merged in item order.
Rule 3: an outcome is discarded once it is written and merged, unless a condition uses ``results``.
Rule 4: an item without a result leaves null at its index, so that the other results keep their positions.
Rule 5: without ``continueOnError``, no new batch starts after one with a failure.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stackmem.core.program_facts import StepEntered, StepFailed, StepLeft
from stackmem.languages.operations import Routine

from .conditions.evaluator import syntax_fault, verdict
from .paths import MISSING, look_up, parse_path
from .references import ReferenceNames, add_warning, resolve
from .reply_json import json_value
from .response import ActionCall, Ask, ForEach, While
from .results import LoopDone, LoopResults
from .session import AgentSession, pause, refuse_overspent
from .sub_agents import SubAgentAnswer, ask_agent, ask_agents
from .tools import mapping_of, may_join, run_batch
from .writes import PayloadMerge, is_mapped, targets_of, writes_of

_MAX_HOLES = 100


class _Iterations:
    """The state shared by the iterations of one loop."""

    def __init__(self, session: AgentSession, does: ActionCall | Ask, path: str, *, together: bool = False) -> None:
        self.session, self.does, self.path = session, does, path
        self.warnings: list[str] = []
        self.failed: int | None = None  # index of the first failed iteration; None if none failed
        self.holes: list[int] = []  # iterations that left null at their target index
        self.fault = ""  # why the first failed iteration failed
        self.merged = PayloadMerge(session.payload, session.agent.allowed, together=together)
        crush, visible = session.params["crushActionResults"], session.agent.loop_result_turns > 0
        self.results = LoopResults(session.family.numbers, crush=crush, visible=visible)

    def act(self, names: ReferenceNames) -> Any:
        """Return the loop's action or request with its references resolved."""
        if isinstance(self.does, ActionCall):
            return replace(self.does, params=self._resolve(self.does.params, names))
        message = self._resolve(self.does.message, names)
        return replace(
            self.does,
            message=message if isinstance(message, str) else str(message),
            template=self._resolve(self.does.template, names),
            context=self._resolve(self.does.context, names),
        )

    def _resolve(self, value: Any, names: ReferenceNames) -> Any:
        return resolve(value, names, self.warnings, self.merged.give)

    def record(self, index: int, names: ReferenceNames, answer: SubAgentAnswer) -> Routine:
        """Record an outcome and merge its writes."""
        outcome, writes = answer.outcome, answer.writes
        for refused in answer.refused:
            add_warning(self.warnings, refused)
        if not outcome.ok and self.failed is None:
            self.failed, self.fault = index, outcome.note or outcome.code
        mapping = mapping_of(self.session, self.does) if isinstance(self.does, ActionCall) else None
        if mapping is not None and is_mapped(mapping, outcome):
            writes = (*writes, *writes_of(mapping, outcome.value, names, self.warnings))
        self.merged.merge(index, writes)
        if mapping is not None and self.merged.leave_holes(targets_of(mapping, names)):
            self.holes.append(index)
        self.session.payload = self.merged.payload
        yield from self.results.take(outcome)

    def run_one(self, names: ReferenceNames, index: int) -> Routine:
        """Run a single iteration and return its outcome."""
        act = self.act(names)
        if isinstance(act, ActionCall):
            outcomes = yield from run_batch(self.session, (act,), 1)
            answer = SubAgentAnswer(outcomes[0])
        else:
            self.merged.give(self.session.payload)
            answer = yield from ask_agent(self.session, act, self.session.payload, f"{self.path}[{index}]")
        yield from self.record(index, names, answer)
        return answer.outcome

    def note_count(self) -> Routine:
        """Record the number of iterations, and the first failure."""
        yield StepLeft(self.path, "list", self.results.count)
        if self.failed is not None:
            first = (
                f"{self.results.errors} of {self.results.count} failed, iteration {self.failed + 1} first: {self.fault}"
            )
            yield StepFailed(self.path, " ".join(first.split())[:300])

    def _holes(self) -> list[str]:
        indices = ", ".join(map(str, self.holes[:_MAX_HOLES])) + (", ..." if len(self.holes) > _MAX_HOLES else "")
        return [f"no result was written for index {indices}; null is used instead"] if self.holes else []

    def close(self, kind: str, subject: str, stopped: str) -> LoopDone:
        warnings = tuple(dict.fromkeys([*self._holes(), *self.warnings, *self.merged.warnings]))
        return LoopDone(kind, subject, self.results, stopped, warnings)


def collection_of(payload: Any, name: str) -> list[Any] | None:
    """Return the list at ``collectionPath``; None if the value is missing or not a list."""
    if name.strip().lower().startswith("static:"):
        items = json_value(name.strip()[len("static:") :])
        return items if isinstance(items, list) else None
    bare = name.strip()
    bare = bare[len("payload.") :] if bare.lower().startswith("payload.") else bare
    path = parse_path(bare)
    items = MISSING if path is None else look_up(payload, path)
    return items if isinstance(items, list) else None


def run_for_each(session: AgentSession, loop: ForEach, path: str) -> Routine:
    """Run a ForEach. Returns its ``LoopDone``, or a sentence on why it cannot start."""
    items = collection_of(session.payload, loop.collection)
    if items is None:
        return f'Collection path "{loop.collection}" not an array'
    omitted, items = max(0, len(items) - loop.most), list(items[: loop.most])
    yield StepEntered(path, f"ForEach over {len(items)} of {loop.collection}"[:300])
    rounds = _Iterations(session, loop.does, path, together=loop.parallel)
    if omitted:
        count = omitted + len(items)
        message = f"the last {omitted:,} of {count:,} items were left out, since maxIterations is {loop.most:,}"
        rounds.warnings.append(message)
    width = loop.width if loop.parallel else 1  # number of iterations started before their answers are checked
    before, stopped = session.payload, ""
    for start in range(0, len(items), width):
        yield from _between(session, loop.delay_ms if start else 0)
        batch = range(start, min(start + width, len(items)))
        if loop.parallel:
            name_sets = [_names(session, loop, items[index], index, before) for index in batch]
            yield from _batch(rounds, name_sets, start, loop, before)
        else:
            yield from rounds.run_one(_names(session, loop, items[start], start, session.payload), start)
        if rounds.failed is not None and not loop.continue_on_error:
            stopped = f"iteration {rounds.failed + 1} failed" if rounds.results.count < len(items) else ""
            if stopped:
                break
    yield from rounds.note_count()
    return rounds.close("ForEach", loop.collection, stopped)


def _between(session: AgentSession, delay_ms: int) -> Routine:
    """Wait or check the limits before an iteration or a batch."""
    yield from (pause(session, delay_ms / 1_000) if delay_ms else refuse_overspent(session))


def _batch(rounds: _Iterations, name_sets: list[ReferenceNames], start: int, loop: ForEach, before: Any) -> Routine:
    session, acts = rounds.session, [rounds.act(names) for names in name_sets]
    answers: list[SubAgentAnswer] = []
    if isinstance(loop.does, ActionCall):
        together = may_join(session, loop.does)
        for batch in (acts,) if together else ([act] for act in acts):
            outcomes = yield from run_batch(session, tuple(batch), loop.width)
            answers += map(SubAgentAnswer, outcomes)
    else:
        paths = [(f"{rounds.path}[{index}]", act) for index, act in enumerate(acts, start)]
        answers = yield from ask_agents(session, paths, before, loop.width)
    for index, (names, each) in enumerate(zip(name_sets, answers, strict=True), start):
        yield from rounds.record(index, names, each)


def _names(session: AgentSession, loop: ForEach, item: Any, index: int, payload: Any) -> ReferenceNames:
    values = {loop.item: item, loop.index: index, "payload": payload, "data": session.data or {}}
    return ReferenceNames(values, (loop.item, loop.index))


def run_while(session: AgentSession, loop: While, path: str) -> Routine:
    """Run a While. Returns its ``LoopDone``, or a sentence on why it cannot start."""
    fault = syntax_fault(loop.condition)
    if fault:
        return f"{fault} (condition: {loop.condition[:200]})"
    yield StepEntered(path, f"While {loop.condition}"[:300])
    rounds, stopped, results, errors = _Iterations(session, loop.does, path), "", list[Any](), list[Any]()
    looks_back = "results" in loop.condition, "errors" in loop.condition
    for index in range(loop.most):
        attempt = {"attemptNumber": index + 1, "totalAttempts": loop.most}
        seen = {loop.item: attempt, "payload": session.payload, "results": results, "errors": errors}
        holds = verdict(loop.condition, seen)
        if holds.fault and not index:
            return f"{holds.fault} (condition: {loop.condition[:200]})"
        if holds.fault:
            stopped = f"condition '{loop.condition[:200]}' could not be evaluated: {holds.fault}"
        if not holds.holds:
            break
        yield from _between(session, loop.delay_ms if index else 0)
        values = {loop.item: attempt, "index": index, "payload": session.payload, "data": session.data or {}}
        outcome = yield from rounds.run_one(ReferenceNames(values, (loop.item, "index")), index)
        results += [outcome.value] if looks_back[0] else []
        errors += [outcome.note or outcome.code] if looks_back[1] and not outcome.ok else []
        if not outcome.ok and not loop.continue_on_error:
            stopped = f"iteration {index + 1} failed"
            break
    else:
        rounds.warnings.append(f"it ran as often as it may ({loop.most}); its condition was not looked at again")
    yield from rounds.note_count()
    return rounds.close("While", loop.condition, stopped)
