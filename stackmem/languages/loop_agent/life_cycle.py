"""When results leave the prompt or are shortened in it, without spoiling what the provider has cached.

A result is due when it is older than its turns. Changing it means that everything behind it is written anew, so it is
changed only once what is saved, there and behind, is at least what then stands behind it; until then it is deferred.
The place of the first result that is changed is the boundary: before it the prompt keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stackmem.core.text import shortened

from .conversation import RESULTS, Conversation, Entry
from .definition import Expiry

_MARK_CHARS = 60
Age = Callable[[Entry], bool]


def due(entry: Entry, turn: int) -> bool:
    """Whether its time is over."""
    return entry.volatile and entry.expires is not None and turn - entry.turn > entry.expires.turns


def boundary(entries: list[Entry], turn: int) -> int:
    """The index from which on results that are due are changed; the number of entries where nothing is."""
    found, saved, behind = len(entries), 0, 0
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        if due(entry, turn):
            saved += max(0, len(entry.text) - _kept_chars(entry))
            if saved >= behind:
                found = index
            behind += min(len(entry.text), _kept_chars(entry))
        else:
            behind += len(entry.text)
    return found


def _kept_chars(entry: Entry) -> int:
    compact = entry.expires is not None and entry.expires.mode == "compact"
    return _MARK_CHARS + (entry.expires.chars + _MARK_CHARS if compact and entry.expires else 0)


def pruned(conversation: Conversation, turn: int) -> list[int]:
    """Remove and shorten what is due behind the boundary; returns the indexes that want a summary by the model."""
    start, asking = boundary(conversation.entries, turn), list[int]()
    for index in range(start, len(conversation.entries)):
        entry = conversation.entries[index]
        if not due(entry, turn) or entry.expires is None:
            continue
        if entry.expires.mode == "remove":
            conversation.entries[index] = removed(entry)
        elif entry.expires.by == "summary":
            asking.append(index)
        else:
            conversation.entries[index] = compacted(entry, entry.expires.chars)
    return asking


def removed(entry: Entry) -> Entry:
    """With a mark in its place, unless that is no shorter."""
    if len(entry.text) <= _MARK_CHARS:
        return entry
    return replace(
        entry, text=f"[#{entry.number}] [Removed: {len(entry.text):,} characters]", original=None, final=True
    )


def compacted(entry: Entry, chars: int) -> Entry:
    """With its first characters; one that is short already stays. What was expanded once cannot be again."""
    once = bool(entry.number) and not (entry.final and entry.original is None)
    again = "Agent can request expansion if needed." if once else "It cannot be expanded again."
    mark = f"\n\n[Compacted: showing first {chars:,} of {len(entry.text):,} characters. {again}]"
    text = shortened(entry.text, chars, mark)
    whole = entry.text if entry.original is None else entry.original
    return replace(entry, text=text, original=whole if once and text != entry.text else entry.original, final=True)


def summarised(entry: Entry, summary: str) -> Entry:
    """With a model's summary; an empty one, or one that is no shorter, is its first characters instead."""
    mark = f"[AI Summary of {len(entry.text):,} chars. Agent can request full expansion if needed.]"
    text = f"[#{entry.number}] {mark}\n\n{summary.strip()}"
    if not summary.strip() or len(text) >= len(entry.text):
        return compacted(entry, entry.expires.chars if entry.expires else Expiry(0).chars)
    return replace(entry, text=text, original=entry.text, final=True)


def _older(turns: int, turn: int) -> Age:
    return lambda entry: turn - entry.turn >= turns


RUNGS = 5
_TRIMMED_CHARS = 1_000


def recovered(conversation: Conversation, turn: int, rung: int) -> bool:
    """One rung of the ladder for a prompt that is longer than the model takes; whether it changed anything.

    0: results of five turns and more leave; 1: those of three are shortened; 2: those of two leave; 3: all are
    shortened; 4: the last thing that was told is cut to 1,000 characters.
    """
    match rung:
        case 0 | 2:
            return _each(conversation, _older(5 if rung == 0 else 2, turn), removed)
        case 1 | 3:
            return _each(conversation, _older(3 if rung == 1 else 0, turn), lambda entry: compacted(entry, 500))
    last = max(index for index, entry in enumerate(conversation.entries) if not entry.from_model)
    entry = conversation.entries[last]
    text = shortened(entry.text, _TRIMMED_CHARS, f"\n[Trimmed: {len(entry.text):,} characters]")
    conversation.entries[last] = replace(entry, text=text, final=True)
    return text != entry.text


def _each(conversation: Conversation, old: Age, change: Callable[[Entry], Entry]) -> bool:
    any_ = False
    for index, entry in enumerate(conversation.entries):
        if entry.kind in RESULTS and old(entry):
            new = change(entry)
            if len(new.text) < len(entry.text):
                conversation.entries[index] = new
                any_ = True
    return any_
