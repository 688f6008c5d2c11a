"""Runs sub-agents, one by one or in parallel, each with its own conversation and payload.

Rule 1: a sub-agent receives the parts of the payload it may read, merged into its initial payload.
Rule 2: the parent receives only changes at places the sub-agent may write. Other changes are refused by name.
Rule 3: a value that the sub-agent saw only in part cannot be replaced or removed as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from stackmem.languages.frame.parallel import side_by_side
from stackmem.languages.operations import EnterFrame, LeaveFrame, Routine

from .conversation import ConversationEntry
from .paths import MISSING, look_up, path_text, visible
from .prompt import RUNTIME, prompt_params
from .response import Ask
from .results import ActionOutcome
from .session import MAX_DEPTH, AgentEnded, AgentSession, Finish
from .tree import Agent, Mode, SubAgent
from .writes import PayloadMerge, Write, writes_between

_BOOKENDS = 2


class SubAgentAnswer(Struct, frozen=True):
    """A sub-agent's outcome, the changes for its parent, and the changes that were refused."""

    outcome: ActionOutcome
    writes: tuple[Write, ...] = ()
    refused: tuple[str, ...] = ()


def agent_of(session: AgentSession, name: str) -> tuple[SubAgent, str, Agent] | str:
    """Return ``(entry, file, agent)`` of a sub-agent, or what is wrong with the name."""
    sub = session.agent.sub_agent(name)
    if isinstance(sub, str):
        return sub
    if sub.inline is not None:
        return sub, session.source, sub.inline
    source, agent = session.family.files[session.source, sub.file]
    return sub, source, agent


def runs_alone(session: AgentSession, name: str) -> bool:
    """Return whether a sub-agent must not run in parallel with others.

    This is so if it has actions or sub-agents, or a dollar limit.
    """
    entry = agent_of(session, name)
    if isinstance(entry, str):
        return True
    agent = entry[2]
    return bool(agent.actions or agent.sub_agents) or agent.limits.usd is not None


def ask_agents(session: AgentSession, asks: Sequence[tuple[str, Ask]], payload: Any, most: int) -> Routine:
    """Ask several ``(path, ask)`` and return the answers in order. Up to ``most`` run in parallel, if they may."""
    answers: dict[int, SubAgentAnswer] = {}
    together = [index for index, (_, ask) in enumerate(asks) if not runs_alone(session, ask.name)]
    branches = [ask_agent(session, asks[index][1], payload, asks[index][0], parallel=True) for index in together]
    if branches:
        parallel_answers = yield from side_by_side(branches, most)
        answers |= zip(together, parallel_answers, strict=True)
    for index, (path, ask) in enumerate(asks):
        if index not in answers:
            answers[index] = yield from ask_agent(session, ask, payload, path)
    return [answers[index] for index in range(len(asks))]


def ask_agent(session: AgentSession, ask: Ask, payload: Any, path: str, *, parallel: bool = False) -> Routine:
    """Ask a sub-agent and return its answer. The payload is not changed; see ``SubAgentAnswer.writes``.

    ``payload`` is the sub-agent's initial payload, limited to what it may read, which overrides its own definition.
    ``parallel`` says whether it runs in parallel with others, without a frame.
    """
    entry = agent_of(session, ask.name)
    if isinstance(entry, str):
        return SubAgentAnswer(ActionOutcome(ask.name[:80], ok=False, code="UNKNOWN_AGENT", note=entry))
    sub, source, agent = entry
    name = sub.name
    if session.depth + 1 >= MAX_DEPTH:
        message = f"agents may ask one another {MAX_DEPTH} deep; do this yourself"
        return SubAgentAnswer(ActionOutcome(name, ok=False, code="LIMIT", note=message))
    session.notify_debugger("line", f"asks {name}", sub.position.line)
    params = prompt_params(agent.prompt_params, ask.template.get(RUNTIME))
    child = AgentSession(
        agent, session.family, _begins(sub, agent, payload), _request(session, ask, sub), params,
        path=f"{path}/{name}", source=source, depth=session.depth + 1, data=ask.template,
        parallel=parallel or session.parallel,
    )  # fmt: skip
    child.parent, child.watches, child.caller = session.agent.name, session.watches, session
    payload_before = child.payload
    if not child.parallel:
        yield EnterFrame(name, ask.message)
    writes, refused = tuple[Write, ...](), tuple[str, ...]()
    try:
        finish: Finish = yield from session.family.run(child)
        outcome = ActionOutcome(name, ok=True, value=finish.message, note="chat" if finish.chat else "")
        writes, refused = _for_parent(sub, payload_before, finish.payload, payload)
    except AgentEnded as ended:
        outcome = ActionOutcome(name, ok=False, code=ended.kind.upper(), note=ended.reason)
    session.tokens += child.tokens
    if not child.parallel:
        yield LeaveFrame(str(outcome.value if outcome.ok else outcome.note))
    return SubAgentAnswer(outcome, writes, refused)


