"""A conversation with a user: when the user is asked, what the answers change, and which calls need permission.

Rule 1: A request is a frame below the root, or a turn of the one conversation. Between requests the harness asks the
    user for the next one.
Rule 2: Text that the user writes meanwhile reaches the model before its next request, and never changes a request that
    was already sent.
Rule 3: A call that leaves the sandbox is made only with the user's permission.
Rule 4: The user's permission rules (permissions.py) are checked before each call, with or without a conversation.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TypeGuard, assert_never

from msgspec import UNSET, json
from msgspec.structs import replace

from ..facts import Event, FramePopped, FramePushed, NoticeGiven, RunStarted
from ..frames import ROOT_RETURNS, last_words, standing_chars, tell
from ..heap import index
from ..images import listed
from ..limits import remaining
from ..log import Log
from ..memory_tools import heap_with_stored
from ..messages import ToolCall
from ..network import WebCall
from ..parallel import rules as parallel
from ..person_facts import (
    PermissionRule,
    PersonAccepted,
    PersonAttached,
    PersonCompacted,
    PersonDecided,
    PersonEvent,
    PersonPlanned,
    PersonRan,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
    TurnEnded,
    WordsAsked,
    WordsGiven,
)
from ..requests import AskPermission, AskPerson, AskUser, Effect
from ..state import Frame, Grant, Notice, Pending, Registers, Result, Session, State
from ..text import mark_cut
from ..tools import AskQuestion, EditFile, Refusal, RunCommand, WorkspaceCall, WriteFile, tool_name
from . import keeping, permissions, planning, upkeep
from .earlier import earlier_requests
from .related import related_requests
from .standing import Changes, StandingChange, add

RAN = "user command"
"""The code of a notice about commands that the user ran and files that the user attached."""

SESSION_TASK = "Work with a user, whose requests arrive one by one."
"""The task of a run that is a conversation."""

_NOT_MADE = "not made: the user ended this request"
_WRITES = (WriteFile, EditFile)


def opened(start: RunStarted) -> Session | None:
    """Return the session of a run that is a conversation; otherwise None."""
    if start.session is UNSET:
        return None
    standing: Changes = ()
    for entry in () if start.heap is UNSET else start.heap.standing:
        standing = add(standing, StandingChange(0, 0, 0, entry.text, entry.kind, earlier=True)).changes
    return Session(start.session, standing=standing, planning=start.session.mode == "plan")


def next_turn(state: State, session: Session) -> Event | Effect | None:
    """Return what follows from the conversation. None while the agent works on a request."""
    root = state.stack[0]
    if session.stopped:
        if state.running is not root:
            return FramePopped(state.running.id, _words(state, state.running), forced="stopped")
        return TurnEnded(_words(state, root), forced="stopped")
    if state.pending is not None or state.failures:
        return None
    if state.heard:
        return words_given(state)
    if notice := keeping.notice(state, session):
        return notice
    if effect := upkeep.question(state, session):
        return effect
    if session.request:
        return _request_frame(state, session)
    if session.steps and not session.working:
        return WordsGiven(session.steps[0])
    if session.ran and session.working:
        return NoticeGiven(RAN, "\n\n".join(session.ran), session.images or UNSET)
    return None if session.working else AskPerson()


def words_given(state: State) -> WordsGiven:
    """Return the fact with everything that the user wrote since the last request to the model."""
    return WordsGiven("\n".join(state.heard))


def _request_frame(state: State, session: Session) -> FramePushed:
    return FramePushed(
        frame=f"frame-{state.pushes + 1}",
        name=f"request-{session.requests}",
        intent=mark_cut(" ".join(session.request.split()), state.begun.budgets.intent_chars),
        return_spec=ROOT_RETURNS,
        constraint=remaining(state),
        context=earlier_requests(state) if session.rules.words is UNSET else "",
        request=session.request,
    )


def _words(state: State, frame: Frame) -> str:
    return mark_cut(last_words(frame), state.begun.budgets.root_result_chars) or "(it left no text)"


def without_call(state: State, pending: Pending) -> Event | Effect | None:
    """Return what a reply without a call means in a conversation: a question, or the result of the request.

    None if it is empty or cut short, or if another frame waits for more than text.
    """
    text = last_words(state.running)
    if not text or pending.stop in ("truncated", "refused") or state.session is None:
        return None
    if is_question(text):
        return AskUser(text)
    result = mark_cut(text, state.begun.budgets.root_result_chars)
    if state.running.request:
        return FramePopped(state.running.id, result)
    return TurnEnded(result) if state.session.rules.policy == "flat" and not state.running.depth else None


def is_question(text: str) -> bool:
    """Return whether a text ends in a question."""
    return text.rstrip().rstrip("*_`\"')”’").endswith(("?", "？", "؟"))


def open_question(state: State) -> str:
    """Return the question that the run is stalled on: its last text, if that is a question."""
    words = last_words(state.running)
    return words if state.begun.questions == "end" and is_question(words) else ""


def end_frame(state: State, ended: Event | Effect | Refusal) -> Event | Effect | Refusal:
    """Turn a pop of a conversation's root into the result of a request. That root never pops."""
    if state.session is None or state.running.depth or not isinstance(ended, FramePopped):
        return ended
    return TurnEnded(ended.result, ended.forced, ended.stored)


