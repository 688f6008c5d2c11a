"""Summing up a long conversation: when that is worth it, what is summed up, and what stays.

Guards against churn: only from three quarters of the budget on, down to three tenths; never for less than 500 tokens
of gain or fewer than three entries; after a failure not before five turns have passed.
"""

from __future__ import annotations

from msgspec import Struct

from .conversation import Conversation, Entry

UNKNOWN_WINDOW = 8_000
TRIGGER, TARGET = 0.75, 0.30
SUMMARY_TOKENS = 1_500
LEAST_GAIN = 500
LEAST_ENTRIES = 3
TURNS_AFTER_FAILURE = 5
_STRUCTURAL = frozenset('{}[]:,"')


def tokens_of(text: str) -> int:
    """Estimated tokens: ``(characters - half of the spaces) / 4``, and a twentieth of what gives JSON its form."""
    spaces = sum(map(text.count, " \n\t\r"))
    structural = sum(map(text.count, _STRUCTURAL))
    return int((len(text) - 0.5 * spaces) / 4 + 0.05 * structural)


def budget_of(own: int | None, window: int | None) -> int:
    """The agent's own budget within the model's window; 8,000 where neither is known."""
    known = [each for each in (own, window) if each]
    return min(known) if known else UNKNOWN_WINDOW


class Fold(Struct, frozen=True):
    """What is to be summed up: the entries from the second to ``upto``, that one not included."""

    upto: int
    text: str


class Skipped(Struct, frozen=True):
    reason: str


def planned(conversation: Conversation, budget: int) -> Fold | Skipped | None:
    """What is to be summed up now, why it is not although it is time, or None."""
    sizes = [tokens_of(entry.text) for entry in conversation.entries]
    if sum(sizes) < TRIGGER * budget:
        return None
    room, upto = max(0, int(TARGET * budget) - SUMMARY_TOKENS), len(sizes)
    while upto > 1 and room >= sizes[upto - 1]:
        upto -= 1
        room -= sizes[upto]
    while upto < len(sizes) and not conversation.entries[upto].from_model:
        upto += 1
    if upto == len(sizes):  # the last thing that was told stays in any case
        upto = max(index for index, entry in enumerate(conversation.entries) if entry.from_model or index == 0)
    folded = conversation.entries[1:upto]
    if sum(entry.kind != "summary" for entry in folded) < LEAST_ENTRIES:
        return Skipped("No foldable boundary")
    gain = sum(sizes[1:upto]) - SUMMARY_TOKENS
    if gain < LEAST_GAIN:
        return Skipped(f"Projected gain {gain:,} tokens, at least {LEAST_GAIN:,} are wanted")
    return Fold(upto, "\n\n".join(_shown(entry) for entry in folded))


def _shown(entry: Entry) -> str:
    if entry.kind == "summary":
        return f"EARLIER SUMMARY\n{entry.text}"
    return f"{'AGENT' if entry.from_model else 'TOLD'} (turn {entry.turn})\n{entry.text}"


def folded(conversation: Conversation, fold: Fold, summary: str, turn: int) -> None:
    """Put the summary in the place of what it sums up."""
    text = f"[Summary of the conversation up to here]\n{summary.strip()}"
    conversation.entries[1 : fold.upto] = [Entry("summary", text, turn)]


SYSTEM = "You sum up the working conversation of an agent, so that it can go on from your summary alone."
REQUEST = (
    "Sum up what follows in at most 1,000 words: what was asked for, what was done and found (with exact names, "
    "numbers and paths), what failed, and what is still to be done. Write only the summary."
)
COMPACT = "Sum up this result in at most 100 words; keep exact names, numbers and paths. Write only the summary."
