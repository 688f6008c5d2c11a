"""Holds back streamed text that may turn out to be a call, so that users do not see a call's JSON.

Users see text as it arrives until something begins like a call: a JSON object, call markup, or the name of an offered
tool before arguments, each also in a code fence. From there on the text is held back until it is clearly part of an
answer, such as a closed object without call keywords. Text still held at the end appears with the complete reply, if
that is an answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .json_calls import ARGUMENT_KEYS
from .loose_json import object_extent

_MAX_HELD = 20_000
"""After this many characters, hold back the rest of the reply."""
_LEAD = re.compile(r"(?:```[\w+-]*[ \t]*\n?\s*|`{1,2})?")
_OPENING = re.compile(r"`|\{|\[|<")
_OBJECT = re.compile(r"\{\s*(?:[\"'“}{/]|[A-Za-z_]\w*\s*:|[A-Za-z_]*\s*\Z)")
_LIST = re.compile(r"\[\s*(?:\{|\Z)")
_MARK = re.compile(r"\[/?[A-Z_]*(?:\]|\Z)")
_TAG = re.compile(r"<[|｜/]?[\w:▁.-]*")
_TAG_WORDS = re.compile(r"tool|function|invoke|python_|channel|action", re.IGNORECASE)
_LONGEST_TAG = 60
_BEFORE_ARGUMENTS = re.compile(
    r"[\s:=>\"'`*]*(?:\.call|json|\[ARGS\]|arguments|parameters|args|input)*[\s:=>\"'`*]*", re.IGNORECASE
)
_LONGEST_GAP = 80
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_LAST_WORD = re.compile(r"(?<![\w./-])[A-Za-z_][\w.]*\Z")
_CONTEXT_CHARS = 80


class HeldWords:
    """Filters the streamed text of one reply."""

    def __init__(self, offered: Collection[str]) -> None:
        self._offered = tuple(offered)
        names = "|".join(map(re.escape, sorted(offered, key=len, reverse=True)))
        self._name = re.compile(rf"(?<![\w./-])(?:{names})(?![\w-])") if offered else None
        keys = "|".join(ARGUMENT_KEYS)
        self._call_words = re.compile(rf"(?<!\w)(?:{names})(?!\w)|[\"'“]?(?:{keys})[\"'”]?\s*:", re.IGNORECASE)
        self._waiting = ""
        self._context = "\n"
        self._look_again_at = 0
        self._to_the_end = False

    def pass_on(self, words: str) -> str:
        """Add text, and return the text that can be shown now."""
        if self._to_the_end or not self._offered:
            return "" if self._to_the_end else words
        # A name may be split between two pieces, so text is judged only with what follows it.
        self._waiting += words
        # Text that is held this long is a call in practice; showing it late would not help the reader.
        if len(self._waiting) > _MAX_HELD:
            self._to_the_end = True
            return ""
        if len(self._waiting) < self._look_again_at:
            return ""
        pieces: list[str] = []
        while self._waiting and not self._to_the_end:
            count = self._count()
            if not count:
                break
            pieces.append(self._waiting[:count])
            self._context = (self._context + pieces[-1])[-_CONTEXT_CHARS:]
            self._waiting = self._waiting[count:]
        # Examine held text again only after it has grown by an eighth, so that a long object takes linear time.
        self._look_again_at = len(self._waiting) + len(self._waiting) // 8
        return "".join(pieces)

    def _count(self) -> int:
        """Return how many waiting characters can be shown; 0 if none is clearly part of an answer."""
        opening, name = _OPENING.search(self._waiting), self._first_name()
        position = min(
            (index for index in (opening.start() if opening else None, name) if index is not None), default=None
        )
        if position is None:
            return len(self._waiting)
        return position or self._judged()

    def _first_name(self) -> int | None:
        """Return the position of an offered tool's name, or of a last word that may become one."""
        text = self._context + self._waiting
        match = self._name.search(text, len(self._context)) if self._name else None
        last = _LAST_WORD.search(text)
        places = [match.start()] if match else []
        if last and last.start() >= len(self._context) and self._may_become_name(last[0]):
            places.append(last.start())
        return min(places) - len(self._context) if places else None

    def _may_become_name(self, word: str) -> bool:
        return any(f"{before}{name}".startswith(word) for name in self._offered for before in ("", "functions."))

    def _judged(self) -> int:
        lead = _LEAD.match(self._waiting)
        start = lead.end() if lead else 0
        rest = self._waiting[start:]
        if not rest:
            return 0
        if rest[0] == "{":
            return self._object(start)
        if rest[0] == "[":
            if _MARK.match(rest):
                return self._hold() if rest.startswith("[TOOL") else 0 if "]" not in rest else start + 1
            match = _LIST.match(rest)
            if match and match.end() < len(rest) + (rest[match.end() - 1] == "{"):
                return self._object(start) if "{" in match[0] else 0
            return 0 if match else start + 1
        if rest[0] == "<":
            return self._tag(start, rest)
        return self._past_name(start, rest)

    def _object(self, start: int) -> int:
        text = self._waiting[start:]
        if text[0] == "{" and not _OBJECT.match(text):
            return start + 1
        end, missing = object_extent(text)
        if not end or missing:
            return 0
        after_name = self._name is not None and self._name.search(self._context)
        return self._hold() if after_name or self._call_words.search(text, 0, end) else start + end

    def _tag(self, start: int, rest: str) -> int:
        tag = _TAG.match(rest)
        length = tag.end() if tag else 1
        if length == len(rest) and length < _LONGEST_TAG:
            return 0
        name = rest[1:length]
        return self._hold() if _TAG_WORDS.search(name) or name.strip("|｜/") in self._offered else start + length

    def _past_name(self, start: int, rest: str) -> int:
        name = self._name.match(rest) if self._name else None
        if name is None:
            word = _WORD.match(rest)
            if word and word.end() == len(rest) and self._may_become_name(word[0]):
                return 0
            return start + (word.end() if word else 1)
        gap = _BEFORE_ARGUMENTS.match(rest, name.end())
        end = gap.end() if gap else name.end()
        if end < len(rest) and rest[end] in "({<[":
            return self._hold()
        return 0 if end == len(rest) and end - name.end() < _LONGEST_GAP else start + name.end()

    def _hold(self) -> int:
        self._to_the_end = True
        return 0
