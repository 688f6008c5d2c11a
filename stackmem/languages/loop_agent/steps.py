"""Carries out the steps that do something: actions, loops, sub-agents, expansions."""

from __future__ import annotations

from stackmem.core.program_facts import StepEntered
from stackmem.languages.frame.values import variable_set

from .actions import NOT_RUN, mapping_of, run_actions
from .conversation import Kind
from .definition import Expiry
from .loop_results import LoopDone
from .loops import for_each, while_
from .mapping import writes_of
from .merging import Merged
from .naming import found
from .operations import Ask, ForEach
from .operations import While as WhileLoop
from .references import Names
from .response import Actions
from .result_text import action_text
from .session import Doing, Finish, Session, Shown
from .sub_agents import Asked, ask_agent

SUB_AGENT_EXPIRY = Expiry(3, "remove")
MOST_ACTIONS = 1_000


def run_calls(session: Session, step: Actions) -> Doing:
    """Whether any of the actions did what was asked."""
    if len(step.calls) > MOST_ACTIONS:
        told = f"{len(step.calls):,} actions were asked for; one response may have {MOST_ACTIONS:,}, a ForEach as many"
        session.tell_failure(f"{told} as its list has items")
        return False
    outcomes = yield from run_actions(session, step.calls)
    merged = Merged(session.payload, session.agent.allowed, together=True)
    warnings: list[str] = []
    for index, (call, outcome) in enumerate(zip(step.calls, outcomes, strict=True)):
        mapping = mapping_of(session, call)
        if outcome.ok and mapping is not None:
            merged.merge(index, writes_of(mapping, outcome.value, Names({"payload": session.payload}), warnings))
        failures = session.failures.get(outcome.name, 0)
        text = action_text(outcome, crush=session.params["crushActionResults"], failures=failures)
        session.conversation.result("action-result", text, session.turn, _expiry(session, outcome.name))
        if not outcome.ok and outcome.code in NOT_RUN:
            told = f"{outcome.name} was not run: {outcome.told}"
            yield StepEntered(f"{session.path}/turn {session.turn}", " ".join(told.split())[:300])
    yield from _took(session, merged, warnings)
    session.fault = next((f"{each.name}: {each.told or each.code}" for each in outcomes if not each.ok), "")
    return any(outcome.ok for outcome in outcomes)


def _expiry(session: Session, name: str) -> Expiry | None:
    action = found(name, session.agent.actions, "action")
    return session.agent.expires or (None if isinstance(action, str) else action.expires)


def _took(session: Session, merged: Merged, warnings: list[str]) -> Doing:
    notes = [*warnings, *merged.warnings]
    if merged.payload is not session.payload:
        session.payload = merged.payload
        yield variable_set("payload", session.payload)
        notes += session.misfit()
    session.tell_notes("where the results went", notes)


def run_sub_agent(session: Session, step: Ask) -> Doing:
    """A ``Finish`` where the sub-agent's success ends its parent, else whether it succeeded.

    What it has to ask is no end: the parent goes on with it.
    """
    path = f"{session.path}/turn {session.turn}"
    asked: Asked = yield from ask_agent(session, step, session.payload, path)
    merged = Merged(session.payload, session.agent.allowed, together=False)
    merged.merge(0, asked.writes)
    text = action_text(asked.outcome, crush=session.params["crushActionResults"])
    kind: Kind = "sub-agent-result"
    session.conversation.result(kind, text, session.turn, session.agent.expires or SUB_AGENT_EXPIRY)
    yield from _took(session, merged, [])
    if step.terminate_after and asked.outcome.ok and asked.outcome.told != "chat":
        return Finish(str(asked.outcome.value), session.payload)
    session.fault = f"{asked.outcome.name}: {asked.outcome.told}"
    return asked.outcome.ok


def run_loop(session: Session, step: ForEach | WhileLoop) -> Doing:
    """Whether the loop ran, and did anything that it was to do."""
    before = session.payload
    path = f"{session.path}/turn {session.turn}"
    done: LoopDone | str
    if isinstance(step, ForEach):
        done = yield from for_each(session, step, path)
    else:
        done = yield from while_(session, step, path)
    if isinstance(done, str):
        session.tell_failure(done)
        return False
    if session.payload is not before:
        yield variable_set("payload", session.payload)
        session.tell_notes("where the results went", session.misfit())
    turns = session.agent.loop_result_turns
    shown = f"its results are shown for {turns} turn(s) only" if turns else "its results are not shown"
    results = done.results
    line = f"{done.completed}: {results.count} processed, {results.errors} errors; {shown}."
    session.conversation.result("loop-result", line, session.turn)
    if turns:
        text: str = yield from results.told(done.head)
        session.loops.append(Shown(text, turns))
    session.fault = done.completed
    return results.errors < max(results.count, 1)
