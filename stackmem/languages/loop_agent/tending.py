"""What is done to a conversation before each prompt, and when a prompt is too long."""

from __future__ import annotations

from typing import Any

from stackmem.core.program_facts import StepEntered
from stackmem.languages.effects import Complete, Completion, prompt

from . import folding
from .life_cycle import RUNGS, pruned, recovered, summarised
from .session import Doing, Ended, Session


def tend(session: Session) -> Doing:
    """Remove and shorten what is due, and sum up where the conversation is long."""
    conversation = session.conversation
    before = sum(entry.final for entry in conversation.entries)
    asking = pruned(conversation, session.turn)
    changed = sum(entry.final for entry in conversation.entries) - before + len(asking)
    if changed:
        told = f"{changed} result{'s' if changed > 1 else ''} left the prompt or became shorter"
        yield StepEntered(f"{session.path}/turn {session.turn}", told)
    for index in asking:
        entry = conversation.entries[index]
        wanted = (entry.expires.prompt if entry.expires else "") or folding.COMPACT
        summary = yield from _summary(session, f"{wanted}\n\n{entry.text}")
        conversation.entries[index] = summarised(entry, summary)
    yield from _fold(session)


def _fold(session: Session) -> Doing:
    budget = folding.budget_of(session.agent.limits.context_tokens, session.family.window)
    plan = folding.planned(session.conversation, budget) if session.turn >= session.fold_after else None
    if isinstance(plan, folding.Fold):
        summary = yield from _summary(session, f"{folding.REQUEST}\n\n{plan.text}")
        if summary.strip():
            folding.folded(session.conversation, plan, summary, session.turn)
            too_long = folding.tokens_of(summary) > folding.TRIGGER * budget
            plan = folding.Skipped("The summary alone exceeds the trigger") if too_long else None
        else:
            session.fold_after = session.turn + folding.TURNS_AFTER_FAILURE
            plan = folding.Skipped("The summary failed; the conversation stays as it is")
    if isinstance(plan, folding.Skipped) and plan.reason[:16] != session.fold_told:
        session.fold_told = plan.reason[:16]
        yield StepEntered(f"{session.path}/turn {session.turn}", plan.reason)


def _summary(session: Session, text: str) -> Doing:
    """The model's summary; empty where it failed."""
    answer: Completion = yield Complete(prompt(text), folding.SYSTEM, name="summary", model=session.agent.model)
    session.tokens += answer.usage.total
    found: Any = "" if answer.failed else answer.text
    return found


def recover(session: Session) -> None:
    """Take the next rung that changes anything.

    Raises:
        Ended: There is none left.

    """
    while session.rung < RUNGS:
        session.rung += 1
        if recovered(session.conversation, session.turn, session.rung - 1):
            return
    raise Ended("Context Overflow", "the prompt is longer than the model takes, and nothing is left to shorten")