def _begins(sub: SubAgent, agent: Agent, payload: Any) -> dict[str, Any]:
    visible_part = visible(payload, sub.reads)
    return {**agent.payload, **({} if visible_part is MISSING else visible_part)}


def _for_parent(
    sub: SubAgent, payload_before: Any, after: Any, payload: Any
) -> tuple[tuple[Write, ...], tuple[str, ...]]:
    """Return the changes for the parent, and the refused ones."""
    merged = PayloadMerge(payload_before, sub.writes, together=False)
    merged.merge(0, writes_between(payload_before, after))
    writes, refused = list[Write](), merged.warnings
    changes = writes_between(payload_before, merged.payload)
    for write in (member for each in changes for member in _members(each, look_up(payload_before, each.path), payload)):
        before, real = look_up(payload_before, write.path), look_up(payload, write.path)
        if write.appended and real is MISSING:
            writes.append(Write(write.path, look_up(merged.payload, write.path)))
        elif not write.appended and before is not MISSING and isinstance(real, dict | list) and before != real:
            refused.append(f"'{path_text(write.path)}' stays as it is: only a part of it was shown")
        else:
            writes.append(write)
    return tuple(writes), tuple(f"{sub.name}: {text}" for text in refused)


def _members(write: Write, before: Any, payload: Any) -> Iterator[Write]:
    """Split an object that the sub-agent did not see into its members, if the parent already has an object there."""
    indivisible = write.appended or write.removes or before is not MISSING
    if indivisible or not isinstance(write.value, dict) or not isinstance(look_up(payload, write.path), dict):
        yield write
        return
    for name, value in write.value.items():
        yield from _members(Write((*write.path, name), value), MISSING, payload)


def _request(session: AgentSession, ask: Ask, sub: SubAgent) -> str:
    parts = [ask.message]
    if sub.writes:
        places = ", ".join(map(str, sub.writes))
        parts.append(f"Of the payload, your parent takes what you change at {places}; the rest stays your own.")
    if ask.context is not None:
        context = ask.context if isinstance(ask.context, str) else json.dumps(ask.context, ensure_ascii=False)
        parts.append(f"CONTEXT\n{context}")
    messages = parent_messages(_before_asking(session.conversation.entries), sub.messages)
    if messages:
        parts.append("CONVERSATION OF THE PARENT\n" + "\n\n".join(messages))
    return "\n\n".join(parts)


def _before_asking(entries: list[ConversationEntry]) -> list[ConversationEntry]:
    """Return the entries before the response that asks, because the sub-agent already receives its message."""
    asking = max((index for index, entry in enumerate(entries) if entry.from_model), default=len(entries))
    return entries[:asking]


def parent_messages(entries: list[ConversationEntry], mode: Mode) -> list[str]:
    """Return what a sub-agent sees of its parent's conversation."""
    texts = [f"{'PARENT' if entry.from_model else 'TOLD'}: {entry.text}" for entry in entries]
    match mode:
        case "none":
            return []
        case "latest":
            return texts[-1:]
        case "bookend" if len(texts) > _BOOKENDS + 1:
            remaining = len(texts) - _BOOKENDS - 1
            return [*texts[:_BOOKENDS], f"[{remaining} messages omitted for context management]", texts[-1]]
        case _:
            return texts
