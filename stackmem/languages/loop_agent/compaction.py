"""Removes or shortens old results in the prompt, and summarizes long conversations.

A result is due when it is older than its number of turns. Changing it invalidates the cached prompt after it. It is
therefore changed only once the characters saved from there on are at least the characters that remain after it; until
then it is deferred. The first result that is changed is the boundary: the prompt before it keeps its bytes.

Summaries are guarded against churn. They start at 75% of the token budget and reduce the conversation to 30%. They need
a gain of at least 500 tokens and at least three entries, and wait five turns after a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.program_facts import StepEntered
from stackmem.core.text import shorten_text
from stackmem.languages.operations import Complete, Completion, Routine, prompt

from .conversation import RESULTS, AgentConversation, ConversationEntry
from .session import AgentEnded, AgentSession
from .tree import Expiry

_MARK_CHARS = 60


def due(entry: ConversationEntry, turn: int) -> bool:
    """Return whether a result is older than its number of turns."""
    return entry.volatile and entry.expires is not None and turn - entry.turn > entry.expires.turns


def boundary(entries: list[ConversationEntry], turn: int) -> int:
    """Return the index from which due results are changed; the number of entries if none are."""
    start, saved, behind = len(entries), 0, 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if due(entry, turn):
            saved += max(0, len(entry.text) - _kept_chars(entry))
            if saved >= behind:
                start = index
            behind += min(len(entry.text), _kept_chars(entry))
        else:
            behind += len(entry.text)
    return start


def _kept_chars(entry: ConversationEntry) -> int:
    compact = entry.expires is not None and entry.expires.mode == "compact"
    return _MARK_CHARS + (entry.expires.chars + _MARK_CHARS if compact and entry.expires else 0)


def prune(conversation: AgentConversation, turn: int) -> list[int]:
    """Remove and shorten due results after the boundary. Returns the indexes of those to be summarized by the model."""
    start, asking = boundary(conversation.entries, turn), list[int]()
    for index in range(start, len(conversation.entries)):
        entry = conversation.entries[index]
        if not due(entry, turn) or entry.expires is None:
            continue
        if entry.expires.mode == "remove":
            conversation.entries[index] = remove(entry)
        elif entry.expires.by == "summary":
            asking.append(index)
        else:
            conversation.entries[index] = compact(entry, entry.expires.chars)
    return asking


def remove(entry: ConversationEntry) -> ConversationEntry:
    """Replace an entry's text by a mark, unless the text is already as short."""
    if len(entry.text) <= _MARK_CHARS:
        return entry
    return replace(
        entry, text=f"[#{entry.number}] [Removed: {len(entry.text):,} characters]", original=None, final=True
    )


def compact(entry: ConversationEntry, chars: int) -> ConversationEntry:
    """Cut an entry to its first characters, if it is longer. An entry can be expanded at most once."""
    once = bool(entry.number) and not (entry.final and entry.original is None)
    hint = "Agent can request expansion if needed." if once else "It cannot be expanded again."
    mark = f"\n\n[Compacted: showing first {chars:,} of {len(entry.text):,} characters. {hint}]"
    text = shorten_text(entry.text, chars, mark)
    full_text = entry.text if entry.original is None else entry.original
    return replace(entry, text=text, original=full_text if once and text != entry.text else entry.original, final=True)


def summarize(entry: ConversationEntry, summary: str) -> ConversationEntry:
    """Replace an entry's text by the model's summary, or cut it if the summary is empty or not shorter."""
    mark = f"[AI Summary of {len(entry.text):,} chars. Agent can request full expansion if needed.]"
    text = f"[#{entry.number}] {mark}\n\n{summary.strip()}"
    if not summary.strip() or len(text) >= len(entry.text):
        return compact(entry, entry.expires.chars if entry.expires else Expiry(0).chars)
    return replace(entry, text=text, original=entry.text, final=True)


RUNGS = 5
_TRIMMED_CHARS = 1_000


def take_rung(conversation: AgentConversation, turn: int, rung: int) -> bool:
    """Apply one step of shrinking a prompt that exceeds the model's window. Returns whether it changed anything.

    0: remove results that are five or more turns old; 1: shorten those of three or more turns; 2: remove those of two
    or more; 3: shorten all; 4: cut the last entry that is not the model's to 1,000 characters.
    """
    match rung:
        case 0 | 2:
            return _change_results(conversation, turn - (5 if rung == 0 else 2), remove)
        case 1 | 3:
            return _change_results(conversation, turn - (3 if rung == 1 else 0), lambda entry: compact(entry, 500))
    last = max(index for index, entry in enumerate(conversation.entries) if not entry.from_model)
    entry = conversation.entries[last]
    text = shorten_text(entry.text, _TRIMMED_CHARS, f"\n[Trimmed: {len(entry.text):,} characters]")
    conversation.entries[last] = replace(entry, text=text, final=True)
    return text != entry.text


def _change_results(
    conversation: AgentConversation, upto: int, change: Callable[[ConversationEntry], ConversationEntry]
) -> bool:
    """Apply ``change`` to results of turns up to ``upto`` if it shortens them. Returns whether any changed."""
    shorter = {
        index: new
        for index, entry in enumerate(conversation.entries)
        if entry.kind in RESULTS and entry.turn <= upto and len((new := change(entry)).text) < len(entry.text)
    }
    for index, entry in shorter.items():
        conversation.entries[index] = entry
    return bool(shorter)


UNKNOWN_WINDOW = 8_000
TRIGGER, TARGET = 0.75, 0.30
SUMMARY_TOKENS = 1_500
MIN_GAIN = 500
MIN_ENTRIES = 3
TURNS_AFTER_FAILURE = 5
_STRUCTURAL = frozenset('{}[]:,"')


