"""The main loop: request a decision, carry it out, repeat.

Rule 1: every decision has an effect on the next prompt. For an unusable reply, the prompt contains the reason.
Rule 2: the loop always ends. The agent ends after three malformed replies, ten failed steps, five empty retries or
thirty repetitions of the same actions in a row, and at each of its limits. A turn without effect does not reset the
count of failures.
Rule 3: refusals, failures and steps without effect are recorded as events of the turn, in the words sent to the model.
Rule 4: the payload changes before the step of the same response is carried out.
"""

from __future__ import annotations

from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.core.requests import AskUser
from stackmem.languages.frame.values import variable_set
from stackmem.languages.operations import Complete, Completion, Routine, Say

from . import payload as payloads
from .compaction import recover, shorten_conversation
from .forms import ask_form, question_text
from .prompt import system_prompt, tail
from .response import (
    Actions,
    Again,
    Ask,
    Chat,
    ExpandResult,
    Failed,
    ForEach,
    Malformed,
    Response,
    SubAgents,
    Success,
    While,
    read_response,
)
from .session import (
    MAX_BARE,
    MAX_MISFITS,
    RAN_DRY,
    AgentEnded,
    AgentSession,
    Finish,
    refuse_overspent,
    start_fault,
    watch,
)
from .steps import run_calls, run_loop, run_sub_agents
from .sub_agents import agent_of


def run_agent(session: AgentSession) -> Routine:
    """Run an agent to its end and return its ``Finish``. Raise AgentEnded if the agent cannot continue."""
    system = system_prompt(session.agent, session.params, session.parent, _descriptions(session), session.data)
    yield from watch(session)
    name, prompt = (session.agent.places[key].line if key in session.agent.places else 0 for key in ("name", "prompt"))
    session.notify_debugger("entered", session.path, name)
    _check_start(session)
    while True:
        session.turn += 1
        session.notify_debugger("line", f"turn {session.turn}", name)
        _refuse_spent(session)
        yield from refuse_overspent(session)
        response = yield from _decide(session, system)
        session.notify_debugger("line", _decision_text(response), prompt)
        try:
            finish: Finish | None = yield from _carry_out(session, response)
        except AgentEnded:
            yield from session.report()
            raise
        yield from session.report()
        if finish is not None:
            session.notify_debugger("left", session.path)
            return finish


def _check_start(session: AgentSession) -> None:
    """End the agent if its payload does not fit its start schema, or warn about it if the agent says so."""
    fault = start_fault(session.agent, session.payload)
    if not fault:
        return
    message = f"the payload does not fit its start schema: {fault}"
    if session.agent.on_start_misfit == "fail":
        raise AgentEnded("Payload Misfit", message)
    session.tell_notes("your payload", [message])


def _descriptions(session: AgentSession) -> dict[str, str]:
    descriptions = {}
    for sub in session.agent.sub_agents:
        entry = agent_of(session, sub.name)
        if not isinstance(entry, str):
            descriptions[sub.name] = entry[2].description
    return descriptions


def _refuse_spent(session: AgentSession) -> None:
    limits = session.agent.limits
    if session.turn > limits.iterations:
        raise AgentEnded("Limit Reached", f"the agent has used its {limits.iterations:,} iterations")
    if limits.tokens is not None and session.tokens >= limits.tokens:
        raise AgentEnded("Limit Reached", f"the agent has used {session.tokens:,} of its {limits.tokens:,} tokens")


def _decide(session: AgentSession, system: str) -> Routine:
    """Request the model's response. A prompt that is too long is shortened and sent again."""
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
    """Describe the decision in the terms of the response format, with its message."""
    step, text = response.step, response.message
    match step:
        case Actions():
            kind = f"Actions {', '.join(call.name for call in step.calls)}"
        case Ask():
            kind = f"Sub-Agent {step.name}"
        case SubAgents():
            kind = f"Sub-Agents {', '.join(ask.name for ask in step.asks)}"
        case Again():
            kind = "Retry"
        case ExpandResult():
            kind = f"Retry with #{step.index}"
        case Malformed() | Failed() | Success() | Chat() | ForEach() | While():
            kind = type(step).__name__
    return ": ".join(" ".join(part.split())[:200] for part in (kind, text) if part)


