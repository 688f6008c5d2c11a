"""The user's standing words: rules, corrections, decisions and preferences that stay in every prompt.

Rule 1: An entry is a text of the user, word for word. No other text becomes an entry: neither a file nor the output of
    a command, and not the agent's own words.
Rule 2: Prompts show an entry in full until the user removes it, or contradicts it and so replaces it.
Rule 3: Changes are only appended, so a prompt that has shown some of them stays valid and shows only the new ones.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.text import mark_cut

Kind = Literal["rule", "correction", "decision", "preference"]

ENTRY_CHARS = 500
TOTAL_CHARS = 8_000
HEADING = "STANDING WORDS OF THE USER: they apply to every request; a later one overrides an earlier one."
_HEARD_SENTENCES = 3
_MIN_QUOTED_WORDS = 2
_QUOTED_CHARS = 80


class StandingChange(Struct, frozen=True, omit_defaults=True):
    """A change of the standing words: an entry that was added, or removed if ``text`` is empty."""

    number: int  # number of the entry, from 1. Numbers are never used twice
    request: int  # number of the request in or after which it changed; 0 before the first request. Never decreases
    source: int = 0  # number of the request in which the user said it
    text: str = ""
    kind: Kind = "rule"
    # the origin: the user with a command, the agent with ``remember``, the rules because of its wording, or the
    # question after a request (upkeep.py)
    by: Literal["user", "agent", "wording", "upkeep"] = "user"
    replaces: int = 0  # number of the entry that it replaces; 0 if it replaces none
    earlier: bool = False  # whether the entry comes from an earlier conversation about the folder

    @property
    def line(self) -> str:
        """The line that the model and the user read."""
        if not self.text:
            return f"STANDING R{self.number} no longer applies: the user removed it"
        source = "an earlier conversation" if self.earlier else f"request {self.source}" if self.source else "the start"
        replaced = f", replaces R{self.replaces}" if self.replaces else ""
        return f"STANDING R{self.number}, {self.kind} from {source}{replaced}: {self.text}"


Changes = tuple[StandingChange, ...]


class StandingOutcome(Struct, frozen=True):
    """The changes after an attempt to change them, and the message about it."""

    changes: Changes
    message: str
    done: bool = True


def active(changes: Changes) -> dict[int, StandingChange]:
    """Return the entries that apply, by number."""
    entries: dict[int, StandingChange] = {}
    for change in changes:
        entries.pop(change.number, None)
        entries.pop(change.replaces, None)
        if change.text:
            entries[change.number] = change
    return entries


def block(changes: Changes) -> str:
    """Return the entries that apply, as a prompt shows them. Empty if there are none."""
    entries = active(changes)
    return "\n".join([HEADING, *(entry.line for entry in entries.values())]) if entries else ""


def add(changes: Changes, entry: StandingChange) -> StandingOutcome:
    """Store an entry under the next number, or return why it is not stored."""
    text = " ".join(entry.text.split())
    entries = active(changes)
    duplicate = next((other for other in entries.values() if same_words(other.text, text)), None)
    used = sum(len(other.line) for number, other in entries.items() if number != entry.replaces)
    if not text:
        return StandingOutcome(changes, "nothing to remember: the text is empty", done=False)
    if entry.replaces and entry.replaces not in entries:
        return StandingOutcome(changes, f"R{entry.replaces} is not a kept entry; {_numbers(entries)}", done=False)
    if duplicate is not None:
        return StandingOutcome(changes, f"R{duplicate.number} already says this", done=False)
    if len(text) > ENTRY_CHARS:
        reason = f"the entry has {len(text):,} characters, maximum is {ENTRY_CHARS:,}; shorten it"
        return StandingOutcome(changes, reason, done=False)
    number = max((change.number for change in changes), default=0) + 1
    stored = replace(entry, number=number, text=text)
    if used + len(stored.line) > TOTAL_CHARS:
        reason = (
            f"the standing words have {used:,} of {TOTAL_CHARS:,} characters and this has {len(stored.line):,}; "
            "the user can free space with /forget N"
        )
        return StandingOutcome(changes, reason, done=False)
    return StandingOutcome((*changes, stored), f"kept as R{number}")


def remove(changes: Changes, number: int, request: int) -> StandingOutcome:
    """Remove an entry by the user's word, or return why there is none to remove."""
    entries = active(changes)
    if not number:
        return StandingOutcome(changes, f"missing number: /forget N; {_numbers(entries)}", done=False)
    if number not in entries:
        return StandingOutcome(changes, f"R{number} is not a kept entry; {_numbers(entries)}", done=False)
    message = f"removed R{number}: {mark_cut(entries[number].text, _QUOTED_CHARS)}"
    return StandingOutcome((*changes, StandingChange(number, request)), message)


