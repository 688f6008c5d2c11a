"""The loop: ask for a decision, carry it out, ask again.

Rule 1: every decision leads to something that the next prompt holds; a reply that cannot be used is told why.
Rule 2: nothing goes on forever: three malformed replies, ten failed steps or five empty retries in a row end the
        agent, and so does each of its limits. What does nothing is no end of a row of failures.
Rule 3: the payload changes before the step of the same response is carried out.
"""

from __future__ import annotations

from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.languages.effects import AskUser, Complete, Completion, Say
from stackmem.languages.frame.values import variable_set

from . import payload as payloads
from .asking import ask_form
from .forms import shown
from .operations import Ask, ForEach, While
from .prompt import system_prompt, tail
from .response import Actions, Again, Chat, Expand, Failed, Malformed, Response, Success, understood
from .session import MOST_BARE, RAN_DRY, Doing, Ended, Finish, Session
from .spending import refuse_overspent, watch
from .steps import run_calls, run_loop, run_sub_agent
from .sub_agents import agent_of
from .tending import recover, tend


def run_agent(session: Session) -> Doing:
    """The agent's ``Finish``.

    Raises:
        Ended: It cannot go on.

    """
    system = system_prompt(session.agent, session.params, session.parent, _described(session), session.data)
    yield from watch(session)
    while True:
        session.turn += 1
        _refuse_spent(session)
        yield from refuse_overspent(session)
        response = yield from _decided(session, system)
        finish: Finish | None = yield from _carried_out(session, response)
        if finish is not None:
            return finish


def _described(session: Session) -> dict[str, str]:
    found = {}
    for sub in session.agent.sub_agents:
        known = agent_of(session, sub.name)
        if not isinstance(known, str):
            found[sub.name] = known[2].description
    return found


def _refuse_spent(session: Session) -> None:
    limits = session.agent.limits
    if session.turn > limits.iterations:
        raise Ended("Limit Reached", f"the agent has used its {limits.iterations:,} iterations")
    if limits.tokens is not None and session.tokens >= limits.tokens:
        raise Ended("Limit Reached", f"the agent has used {session.tokens:,} of its {limits.tokens:,} tokens")


def _decided(session: Session, system: str) -> Doing:
    """The model's response; a prompt that is too long is shortened and sent again."""
    yield from tend(session)
    while True:
        prompt = session.conversation.prompt(tail(session.payload, session.params, session.tail_loops))
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
    response = understood(answer.text)
    yield StepEntered(f"{session.path}/turn {session.turn}", _announced(response))
    return response


def _announced(response: Response) -> str:
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


def _carried_out(session: Session, response: Response) -> Doing:
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
    return (yield from _stepped(session, response))


def _stepped(session: Session, response: Response) -> Doing:
    """The end, or None; every kind of step returns, so that the type checker counts them."""
    step = response.step
    match step:
        case Success():
            return _success(session, Finish(step.message, session.payload))
        case Chat():
            return (yield from _chat(session, step, response))
        case Malformed():
            return _malformed(session, step.fault)
        case Failed():
            session.tell_failure(step.fault)
            return _settled(session, ok=False)
        case Again():
            return _again(session)
        case Expand():
            return _settled(session, ok=session.conversation.expand(step.index, session.turn))
        case Actions():
            return _settled(session, ok=(yield from run_calls(session, step)))
        case ForEach() | While():
            return _settled(session, ok=(yield from run_loop(session, step)))
        case Ask():
            finish = yield from run_sub_agent(session, step)
            return _success(session, finish) if isinstance(finish, Finish) else _settled(session, ok=bool(finish))


def _settled(session: Session, *, ok: bool) -> None:
    """Count a step that failed.

    Raises:
        Ended: It was the last that is borne.

    """
    session.failed = 0 if ok else session.failed + 1
    if session.failed >= session.agent.limits.failures:
        raise Ended("Failed", f"{session.failed} steps failed in a row; the last: {session.fault[:500]}")


def _malformed(session: Session, fault: str) -> None:
    session.malformed += 1
    if session.malformed >= RAN_DRY:
        raise Ended("Malformed Response", f"{RAN_DRY} responses in a row could not be used; the last: {fault}")
    session.tell(f"Your response could not be used: {fault}. Respond again with one JSON object and nothing else.")


def _again(session: Session) -> None:
    if session.bare >= MOST_BARE:
        raise Ended("stalled", f"{MOST_BARE} responses in a row did nothing but ask for another turn")
    nothing = "Nothing was done. Choose a step that does something, or end with taskComplete."
    session.tell(nothing if session.bare else "Done. Go on.")


def _success(session: Session, finish: Finish) -> Finish | None:
    """The end; None where actions have to run before it, which is told."""
    short = [
        f"{action.name} ({session.runs.get(action.name, 0)} of {action.min_runs})"
        for action in session.agent.actions
        if session.runs.get(action.name, 0) < action.min_runs
    ]
    if short:
        session.tell_failure(f"the task is not complete: these actions must run first: {', '.join(short)}")
        _settled(session, ok=False)
        return None
    return finish


def _chat(session: Session, step: Chat, response: Response) -> Doing:
    for command in response.actionable:
        yield Say(command.line)
    if session.depth:
        asked = [shown(question) for question in step.form.questions] if step.form else []
        return Finish("\n".join([step.message, *asked]), session.payload, chat=True)
    if step.form is None:
        answer: Any = yield AskUser(step.message)
        session.tell(f"The person replied:\n{answer}" if answer.strip() else "The person gave an empty reply.")
    else:
        answer = yield from ask_form(step.message, step.form)
        session.tell(f"The person filled in the form:\n{answer}")
    return None


def _change(session: Session, request: dict[str, Any]) -> Doing:
    change = payloads.changed(session.payload, request, session.agent.allowed)
    session.payload = change.result
    yield variable_set("payload", change.result)
    notes = [*change.warnings, *change.blocked, *session.misfit()]
    if change.requires_feedback:
        notes += [f"please look at this again: {flag}" for flag in change.flags]
    session.tell_notes("your payload change", notes)
