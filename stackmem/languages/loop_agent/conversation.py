"""What an agent has said and been told, and the prompt that comes of it.

Rule 1: entries are appended; an entry that stands before the pruning boundary of ``compaction`` keeps its bytes.
Rule 2: what changes from turn to turn (the payload, the results of a loop) stands in a tail after the last breakpoint,
        and no later prompt holds it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.messages import Breakpoint, Message, Text
from stackmem.core.text import clip_chars

from .tree import Expiry

Kind = Literal["request", "reply", "note", "summary", "action-result", "sub-agent-result", "loop-result", "expanded"]
REPLY_CHARS = 30_000
RESULTS: tuple[Kind, ...] = ("action-result", "sub-agent-result", "loop-result", "expanded")


class ConversationEntry(Struct, frozen=True):
    """One part of the conversation."""

    kind: Kind
    text: str  # as it is shown
    turn: int  # when it was added
    number: int = 0  # what the model calls it by to see it whole; 0 has none
    expires: Expiry | None = None  # none stays as it is
    original: str | None = None  # the whole text, where ``text`` is a shortened one that may be expanded
    final: bool = False  # it was removed, shortened or expanded, and stays as it is now

    @property
    def from_model(self) -> bool:
        return self.kind == "reply"

    @property
    def volatile(self) -> bool:
        """Whether it is to change some time."""
        return self.expires is not None and self.expires.mode != "none" and not self.final


class PromptMessages(Struct, frozen=True):
    messages: tuple[Message, ...]
    breakpoints: tuple[Breakpoint, ...]


class AgentConversation:
    """The entries of one agent."""

    def __init__(self, request: str, turn: int = 0) -> None:
        # oldest first; the first is the request
        self.entries: list[ConversationEntry] = [ConversationEntry("request", request, turn)]
        self._numbers = 0

    def reply(self, text: str, turn: int) -> None:
        """Add what the model said; of a very long reply head and tail."""
        self.entries.append(
            ConversationEntry("reply", clip_chars(text, REPLY_CHARS) if text.strip() else "(an empty reply)", turn)
        )

    def tell(self, text: str, turn: int) -> None:
        self.entries.append(ConversationEntry("note", text, turn))

    def result(self, kind: Kind, text: str, turn: int, expires: Expiry | None = None) -> int:
        """Add a result; returns its number."""
        self._numbers += 1
        self.entries.append(ConversationEntry(kind, f"[#{self._numbers}] {text}", turn, self._numbers, expires))
        return self._numbers

    def expand(self, number: int, turn: int) -> bool:
        """Show a result whole, at the end; what stood stays as it is. Whether that could be done."""
        place = next((index for index, each in enumerate(self.entries) if each.number == number and number), None)
        entry = self.entries[place] if place is not None else None
        if entry is None or place is None or entry.original is None:
            self.tell(_cannot(number, entry, self._numbers), turn)
            return False
        self.entries[place] = replace(entry, original=None, final=True)
        self.entries.append(ConversationEntry("expanded", f"[Expanded #{number}]\n{entry.original}", turn))
        return True

    def prompt(self, tail: str) -> PromptMessages:
        """The messages; they end with the user's, and that ends with the tail.

        One breakpoint stands before the first result that is likely to change next: what changed before stands further
        up, and what was deferred then seldom pays later on. What changes next is read up to there and no further.
        """
        messages: list[Message] = []
        steady: tuple[int, int] | None = None
        settled = max((index for index, entry in enumerate(self.entries) if entry.final), default=0)
        for index, entry in enumerate(self.entries):
            if entry.volatile and steady is None and index > settled:
                steady = (len(messages) - 1, len(messages[-1].parts) - 1)
            role: Literal["user", "assistant"] = "assistant" if entry.from_model else "user"
            if messages and messages[-1].role == role:
                messages[-1] = Message(role, (*messages[-1].parts, Text(entry.text)))
            else:
                messages.append(Message(role, (Text(entry.text),)))
        last = (len(messages) - 1, len(messages[-1].parts) - 1)
        if tail:
            messages[-1] = Message(messages[-1].role, (*messages[-1].parts, Text(tail)))
        rolling = sorted({place for place in (steady, last) if place is not None and place > (0, 0)})
        points = [Breakpoint(-1, 0, "1h"), Breakpoint(0, 0, "1h"), *(Breakpoint(*place, "5m") for place in rolling)]
        return PromptMessages(tuple(messages), tuple(points))


def _cannot(number: int, entry: ConversationEntry | None, most: int) -> str:
    if entry is None:
        why = f"there is no result #{number}" + (f" (there are #1 to #{most})" if most else "")
    elif entry.final:
        why = f"result #{number} was expanded before, or was removed for good"
    else:
        why = f"result #{number} is shown whole already"
    return f"The expansion failed: {why}. Do not request this expansion again."
