"""Carries out decisions that involve actions, sub-agents and loops, and stores their results."""

from __future__ import annotations

from stackmem.languages.frame.values import digest_of, variable_set
from stackmem.languages.operations import Routine

from .conversation import Kind
from .loops import run_for_each, run_while
from .references import ReferenceNames
from .response import Actions, Ask, ForEach, While
from .results import ActionOutcome, LoopDone, action_text
from .session import MAX_REPEATED, WARN_REPEATED, AgentEnded, AgentSession, Finish, ShownLoop
from .sub_agents import SubAgentAnswer, ask_agent, ask_agents
from .tools import NOT_RUN, mapping_of, run_actions
from .tree import Expiry
from .writes import PayloadMerge, is_mapped, writes_of

SUB_AGENT_EXPIRY = Expiry(3, "remove")
MAX_ACTIONS = 1_000
MAX_AGENTS = 50
AGENTS_TOGETHER = 5
"""Maximum number of sub-agents of one response that run at the same time."""


def run_calls(session: AgentSession, step: Actions) -> Routine:
    """Run the actions of a step. Returns whether any of them succeeded."""
    if len(step.calls) > MAX_ACTIONS:
        message = f"{len(step.calls):,} actions requested; one response may contain {MAX_ACTIONS:,}, a ForEach as many"
        session.tell_failure(f"{message} as its list has items")
        return False
    outcomes = yield from run_actions(session, step.calls)
    merged = PayloadMerge(session.payload, session.agent.allowed, together=True)
    warnings: list[str] = []
    for index, (call, outcome) in enumerate(zip(step.calls, outcomes, strict=True)):
        mapping = mapping_of(session, call)
        if mapping is not None and is_mapped(mapping, outcome):
            names = ReferenceNames({"payload": session.payload})
            merged.merge(index, writes_of(mapping, outcome.value, names, warnings))
        failures = session.failures.get(outcome.name, 0)
        text = action_text(outcome, crush=session.params["crushActionResults"], failures=failures)
        session.conversation.result("action-result", text, session.turn, _expiry(session, outcome.name))
        if not outcome.ok and outcome.code in NOT_RUN:
            session.note_failures([f"{outcome.name} was not run: {outcome.note}"])
    yield from _take_payload(session, merged, warnings)
    _count_repeated(session, step, outcomes)
    session.fault = next((f"{each.name}: {each.note or each.code}" for each in outcomes if not each.ok), "")
    return any(outcome.ok for outcome in outcomes)


def _count_repeated(session: AgentSession, step: Actions, outcomes: list[ActionOutcome]) -> None:
    """Count repetitions of the same actions with the same results and payload, which make no progress.

    Raise AgentEnded if the number of repetitions has reached its limit.
    """
    calls, results = [[each.name, each.params] for each in step.calls], [[each.code, each.value] for each in outcomes]
    digest = digest_of([calls, results, session.payload])
    unchanged = digest == session.last_actions and any(outcome.ok for outcome in outcomes)
    session.repeated, session.last_actions = session.repeated + 1 if unchanged else 1, digest
    if session.repeated < WARN_REPEATED:
        return
    fault = f"The same actions gave the same results {session.repeated} times in a row"
    session.note_failures([fault])
    if session.repeated >= MAX_REPEATED:
        raise AgentEnded("stalled", fault)
    session.tell(f"{fault}. Choose another step, wait with a While, or end with taskComplete.")


def _expiry(session: AgentSession, name: str) -> Expiry | None:
    action = session.agent.action(name)
    return session.agent.expires or (None if isinstance(action, str) else action.expires)


def _take_payload(session: AgentSession, merged: PayloadMerge, warnings: list[str]) -> Routine:
    notes = [*warnings, *merged.warnings]
    if merged.payload is not session.payload:
        session.payload = merged.payload
        yield variable_set("payload", session.payload)
        notes += session.misfit()
    session.tell_notes("where the results went", notes)


def run_sub_agents(session: AgentSession, asks: tuple[Ask, ...]) -> Routine:
    """Ask sub-agents.

    Returns a ``Finish`` if their success ends the parent, otherwise whether any of them succeeded. A sub-agent that has
    a question does not end the parent, which continues with the question.
    """
    if len(asks) > MAX_AGENTS:
        session.tell_failure(f"{len(asks):,} sub-agents requested; one response may contain {MAX_AGENTS}")
        return False
    path = f"{session.path}/turn {session.turn}"
    answers: list[SubAgentAnswer]
    if len(asks) == 1:
        answers = [(yield from ask_agent(session, asks[0], session.payload, path))]
    else:
        paths = [(f"{path}[{index}]", ask) for index, ask in enumerate(asks)]
        answers = yield from ask_agents(session, paths, session.payload, AGENTS_TOGETHER)
    outcomes = [answer.outcome for answer in answers]
    names = [outcome.name for outcome in outcomes]
    merged = PayloadMerge(session.payload, session.agent.allowed, together=len(asks) > 1, names=names)
    for index, answer in enumerate(answers):
        merged.merge(index, answer.writes)
        text = action_text(answer.outcome, crush=session.params["crushActionResults"])
        kind: Kind = "sub-agent-result"
        session.conversation.result(kind, text, session.turn, session.agent.expires or SUB_AGENT_EXPIRY)
    faults = [f"{outcome.name}: {outcome.note or outcome.code}" for outcome in outcomes if not outcome.ok]
    session.note_failures(faults)
    yield from _take_payload(session, merged, [refusal for answer in answers for refusal in answer.refused])
    ends = [outcome for ask, outcome in zip(asks, outcomes, strict=True) if ask.terminate_after]
    if ends and all(outcome.ok and outcome.note != "chat" for outcome in ends):
        return Finish("\n".join(str(outcome.value) for outcome in ends), session.payload)
    session.fault = next(iter(faults), "")
    return len(faults) < len(asks)


def run_loop(session: AgentSession, step: ForEach | While) -> Routine:
    """Run a loop. Returns whether it ran and not all of its iterations failed."""
    before = session.payload
    path = f"{session.path}/turn {session.turn}"
    done: LoopDone | str
    if isinstance(step, ForEach):
        done = yield from run_for_each(session, step, path)
    else:
        done = yield from run_while(session, step, path)
    if isinstance(done, str):
        session.tell_failure(done)
        return False
    if session.payload is not before:
        yield variable_set("payload", session.payload)
        session.tell_notes("where the results went", session.misfit())
    stopped = [done.stopped] if done.stopped else []
    nothing = [] if done.results.count or stopped or done.warnings else [f"there was nothing to do ({done.source})"]
    session.note_failures([*stopped, *done.warnings, *nothing], f"{done.kind}: ")
    turns = session.agent.loop_result_turns
    visibility = f"its results stay visible for {turns} turn(s) only" if turns else "its results are not shown"
    results = done.results
    line = f"{done.completed}: {results.count} processed, {results.errors} errors; {visibility}."
    session.conversation.result("loop-result", line, session.turn)
    if turns:
        text: str = yield from results.text(done.head)
        session.loops.append(ShownLoop(text, turns))
    session.fault = done.completed
    return results.errors < max(results.count, 1)
