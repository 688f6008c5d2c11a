"""An agent's conversation, and the prompt made from it.

Rule 1: entries are only appended. Entries before the pruning boundary (see ``compaction``) keep their bytes.
Rule 2: parts that change every turn (the payload, loop results) are in a tail after the last breakpoint, and are not
repeated in later prompts.
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
    text: str  # the text shown to the model
    turn: int  # the turn in which it was added
    number: int = 0  # number by which the model can ask to see it in full; 0 if it has none
    expires: Expiry | None = None  # None keeps the entry unchanged
    original: str | None = None  # the full text of a shortened entry that can be expanded
    final: bool = False  # whether it was removed, shortened or expanded, and now stays as it is

    @property
    def from_model(self) -> bool:
        return self.kind == "reply"

    @property
    def volatile(self) -> bool:
        """Whether the entry will change later."""
        return self.expires is not None and self.expires.mode != "none" and not self.final


class PromptMessages(Struct, frozen=True):
    messages: tuple[Message, ...]
    breakpoints: tuple[Breakpoint, ...]


class AgentConversation:
    """The entries of one agent."""

    def __init__(self, request: str, turn: int = 0) -> None:
        # oldest first; the first entry is the request
        self.entries: list[ConversationEntry] = [ConversationEntry("request", request, turn)]
        self._numbers = 0

    def reply(self, text: str, turn: int) -> None:
        """Add the model's reply. A reply over 30,000 characters is cut to its head and tail."""
        self.entries.append(
            ConversationEntry("reply", clip_chars(text, REPLY_CHARS) if text.strip() else "(an empty reply)", turn)
        )

    def tell(self, text: str, turn: int) -> None:
        self.entries.append(ConversationEntry("note", text, turn))

    def result(self, kind: Kind, text: str, turn: int, expires: Expiry | None = None) -> int:
        """Add a result and return its number."""
        self._numbers += 1
        self.entries.append(ConversationEntry(kind, f"[#{self._numbers}] {text}", turn, self._numbers, expires))
        return self._numbers

    def expand(self, number: int, turn: int) -> bool:
        """Append the full text of a shortened result, which itself stays as it is.

        Returns whether that was possible. If not, the model reads why.
        """
        position = next((index for index, each in enumerate(self.entries) if each.number == number and number), None)
        entry = self.entries[position] if position is not None else None
        if entry is None or position is None or entry.original is None:
            self.tell(_cannot(number, entry, self._numbers), turn)
            return False
        self.entries[position] = replace(entry, original=None, final=True)
        self.entries.append(ConversationEntry("expanded", f"[Expanded #{number}]\n{entry.original}", turn))
        return True

    def prompt(self, tail: str) -> PromptMessages:
        """Build the messages. The last one is the user's and ends with the tail.

        One breakpoint is set before the result that will probably change next: the first entry after the last changed
        one that can still change. The cache can then be read up to there.
        """
        messages: list[Message] = []
        steady: tuple[int, int] | None = None
        last_changed = max((index for index, entry in enumerate(self.entries) if entry.final), default=0)
        for index, entry in enumerate(self.entries):
            if entry.volatile and steady is None and index > last_changed:
                steady = (len(messages) - 1, len(messages[-1].parts) - 1)
            role: Literal["user", "assistant"] = "assistant" if entry.from_model else "user"
            if messages and messages[-1].role == role:
                messages[-1] = Message(role, (*messages[-1].parts, Text(entry.text)))
            else:
                messages.append(Message(role, (Text(entry.text),)))
        last = (len(messages) - 1, len(messages[-1].parts) - 1)
        if tail:
            messages[-1] = Message(messages[-1].role, (*messages[-1].parts, Text(tail)))
        rolling = sorted({location for location in (steady, last) if location is not None and location > (0, 0)})
        points = [
            Breakpoint(-1, 0, "1h"),
            Breakpoint(0, 0, "1h"),
            *(Breakpoint(*location, "5m") for location in rolling),
        ]
        return PromptMessages(tuple(messages), tuple(points))


def _cannot(number: int, entry: ConversationEntry | None, most: int) -> str:
    if entry is None:
        reason = f"unknown result #{number}" + (f"; known: #1 to #{most}" if most else "")
    elif entry.final:
        reason = f"result #{number} was expanded before, or was removed for good"
    else:
        reason = f"result #{number} is shown whole already"
    return f"The expansion failed: {reason}. Do not request this expansion again."
