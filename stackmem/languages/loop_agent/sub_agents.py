"""Asks another agent: in a frame of its own, with its own conversation, on a copy of the payload."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from stackmem.languages.operations import EnterFrame, LeaveFrame, Routine

from .conversation import ConversationEntry
from .prompt import RUNTIME, prompt_params
from .response import Ask
from .results import ActionOutcome
from .session import MOST_DEPTH, AgentEnded, AgentSession, Finish
from .tree import Agent, Mode
from .writes import Write, writes_between

_BOOKENDS = 2


class SubAgentAnswer(Struct, frozen=True):
    """What a sub-agent came to, and what it did to the payload."""

    outcome: ActionOutcome
    writes: tuple[Write, ...] = ()


def agent_of(session: AgentSession, name: str) -> tuple[str, str, Agent, Mode] | str:
    """``(name, file, agent, mode)`` of a sub-agent, or what is wrong."""
    sub = session.agent.sub_agent(name)
    if isinstance(sub, str):
        return sub
    if sub.inline is not None:
        return sub.name, session.source, sub.inline, sub.messages
    source, agent = session.family.files[session.source, sub.file]
    return sub.name, source, agent, sub.messages


def runs_alone(session: AgentSession, name: str) -> bool:
    """Whether a sub-agent must not run beside others: it has something to use, or its dollars are counted."""
    known = agent_of(session, name)
    if isinstance(known, str):
        return True
    agent = known[2]
    return bool(agent.actions or agent.sub_agents) or agent.limits.usd is not None


def ask_agent(session: AgentSession, ask: Ask, payload: Any, path: str, *, apart: bool = False) -> Routine:
    """What comes of asking; the payload is not changed, see ``Asked.writes``.

    Args:
        payload: What the sub-agent begins with, over what its own definition says.
        apart: It runs beside others, and has no frame.

    """
    known = agent_of(session, ask.name)
    if isinstance(known, str):
        return SubAgentAnswer(ActionOutcome(ask.name[:80], ok=False, code="UNKNOWN_AGENT", told=known))
    name, source, agent, mode = known
    if session.depth + 1 >= MOST_DEPTH:
        told = f"agents may ask one another {MOST_DEPTH} deep; do this yourself"
        return SubAgentAnswer(ActionOutcome(name, ok=False, code="LIMIT", told=told))
    params = prompt_params(agent.prompt_params, ask.template.get(RUNTIME))
    child = AgentSession(
        agent, session.family, {**agent.payload, **payload}, _request(session, ask, mode), params,
        path=f"{path}/{name}", source=source, depth=session.depth + 1, data=ask.template, apart=apart or session.apart,
    )  # fmt: skip
    child.parent, child.watches = session.agent.name, session.watches
    if not child.apart:
        yield EnterFrame(name, ask.message)
    try:
        finish: Finish = yield from session.family.run(child)
        outcome = ActionOutcome(name, ok=True, value=finish.message, told="chat" if finish.chat else "")
        writes = tuple(writes_between(payload, finish.payload))
    except AgentEnded as ended:
        outcome = ActionOutcome(name, ok=False, code=ended.kind.upper(), told=ended.reason)
        writes = ()
    session.tokens += child.tokens
    if not child.apart:
        yield LeaveFrame(str(outcome.value if outcome.ok else outcome.told))
    return SubAgentAnswer(outcome, writes)


def _request(session: AgentSession, ask: Ask, mode: Mode) -> str:
    parts = [ask.message]
    if ask.context is not None:
        context = ask.context if isinstance(ask.context, str) else json.dumps(ask.context, ensure_ascii=False)
        parts.append(f"CONTEXT\n{context}")
    shown = parent_messages(_before_asking(session.conversation.entries), mode)
    if shown:
        parts.append("CONVERSATION OF THE PARENT\n" + "\n\n".join(shown))
    return "\n\n".join(parts)


def _before_asking(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    """Without the response that asks, whose words for the sub-agent it has already."""
    asking = max((index for index, entry in enumerate(entries) if entry.from_model), default=len(entries))
    return entries[:asking]


def parent_messages(entries: list[ConversationEntry], mode: Mode) -> list[str]:
    """What a sub-agent sees of its parent's conversation."""
    texts = [f"{'PARENT' if entry.from_model else 'TOLD'}: {entry.text}" for entry in entries]
    match mode:
        case "none":
            return []
        case "latest":
            return texts[-1:]
        case "bookend" if len(texts) > _BOOKENDS + 1:
            left = len(texts) - _BOOKENDS - 1
            return [*texts[:_BOOKENDS], f"[{left} messages omitted for context management]", texts[-1]]
        case _:
            return texts
