"""The loop: ask for a decision, carry it out, ask again.

Rule 1: every decision leads to something that the next prompt holds; a reply that cannot be used is told why.
Rule 2: nothing goes on forever: three malformed replies, ten failed steps or five empty retries in a row end the
        agent, and so does each of its limits. What does nothing is no end of a row of failures.
Rule 3: the payload changes before the step of the same response is carried out.
"""

from __future__ import annotations

from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.core.requests import AskUser
from stackmem.languages.frame.values import variable_set
from stackmem.languages.operations import Complete, Completion, Routine, Say

from . import payload as payloads
from .compaction import recover, shorten_conversation
from .conversation import Kind
from .forms import ask_form, question_text
from .loops import run_for_each, run_while
from .prompt import system_prompt, tail
from .references import ReferenceNames
from .response import (
    Actions,
    Again,
    Ask,
    Chat,
    Expand,
    Failed,
    ForEach,
    Malformed,
    Response,
    Success,
    While,
    read_response,
)
from .results import LoopDone, action_text
from .session import MOST_BARE, RAN_DRY, AgentEnded, AgentSession, Finish, ShownLoop, refuse_overspent, watch
from .sub_agents import SubAgentAnswer, agent_of, ask_agent
from .tools import NOT_RUN, mapping_of, run_actions
from .tree import Expiry
from .writes import PayloadMerge, writes_of


def run_agent(session: AgentSession) -> Routine:
    """The agent's ``Finish``.

    Raises:
        AgentEnded: It cannot go on.

    """
    system = system_prompt(session.agent, session.params, session.parent, _descriptions(session), session.data)
    yield from watch(session)
    while True:
        session.turn += 1
        _refuse_spent(session)
        yield from refuse_overspent(session)
        response = yield from _decide(session, system)
        finish: Finish | None = yield from _carry_out(session, response)
        if finish is not None:
            return finish


def _descriptions(session: AgentSession) -> dict[str, str]:
    found = {}
    for sub in session.agent.sub_agents:
        known = agent_of(session, sub.name)
        if not isinstance(known, str):
            found[sub.name] = known[2].description
    return found


def _refuse_spent(session: AgentSession) -> None:
    limits = session.agent.limits
    if session.turn > limits.iterations:
        raise AgentEnded("Limit Reached", f"the agent has used its {limits.iterations:,} iterations")
    if limits.tokens is not None and session.tokens >= limits.tokens:
        raise AgentEnded("Limit Reached", f"the agent has used {session.tokens:,} of its {limits.tokens:,} tokens")


def _decide(session: AgentSession, system: str) -> Routine:
    """The model's response; a prompt that is too long is shortened and sent again."""
    yield from shorten_conversation(session)
    while True:
        loops = [loop.text for loop in session.loops]
        prompt = session.conversation.prompt(tail(session.payload, session.params, loops))
        answer: Completion = yield Complete(
            prompt.messages, system, None, prompt.breakpoints, session.agent.name, session.agent.model
        )
        session.tokens += answer.usage.total
        if answer.failed != "window":
            break
        recover(session)
    session.rung = 0
    session.age_loops()
    session.conversation.reply(answer.text, session.turn)
    if answer.failed == "truncated":
        return Response(Malformed("the reply was cut off at the model's limit; give a shorter one"))
    if answer.failed:
        return Response(Failed(answer.detail or answer.failed))
    response = read_response(answer.text)
    yield StepEntered(f"{session.path}/turn {session.turn}", _decision_text(response))
    return response


def _decision_text(response: Response) -> str:
    """The decision in the words of the format, and what was said or is wrong."""
    step, said = response.step, response.message
    match step:
        case Actions():
            kind = f"Actions {', '.join(call.name for call in step.calls)}"
        case Ask():
            kind = f"Sub-Agent {step.name}"
        case Again():
            kind = "Retry"
        case Expand():
            kind = f"Retry with #{step.index}"
        case Malformed() | Failed():
            kind, said = type(step).__name__, step.fault
        case Success() | Chat() | ForEach() | While():
            kind = type(step).__name__
    return ": ".join(" ".join(part.split())[:200] for part in (kind, said) if part)