def tokens_of(text: str) -> int:
    """Estimate tokens as ``(characters - spaces / 2) / 4`` plus 5% of the characters of JSON punctuation."""
    spaces = sum(map(text.count, " \n\t\r"))
    structural = sum(map(text.count, _STRUCTURAL))
    return int((len(text) - 0.5 * spaces) / 4 + 0.05 * structural)


def budget_of(own: int | None, window: int | None) -> int:
    """Return the smaller of the agent's budget and the model's window; 8,000 if neither is known."""
    limits = [each for each in (own, window) if each]
    return min(limits) if limits else UNKNOWN_WINDOW


class FoldPlan(Struct, frozen=True):
    """A planned summary of the entries from the second up to, but not including, ``upto``."""

    upto: int
    text: str


class Skipped(Struct, frozen=True):
    reason: str


def plan_fold(conversation: AgentConversation, budget: int) -> FoldPlan | Skipped | None:
    """Return the summary to make now, why a due one is skipped, or None if none is due."""
    sizes = [tokens_of(entry.text) for entry in conversation.entries]
    if sum(sizes) < TRIGGER * budget:
        return None
    room, upto = max(0, int(TARGET * budget) - SUMMARY_TOKENS), len(sizes)
    while upto > 1 and room >= sizes[upto - 1]:
        upto -= 1
        room -= sizes[upto]
    while upto < len(sizes) and not conversation.entries[upto].from_model:
        upto += 1
    if upto == len(sizes):  # never fold the last entry that was addressed to the model
        upto = max(index for index, entry in enumerate(conversation.entries) if entry.from_model or index == 0)
    folded = conversation.entries[1:upto]
    if sum(entry.kind != "summary" for entry in folded) < MIN_ENTRIES:
        return Skipped("No foldable boundary")
    gain = sum(sizes[1:upto]) - SUMMARY_TOKENS
    if gain < MIN_GAIN:
        return Skipped(f"Projected gain {gain:,} tokens, at least {MIN_GAIN:,} are wanted")
    return FoldPlan(upto, "\n\n".join(_entry_text(entry) for entry in folded))


def _entry_text(entry: ConversationEntry) -> str:
    if entry.kind == "summary":
        return f"EARLIER SUMMARY\n{entry.text}"
    return f"{'AGENT' if entry.from_model else 'TOLD'} (turn {entry.turn})\n{entry.text}"


def fold_entries(conversation: AgentConversation, fold: FoldPlan, summary: str, turn: int) -> None:
    """Replace the folded entries by their summary."""
    text = f"[Summary of the conversation up to here]\n{summary.strip()}"
    conversation.entries[1 : fold.upto] = [ConversationEntry("summary", text, turn)]


SYSTEM = "You sum up the working conversation of an agent, so that it can continue from your summary only."
REQUEST = (
    "Sum up what follows in at most 1,000 words: the request, what was done and found (with exact names, "
    "numbers and paths), what failed, and what is still to be done. Write only the summary."
)
COMPACT = "Sum up this result in at most 100 words; keep exact names, numbers and paths. Write only the summary."


def shorten_conversation(session: AgentSession) -> Routine:
    """Remove and shorten due results, and summarize the conversation if it is long."""
    conversation = session.conversation
    before = sum(entry.final for entry in conversation.entries)
    asking = prune(conversation, session.turn)
    changed = sum(entry.final for entry in conversation.entries) - before + len(asking)
    if changed:
        message = f"{changed} result{'s' if changed > 1 else ''} left the prompt or became shorter"
        yield StepEntered(f"{session.path}/turn {session.turn}", message)
    for index in asking:
        entry = conversation.entries[index]
        instruction = (entry.expires.prompt if entry.expires else "") or COMPACT
        summary = yield from _summary(session, f"{instruction}\n\n{entry.text}")
        conversation.entries[index] = summarize(entry, summary)
    yield from _fold(session)


def _fold(session: AgentSession) -> Routine:
    budget = budget_of(session.agent.limits.context_tokens, session.family.window)
    plan = plan_fold(session.conversation, budget) if session.turn >= session.fold_after else None
    if isinstance(plan, FoldPlan):
        summary = yield from _summary(session, f"{session.agent.summary_prompt or REQUEST}\n\n{plan.text}")
        if summary.strip():
            fold_entries(session.conversation, plan, summary, session.turn)
            too_long = tokens_of(summary) > TRIGGER * budget
            plan = Skipped("The summary alone exceeds the trigger") if too_long else None
        else:
            session.fold_after = session.turn + TURNS_AFTER_FAILURE
            plan = Skipped("The summary failed; the conversation stays as it is")
    if isinstance(plan, Skipped) and plan.reason[:16] != session.fold_reason:
        session.fold_reason = plan.reason[:16]
        yield StepEntered(f"{session.path}/turn {session.turn}", plan.reason)


def _summary(session: AgentSession, text: str) -> Routine:
    """Request a summary from the model. Empty if the request failed."""
    answer: Completion = yield Complete(prompt(text), SYSTEM, name="summary", model=session.agent.model)
    session.tokens += answer.usage.total
    summary: Any = "" if answer.failed else answer.text
    return summary


def recover(session: AgentSession) -> None:
    """Apply the next shrinking step that changes the prompt. Ends the agent if there is none."""
    while session.rung < RUNGS:
        session.rung += 1
        if take_rung(session.conversation, session.turn, session.rung - 1):
            return
    raise AgentEnded("Context Overflow", "the prompt is longer than the model takes, and nothing is left to shorten")