def _numbers(changes: dict[int, StandingChange]) -> str:
    return f"kept: {', '.join(f'R{number}' for number in list(changes)[-8:])}" if changes else "nothing is kept yet"


def same_words(text: str, other: str) -> bool:
    return _plain(text) == _plain(other)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!")


def quotes(words: str, message: str) -> bool:
    """Return whether ``words`` is a passage of what the user said, regardless of white space and case.

    It must consist of whole words, and of at least two unless it is the whole text.
    """
    passage, text = _plain(words), _plain(message)
    if not passage or (len(passage.split()) < _MIN_QUOTED_WORDS and passage != text):
        return False
    return re.search(rf"(?<!\w){re.escape(passage)}(?!\w)", text) is not None


_SCOPES = (
    r"from (now|here) on|from this point on|going forward|until (further notice|i say)|as a (general )?rule|"
    r"for the (whole|entire|rest of the|remainder of the) (day|session|conversation|project|week)|"
    r"for (all|every|each|any) (future|later|further|following|other) |in (all|every|each) (future |later |further )?"
    r"(request|answer|repl(y|ies)|commit|test|file)s?\b|"
    r"(whenever|every time|each time) (you|we|i)\b|(please |and |, |^)remember (that|to)\b|keep in mind|"
    r"(do not|don't|never) forget|(i|we)('d| would)? (always |never )?prefer|"
    r"(we|i)('ve| have)? decided (to|that|on|for)|"
    r"(do not|don't) ever\b|must (always|never)|(you|we) (should |shall )?(always|never) |"
    r"ab (jetzt|sofort|heute)\b|von (nun|jetzt) an|in zukunft|künftig|zukünftig|grundsätzlich|"
    r"(für den|den) (ganzen|rest des) tag|(jedes mal|immer),? wenn|merk(e)? dir|denk(e)? (immer )?daran|"
    r"(ich|wir) (bevorzuge|haben (uns )?entschieden)"
)
_ORDERS = (
    r"(?:^|[:,;(]\s*|\b(?:and|but|please|also|then|und|aber|bitte|also|dann)\s+)(?:always|never|immer|nie|niemals)\s+\w"
)
_STANDING = re.compile(rf"(?:{_SCOPES})|(?:{_ORDERS})", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_FENCE = re.compile(r"^(```|~~~).*?(^\1|\Z)", re.MULTILINE | re.DOTALL)
_SEARCHED_CHARS = 20_000


def standing_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a user's message whose wording says that they outlive the request.

    It knows the usual English and German wordings. Questions, quoted lines and fenced code do not count.
    """
    own = _FENCE.sub("\n", text[:_SEARCHED_CHARS])
    sentences: list[str] = []
    for sentence in _SENTENCE_END.split(own):
        plain = " ".join(sentence.split())
        ignored = not plain or len(plain) > ENTRY_CHARS or plain.endswith("?") or plain.startswith((">", "|"))
        if not ignored and _STANDING.search(plain):
            sentences.append(plain)
    return tuple(sentences[:_HEARD_SENTENCES])


def own_words(text: str) -> str:
    """Return a user's message without fenced code and quoted lines."""
    lines = _FENCE.sub("\n", text[:_SEARCHED_CHARS]).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith((">", "|")))


class UserMessage(Struct, frozen=True):
    """A message of the user: a request, an addition to it, or an answer."""

    request: int
    text: str


class RememberLine(Struct, frozen=True):
    """The user's command to remember a text."""

    text: str


class ForgetLine(Struct, frozen=True):
    """The user's command to remove an entry. ``number`` is 0 if the command names none."""

    number: int


_NUMBER = re.compile(r"[rR]?(\d{1,6})")


def memory_line(text: str) -> RememberLine | ForgetLine | None:
    """Return the command in a user's message that changes the standing words, or None if it is an ordinary message.

    ``/remember TEXT``, or one line that begins with ``#``; and ``/forget N``. An issue's number such as ``#12``, a
    program's first line and several lines of Markdown are ordinary messages.
    """
    line = text.strip()
    name, _, rest = line.partition(" ")
    if name == "/remember":
        return RememberLine(rest.strip())
    if name == "/forget":
        number = _NUMBER.fullmatch(rest.strip())
        return ForgetLine(int(number[1]) if number else 0)
    if line.startswith("#") and "\n" not in line:
        rest = line[1:].strip()
        return RememberLine(rest) if rest and not rest.startswith(("#", "!")) and not line[1].isdigit() else None
    return None