def _carry_out(session: AgentSession, response: Response) -> Routine:
    """The end, or None where the loop goes on."""
    step = response.step
    if not isinstance(step, Malformed):
        session.malformed = 0
    session.tell_notes("your response", response.warnings)
    before = session.payload
    if response.change:
        yield from _change(session, response.change)
    does = response.automatic or response.actionable or response.scratchpad or session.payload is not before
    if isinstance(step, Again) and not does:
        session.bare += 1
    elif not isinstance(step, Malformed | Failed):
        session.bare = 0
    if isinstance(step, Chat) or (isinstance(step, Again) and does):
        session.failed = 0
    for command in response.automatic:
        yield Say(command.line)
    if not isinstance(step, Chat):
        for command in response.actionable:
            yield Say(command.line)
    return (yield from _perform_step(session, response))


def _perform_step(session: AgentSession, response: Response) -> Routine:
    """The end, or None; every kind of step returns, so that the type checker counts them."""
    step = response.step
    match step:
        case Success():
            return _success(session, Finish(step.message, session.payload))
        case Chat():
            return (yield from _chat(session, step, response))
        case Malformed():
            return _count_malformed(session, step.fault)
        case Failed():
            session.tell_failure(step.fault)
            return _count_failure(session, ok=False)
        case Again():
            return _again(session)
        case Expand():
            return _count_failure(session, ok=session.conversation.expand(step.index, session.turn))
        case Actions():
            return _count_failure(session, ok=(yield from run_calls(session, step)))
        case ForEach() | While():
            return _count_failure(session, ok=(yield from run_loop(session, step)))
        case Ask():
            finish = yield from run_sub_agent(session, step)
            return _success(session, finish) if isinstance(finish, Finish) else _count_failure(session, ok=bool(finish))


def _count_failure(session: AgentSession, *, ok: bool) -> None:
    """Count a step that failed.

    Raises:
        AgentEnded: It was the last that is borne.

    """
    session.failed = 0 if ok else session.failed + 1
    if session.failed >= session.agent.limits.failures:
        raise AgentEnded("Failed", f"{session.failed} steps failed in a row; the last: {session.fault[:500]}")


def _count_malformed(session: AgentSession, fault: str) -> None:
    session.malformed += 1
    if session.malformed >= RAN_DRY:
        raise AgentEnded("Malformed Response", f"{RAN_DRY} responses in a row could not be used; the last: {fault}")
    session.tell(f"Your response could not be used: {fault}. Respond again with one JSON object and nothing else.")


def _again(session: AgentSession) -> None:
    if session.bare >= MOST_BARE:
        raise AgentEnded("stalled", f"{MOST_BARE} responses in a row did nothing but ask for another turn")
    nothing = "Nothing was done. Choose a step that does something, or end with taskComplete."
    session.tell(nothing if session.bare else "Done. Go on.")


def _success(session: AgentSession, finish: Finish) -> Finish | None:
    """The end; None where actions have to run before it, which is told."""
    short = [
        f"{action.name} ({session.runs.get(action.name, 0)} of {action.min_runs})"
        for action in session.agent.actions
        if session.runs.get(action.name, 0) < action.min_runs
    ]
    if short:
        session.tell_failure(f"the task is not complete: these actions must run first: {', '.join(short)}")
        _count_failure(session, ok=False)
        return None
    return finish


def _chat(session: AgentSession, step: Chat, response: Response) -> Routine:
    for command in response.actionable:
        yield Say(command.line)
    if session.depth:
        asked = [question_text(question) for question in step.form.questions] if step.form else []
        return Finish("\n".join([step.message, *asked]), session.payload, chat=True)
    if step.form is None:
        answer: Any = yield AskUser(step.message)
        session.tell(f"The person replied:\n{answer}" if answer.strip() else "The person gave an empty reply.")
    else:
        answer = yield from ask_form(step.message, step.form)
        session.tell(f"The person filled in the form:\n{answer}")
    return None


