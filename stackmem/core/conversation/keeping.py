"""How the user's standing words change in a conversation, and how each frame learns of the changes.

Rule 1: They change by a command of the user (``/remember``, ``#``, ``/forget``), by the wording of the user's message,
    and by the agent's call of ``remember``, which must quote a message of the user.
Rule 2: A frame whose prompt lacks a change gets a notice before its next request to the model. So a parent learns what
    changed during a child, and a running frame what the user stored meanwhile.
Rule 3: In a flat conversation they are repeated after a summary and after ``REPEATED_AFTER`` replies, because a
    strategy may have cut the messages that contained them.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.facts import Event, NoticeGiven
from stackmem.core.person_facts import PersonEvent, PersonSaid, PersonSteppedIn
from stackmem.core.state import Session, State
from stackmem.core.tools import Remember

from .standing import (
    Changes,
    ForgetLine,
    RememberLine,
    StandingChange,
    StandingOutcome,
    UserMessage,
    active,
    add,
    block,
    memory_line,
    quotes,
    remove,
    standing_sentences,
)

NOTICE = "standing words"
REPEATED_AFTER = 30


def command(session: Session | None, event: PersonEvent) -> RememberLine | ForgetLine | None:
    """Return the user's command to change the standing words, or None for any other event."""
    if session is None or session.rules.words is UNSET or not isinstance(event, PersonSaid | PersonSteppedIn):
        return None
    return memory_line(event.text)


def outcome_of(session: Session, line: RememberLine | ForgetLine) -> StandingOutcome:
    """Return what a command of the user leads to, with the message for the user."""
    number = session.requests
    if isinstance(line, ForgetLine):
        return remove(session.standing, line.number, number)
    return add(session.standing, StandingChange(0, number, number, line.text))


def obey(state: State, session: Session, line: RememberLine | ForgetLine) -> State:
    """Return the state after a command of the user."""
    return replace(state, session=replace(session, standing=outcome_of(session, line).changes))


def standing_of(state: State) -> Changes:
    """Return the standing words of a conversation; empty in other runs."""
    return () if state.session is None else state.session.standing


def messages_about(event: Event, before: State, after: State) -> tuple[str, ...]:
    """Return what the user is told about a fact that changed the standing words, or that should have."""
    if before.session is None or after.session is None:
        return ()
    if isinstance(event, PersonSaid | PersonSteppedIn) and (line := command(before.session, event)) is not None:
        return (outcome_of(before.session, line).message,)
    count = len(before.session.standing)
    return tuple(f"{change.line} (/forget {change.number} removes it)" for change in after.session.standing[count:])


def listen(state: State, text: str) -> State:
    """Return the state after the running frame read a message of the user.

    Sentences whose wording says that they outlive the request become entries.
    """
    session = state.session
    if session is None or session.rules.words is UNSET:
        return state
    changes, number = session.standing, session.requests
    for sentence in standing_sentences(text):
        changes = add(changes, StandingChange(0, number, number, sentence, by="wording")).changes
    messages = session.said.append(UserMessage(number, text))
    seen = len(changes) - len(session.standing)
    after = replace(state, session=replace(session, standing=changes, said=messages))
    frame = after.running
    up_to_date = frame.standing_seen == len(session.standing)
    return _with_seen(after, frame.standing_seen + seen) if seen and up_to_date else after


def remembered(session: Session, call: Remember) -> StandingOutcome:
    """Return what the agent's call leads to. Its words must be a passage of a message of the user.

    It may replace an entry only with words from the current request, because only then did the user contradict it.
    """
    messages = [message for message in session.said if quotes(call.words, message.text)]
    if not messages:
        reason = (
            "the user did not say these words; copy a passage of the user's own messages exactly. Text from files, "
            "commands and results is never kept"
        )
        return StandingOutcome(session.standing, reason, done=False)
    source = messages[-1].request
    if call.replaces and source != session.requests:
        reason = f"these words are from request {source}; only words of the current request can replace an entry"
        return StandingOutcome(session.standing, reason, done=False)
    entry = StandingChange(0, session.requests, source, call.words, call.kind, "agent", call.replaces)
    return add(session.standing, entry)


def with_entry(state: State, changes: Changes) -> State:
    """Return the state with the entry that the running frame stored and has seen."""
    session = state.session
    if session is None:
        return state
    frame = state.running
    after = replace(state, session=replace(session, standing=changes))
    return _with_seen(after, len(changes)) if frame.standing_seen == len(session.standing) else after


def up_to_date(state: State) -> State:
    """Return the state after a notice with all changes reached the running frame."""
    return state if state.session is None else _with_seen(state, len(state.session.standing))


def _with_seen(state: State, seen: int) -> State:
    frame = replace(state.running, standing_seen=seen, standing_step=state.step)
    return replace(state, stack=(*state.stack[:-1], frame))


def notice(state: State, session: Session) -> NoticeGiven | None:
    """Return the notice with the changes that the running frame has not seen, or None."""
    frame, flat = state.running, session.rules.policy == "flat"
    if not session.standing or not session.working or not (frame.depth or flat):
        return None
    behind = frame.standing_seen < 0
    if flat and not frame.depth:
        behind = behind or state.step - frame.standing_step >= REPEATED_AFTER
    if behind:
        return NoticeGiven(NOTICE, block(session.standing)) if active(session.standing) else None
    changes = session.standing[frame.standing_seen :]
    return NoticeGiven(NOTICE, "\n".join(change.line for change in changes)) if changes else None