def ask(call: AskQuestion) -> AskUser | Refusal:
    """Return the agent's question to the user, or the refusal."""
    if not call.question.strip():
        return Refusal("bad_arguments", "ask_user refused: the question is empty", "say what you need to know")
    return AskUser(call.question, call.options)


def permission(state: State, pending: Pending, call: WorkspaceCall | ToolCall) -> AskPermission | Refusal | None:
    """Return what keeps a call from being made: a question to the user, or the user's denial."""
    session, rule = state.session, permissions.rule_for(state, call)
    if rule is not None and rule.effect == "deny":
        return permissions.denial(rule)
    if session is None:
        return Refusal("denied", permissions.without_user(permissions.spelled(rule))) if _rule_asks(rule) else None
    if not _rule_asks(rule) and (rule is not None or not _asks(state, session, call)):
        return None
    decided = pending.decided
    if decided is not None:
        reason = f": {decided.words}" if decided.words else ""
        return None if decided.allow else Refusal("denied", f"the user did not allow this call{reason}")
    request = _permission_for(state, call)
    if any(covers(grant, request, state) for grant in session.grants):
        return None
    return replace(request, rule=permissions.spelled(rule)) if rule is not None else request


def _rule_asks(rule: PermissionRule | None) -> TypeGuard[PermissionRule]:
    return rule is not None and rule.effect == "ask"


def _asks(state: State, session: Session, call: WorkspaceCall | ToolCall) -> bool:
    approve = session.rules.approve
    if approve == "all":
        return True
    if isinstance(call, ToolCall):  # a program may write files, and call the user's own tools
        return bool(state.begun.registered) or approve in ("writes", "commands")
    if isinstance(call, RunCommand | WebCall):
        return approve == "commands"
    return isinstance(call, _WRITES) and approve in ("writes", "commands")


def _permission_for(state: State, call: WorkspaceCall | ToolCall) -> AskPermission:
    if isinstance(call, ToolCall):
        outside = bool(state.begun.registered)
        return AskPermission(call.name, json.encode(call.arguments, order="deterministic").decode(), outside=outside)
    subject = getattr(call, call.__struct_fields__[0])
    detail = call.content if isinstance(call, WriteFile) else ""
    if isinstance(call, EditFile):
        detail = f"- {call.old_string}\n+ {call.new_string}"
    return AskPermission(tool_name(call), subject, detail)


def covers(grant: Grant, request: AskPermission, state: State) -> bool:
    """Return whether an earlier answer of the user allows a call."""
    if grant.tool != request.tool or (grant.frame and all(frame.id != grant.frame for frame in state.stack)):
        return False
    if not grant.pattern:
        return True
    literal_only = request.tool == tool_name(RunCommand) and permissions.SHELL & set(request.about)
    if literal_only and grant.pattern != request.about:
        return False
    literal = re.sub(r"[\[?]", r"[\g<0>]", grant.pattern)  # only * is special
    return fnmatchcase(request.about, literal)


def apply_person_event(
    state: State,
    event: PersonEvent,
) -> State:
    """Return the state after the user said, decided or ended something."""
    session = state.session
    line = keeping.command(session, event)
    if session is not None and line is not None:
        return keeping.obey(state, session, line)
    if isinstance(event, WordsGiven):
        quiet = replace(state, heard=())
        if session is not None and not session.working:
            steps = session.steps[1:] if session.steps[:1] == (event.text,) else session.steps
            return _begin_request(quiet, replace(session, steps=steps), event.text)
        return keeping.listen(tell(quiet, Notice(f"The user says:\n{event.text}", state.heap)), event.text)
    if isinstance(event, PersonSteppedIn):
        return replace(state, heard=(*state.heard, event.text))
    if session is None:
        return state
    match event:
        case PersonSaid():
            return _begin_request(state, session, event.text)
        case PersonStopped():
            return _stop(state, session)
        case PersonDecided():
            return _decide(state, session, event)
        case PersonRan():
            heap, ran = state.heap.with_digests(event.digests), (*session.ran, event.text)
            return replace(state, heap=heap, tree=event.tree or state.tree, session=replace(session, ran=ran))
        case PersonAttached():
            images = (*session.images, *listed(event.images))
            return replace(state, session=replace(session, ran=(*session.ran, event.text), images=images))
        case PersonPlanned() | PersonAccepted() | PersonCompacted():
            return planning.choose(state, session, event)
        case TurnEnded():
            return _end_turn(state, session, event)
        case WordsAsked():
            return upkeep.take(state, session, event)
        case _:
            assert_never(event)