def _carry_out(session: AgentSession, response: Response) -> Routine:
    """Carry out a response. Returns the ``Finish``, or None if the loop continues."""
    step = response.step
    if not isinstance(step, Malformed):
        session.malformed = 0
    session.tell_notes("your response", response.warnings, response.repairs)
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
    if not isinstance(step, Actions | Again | ExpandResult | Malformed | Failed):
        session.repeated = 0
    for command in response.automatic:
        yield Say(command.line)
    if not isinstance(step, Chat):
        for command in response.actionable:
            yield Say(command.line)
    return (yield from _perform_step(session, response))


def _perform_step(session: AgentSession, response: Response) -> Routine:
    """Perform the step of a response. Returns the ``Finish``, or None if the loop continues.

    Every case returns, so that the type checker verifies that all kinds of steps are handled.
    """
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
            return _continue(session)
        case ExpandResult():
            expanded = session.conversation.expand(step.index, session.turn)
            session.note_failures([] if expanded else [session.conversation.entries[-1].text])
            return _count_failure(session, ok=expanded)
        case Actions():
            return _count_failure(session, ok=(yield from run_calls(session, step)))
        case ForEach() | While():
            return _count_failure(session, ok=(yield from run_loop(session, step)))
        case Ask() | SubAgents():
            finish = yield from run_sub_agents(session, step.asks if isinstance(step, SubAgents) else (step,))
            return _success(session, finish) if isinstance(finish, Finish) else _count_failure(session, ok=bool(finish))


def _count_failure(session: AgentSession, *, ok: bool) -> None:
    """Count consecutive failed steps, and end the agent at its limit.

    Raise AgentEnded if the number of failures has reached its limit.
    """
    session.failed = 0 if ok else session.failed + 1
    if session.failed >= session.agent.limits.failures:
        raise AgentEnded("Failed", f"{session.failed} steps failed in a row; the last: {session.fault[:500]}")


def _count_malformed(session: AgentSession, fault: str) -> None:
    session.malformed += 1
    session.note_failures([f"the response could not be used: {fault}"])
    if session.malformed >= RAN_DRY:
        raise AgentEnded("Malformed Response", f"{RAN_DRY} responses in a row could not be used; the last: {fault}")
    session.tell(f"Your response could not be used: {fault}. Respond again with one JSON object and nothing else.")


def _continue(session: AgentSession) -> None:
    if not session.bare:
        session.tell("Done. Go on.")
        return
    nothing = "Nothing was done. Choose a step that does something, or end with taskComplete."
    session.note_failures([nothing])
    if session.bare >= MAX_BARE:
        raise AgentEnded("stalled", f"{MAX_BARE} responses in a row did nothing but ask for another turn")
    session.tell(nothing)


def _success(session: AgentSession, finish: Finish) -> Finish | None:
    """Accept the agent's end, if it is allowed.

    Returns None if actions must run first or the payload does not fit its schema; the model then reads why.

    Raise AgentEnded if the last payload does not fit its schema, and the agent gets no further attempt.
    """
    short = [
        f"{action.name} ({session.runs.get(action.name, 0)} of {action.min_runs})"
        for action in session.agent.actions
        if session.runs.get(action.name, 0) < action.min_runs
    ]
    if short:
        session.tell_failure(f"the task is not complete: these actions must run first: {', '.join(short)}")
        _count_failure(session, ok=False)
        return None
    misfit = "".join(session.misfit())
    if not misfit:
        return finish
    if session.agent.on_misfit == "warn":
        session.note_failures([misfit])
        return finish
    session.misfits += 1
    if session.agent.on_misfit == "fail" or session.misfits > MAX_MISFITS:
        session.note_failures([misfit])
        raise AgentEnded("Payload Misfit", misfit)
    session.tell_failure(f"the task is not complete: {misfit}; change the payload so that it fits, then end")
    _count_failure(session, ok=False)
    return None


def _chat(session: AgentSession, step: Chat, response: Response) -> Routine:
    for command in response.actionable:
        yield Say(command.line)
    if session.depth:
        questions = [question_text(question) for question in step.form.questions] if step.form else []
        return Finish("\n".join([step.message, *questions]), session.payload, chat=True)
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
    flags = [f"please look at this again: {flag}" for flag in change.flags]
    remarks = (*flags, *change.corrections)
    session.tell_notes("your payload change", [*change.warnings, *change.blocked, *session.misfit(), *flags], remarks)