def _change(session: AgentSession, request: dict[str, Any]) -> Routine:
    change = payloads.apply_change(session.payload, request, session.agent.allowed)
    session.payload = change.result
    yield variable_set("payload", change.result)
    notes = [*change.warnings, *change.blocked, *session.misfit()]
    notes += [f"please look at this again: {flag}" for flag in change.flags]
    session.tell_notes("your payload change", notes)


SUB_AGENT_EXPIRY = Expiry(3, "remove")
MOST_ACTIONS = 1_000


def run_calls(session: AgentSession, step: Actions) -> Routine:
    """Whether any of the actions did what was asked."""
    if len(step.calls) > MOST_ACTIONS:
        told = f"{len(step.calls):,} actions were asked for; one response may have {MOST_ACTIONS:,}, a ForEach as many"
        session.tell_failure(f"{told} as its list has items")
        return False
    outcomes = yield from run_actions(session, step.calls)
    merged = PayloadMerge(session.payload, session.agent.allowed, together=True)
    warnings: list[str] = []
    for index, (call, outcome) in enumerate(zip(step.calls, outcomes, strict=True)):
        mapping = mapping_of(session, call)
        if outcome.ok and mapping is not None:
            merged.merge(
                index, writes_of(mapping, outcome.value, ReferenceNames({"payload": session.payload}), warnings)
            )
        failures = session.failures.get(outcome.name, 0)
        text = action_text(outcome, crush=session.params["crushActionResults"], failures=failures)
        session.conversation.result("action-result", text, session.turn, _expiry(session, outcome.name))
        if not outcome.ok and outcome.code in NOT_RUN:
            told = f"{outcome.name} was not run: {outcome.told}"
            yield StepEntered(f"{session.path}/turn {session.turn}", " ".join(told.split())[:300])
    yield from _take_payload(session, merged, warnings)
    session.fault = next((f"{each.name}: {each.told or each.code}" for each in outcomes if not each.ok), "")
    return any(outcome.ok for outcome in outcomes)


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


def run_sub_agent(session: AgentSession, step: Ask) -> Routine:
    """A ``Finish`` where the sub-agent's success ends its parent, else whether it succeeded.

    What it has to ask is no end: the parent goes on with it.
    """
    path = f"{session.path}/turn {session.turn}"
    asked: SubAgentAnswer = yield from ask_agent(session, step, session.payload, path)
    merged = PayloadMerge(session.payload, session.agent.allowed, together=False)
    merged.merge(0, asked.writes)
    text = action_text(asked.outcome, crush=session.params["crushActionResults"])
    kind: Kind = "sub-agent-result"
    session.conversation.result(kind, text, session.turn, session.agent.expires or SUB_AGENT_EXPIRY)
    yield from _take_payload(session, merged, [])
    if step.terminate_after and asked.outcome.ok and asked.outcome.told != "chat":
        return Finish(str(asked.outcome.value), session.payload)
    session.fault = f"{asked.outcome.name}: {asked.outcome.told}"
    return asked.outcome.ok


def run_loop(session: AgentSession, step: ForEach | While) -> Routine:
    """Whether the loop ran, and did anything that it was to do."""
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
    turns = session.agent.loop_result_turns
    shown = f"its results are shown for {turns} turn(s) only" if turns else "its results are not shown"
    results = done.results
    line = f"{done.completed}: {results.count} processed, {results.errors} errors; {shown}."
    session.conversation.result("loop-result", line, session.turn)
    if turns:
        text: str = yield from results.text(done.head)
        session.loops.append(ShownLoop(text, turns))
    session.fault = done.completed
    return results.errors < max(results.count, 1)