def text_for_model(text: str) -> str:
    """Return the user's text as the model reads it. Providers refuse blank text."""
    return text if text.strip() else "(the user said nothing)"


def _begin_request(state: State, session: Session, text: str) -> State:
    text = text_for_model(text)
    unasked = upkeep.waits_for_question(session, text)
    updated = replace(session, requests=session.requests + 1, working=True, unasked=unasked)
    if session.rules.policy == "frame":
        return keeping.listen(replace(state, session=replace(updated, request=text)), text)
    return keeping.listen(replace(tell(state, Notice(text, state.heap)), session=updated, idle=0), text)


def _stop(state: State, session: Session) -> State:
    """Answer the open calls. The frames of the request are popped next, by the rules."""
    after = parallel.cancel(state)
    for call in state.pending.calls if state.pending else ():
        after = tell(after, Result(call.id, _NOT_MADE, True, state.heap, state.step))
    for words in state.pending.words if state.pending else ():
        after = tell(after, Notice(words, state.heap))
    in_frames = len(state.stack) > 1
    stopped = session.working and (in_frames or session.rules.policy == "flat")
    return replace(
        after,
        pending=None,
        failures=(),
        heard=(),
        session=replace(session, request="", stopped=stopped, working=stopped, unasked="", steps=(), compacting=False),
    )


def _decide(state: State, session: Session, event: PersonDecided) -> State:
    pending = state.pending
    if pending is None:
        return state
    decided = replace(state, pending=replace(pending, decided=event))
    if not event.allow or event.scope == "once":
        return decided
    frame = state.running.id if event.scope == "frame" else ""
    grant = Grant(pending.calls[0].name, event.pattern, frame)
    return replace(decided, session=replace(session, grants=(*session.grants, grant)))


def _end_turn(state: State, session: Session, event: TurnEnded) -> State:
    heap = heap_with_stored(state, event.stored)
    after = replace(state, heap=heap)
    for call in state.pending.calls if state.pending else ():
        after = tell(after, Result(call.id, "The user has the result.", False, heap, state.step))
    steps = () if event.forced else session.steps
    done = replace(session, working=False, stopped=False, steps=steps)
    return replace(after, pending=None, failures=(), idle=0, result=event.result, session=done)


def after_notice(state: State, code: str) -> State:
    """Return the state after the running frame got a notice."""
    if code == RAN and state.session is not None:
        return replace(state, session=replace(state.session, ran=(), images=()))
    return keeping.up_to_date(state) if code == keeping.NOTICE else state


def open_request(state: State, session: Session, event: FramePushed) -> State:
    """Return the state with the frame of a request running."""
    text = event.request if event.request is not UNSET else ""
    listed = index(state.heap, state.begun.budgets)
    context = event.context if session.rules.words is UNSET else earlier_requests(state)
    related = related_requests(state, text)
    chars = standing_chars(state.begun) + len(text) + len(context) + len(related) + len(listed)
    depth = state.running.depth + 1
    frame = Frame(
        id=event.frame,
        name=event.name,
        depth=depth,
        registers=Registers(event.intent, event.return_spec, event.constraint),
        context=context,
        opened=state.heap,
        turns=Log(),
        task=text,
        parent=state.running.id,
        started_step=state.step,
        started_tokens=state.usage.total,
        started_seconds=state.seconds,
        opened_chars=chars,
        chars=chars,
        pushed_at=depth,
        request=True,
        related=related,
        standing_seen=len(session.standing),
        standing_step=state.step,
    )
    stack = (*state.stack, frame)
    return replace(state, stack=stack, pushes=state.pushes + 1, idle=0, session=replace(session, request=""))


def after_request(state: State, forced: str) -> State:
    """Return the state after a request's frame has popped. The root has no turn about it; the log lists it instead."""
    session = state.session
    if session is None:
        return state
    grants = tuple(grant for grant in session.grants if not grant.frame)
    steps = () if forced else session.steps
    return replace(state, session=replace(session, working=False, stopped=False, grants=grants, steps=steps))
