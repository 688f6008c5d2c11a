"""Parses a reply that follows the output contract. It is tolerant in form and strict in effect.

Rule 1: a back-ticked item ends where its brackets and quotes close, and may span several lines.
Rule 2: ``yld`` is recognized only at the start of a line and after a Step.
Rule 3: text after the first yield or Return is not read, and an unreadable item ends the reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..frame.bounds import TEXT_CHARS
from .literals import CallTo, LiteralFault, LiteralReader, parts_of
from .python_reply import is_python, read_python
from .reply_items import (
    CODE,
    MAX_ITEM_CHARS,
    MAX_ITEMS,
    AtStep,
    Fired,
    Item,
    Queued,
    ReplyItems,
    ReturnItem,
    SetVar,
    TextItem,
    Unreadable,
    Yielded,
    item_at,
    yield_to,
)

_SPACE = re.compile(r"(?:[ \t]|<br\s*/?>)+", re.I)
_LEAD = re.compile(r"[ \t]*(?:(?:[-*•>]|\d+\.)[ \t]+)*")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)[\w.-]*[ \t]*$")
_FENCES = re.compile(r"^[ \t]*(?:```|~~~)[\w.-]*[ \t]*$", re.M)
_WORDS = re.compile(r"(recap|plan)\b[ \t]*(?:[-–—:]+|$)[ \t]*(.*)", re.I)
_QUESTION = re.compile(r"what\?[ \t]*(.*)", re.I)
_TRIG = re.compile(r"trig\?[ \t]*:?[ \t]*", re.I)
_YIELD = re.compile(r"`?yld\b\??[ \t:-]*(?:for[ \t]+)?(\w*)`?", re.I)
_NO_YIELD = re.compile(r"`?yld\?[ \t:-]*no\b[^\n]*", re.I)
"""``yld? no``, as later versions of the contract answer the question whether to yield."""
_WILL_YIELD = re.compile(r"`?yld\?[ \t:-]*(?:no|yes)\b[^\n]*", re.I)
"""The same with ``yes``, which announces a yield on a later line."""
_YIELD_OTHER = re.compile(r"`?yld[ \t]+for[ \t]+((?:(?:agent|meeting)[ \t]+)?[\w-]+)\.?`?", re.I)
_HEAD = re.compile(r"\\?`\s*(Step|Var|Trigger|Return)\s*\[", re.I)
_BARE_HEAD = re.compile(r"(Step|Var|Trigger|Return)\[")
_TYPED = r"(?::\s*+[A-Za-z_][\w\[\]%s |]*+)?+"
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?"
_CALL = re.compile(rf"\\?`\s*+(?:\$?([A-Za-z_]\w{{0,99}})\s*+{_TYPED % ','}\s*+=\s*+)?(?={_NAME}\s*+\()")
_LIKE_CALL = re.compile(r"\\?`(?:[^`\n(]{0,200}[\w\]]\s?\(|\s*\$\w+\s*=)")
_VAR = re.compile(rf"""\s*+["']?\$?([A-Za-z_]\w{{0,99}})["']?\s*+{_TYPED % ""}\s*+,""")
_STOP = re.compile(r"[`\n]|<br", re.I)
_END = re.compile(r"\\?`(?!``)|[ \t]{1,2}\\?`(?![`\s]|\s*[$A-Za-z_][\w.: ]*[\[(=])")
_AFTER = re.compile(
    r"\s*(?:[-*]\s+)?(?:trig\?[ \t]*:?[ \t]*no\.?|`?yld\?[ \t:-]*no\b[^\n]*"
    r"|`?yld[ \t]+return`?\.?|(?:```|~~~)\w*|<br\s*/?>)\s*",
    re.I,
)


def read_reply(text: str, variables: Mapping[str, Any] | None = None) -> ReplyItems:
    """Parse a reply up to the first yield, Return or fault. Never raises.

    ``variables`` are the agent's variables. With them, replies by later versions of the contract are read, too. Without
    them, only those of this contract are, as in runs recorded before.
    """
    if len(text) > TEXT_CHARS:
        message = f"the reply has {len(text):,} characters, at most {TEXT_CHARS:,} are read; write less"
        return ReplyItems((Unreadable(message, text[:200]),))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if variables is not None and is_python(text):
        reply = read_python(text, variables)
        return ReplyItems((_too_many(text),)) if len(reply.items) > MAX_ITEMS else reply
    reader = _ReplyReader(text, later=variables is not None)
    items = reader.items()
    rest = reader.text[reader.at :] if items and isinstance(items[-1], Yielded | ReturnItem) else ""
    return ReplyItems(items, _ignored_text(rest, returned=bool(items) and isinstance(items[-1], ReturnItem)))


def _ignored_text(rest: str, *, returned: bool) -> str:
    """Return the part of the rest that the contract does not allow there."""
    if not returned:
        return _FENCES.sub("", rest).strip()
    at = 0
    while match := _AFTER.match(rest, at):
        at = match.end()
    return rest[at:].strip()


def _too_many(text: str) -> Unreadable:
    return Unreadable(f"the reply has over {MAX_ITEMS:,} items; write less, and end it with a yield", text[:200])


class _ReplyReader:
    def __init__(self, text: str, *, later: bool) -> None:
        self.text, self.at = text, 0
        self._later = later
        self._no_yield = _WILL_YIELD if later else _NO_YIELD
        self._items: list[Item] = []

    def items(self) -> tuple[Item, ...]:
        while self.at < len(self.text) and not self._finished():
            self._line()
        if len(self._items) > MAX_ITEMS:
            return (_too_many(self.text),)
        return tuple(self._items)

    def _finished(self) -> bool:
        return bool(self._items) and (
            isinstance(self._items[-1], Yielded | ReturnItem | Unreadable) or len(self._items) > MAX_ITEMS
        )

    def _line_end(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _line(self) -> None:
        """Read a line, plus further lines if an item continues on them."""
        end = self._line_end()
        if _FENCE.fullmatch(self.text, self.at, end):
            self.at = end + 1
            return
        lead = _LEAD.match(self.text, self.at, end)
        self.at = lead.end() if lead else self.at
        if match := _WORDS.match(self.text, self.at, end):
            self._add_text(match[1].lower(), match[2])
        elif match := _QUESTION.match(self.text, self.at, end):
            self._add_text("what", match[1])
        elif self._no_yield.match(self.text, self.at, end):
            self.at = end + 1
        elif match := _YIELD.match(self.text, self.at, end):
            self._add_yield(match)
        else:
            match = _TRIG.match(self.text, self.at, end)
            self.at = match.end() if match else self.at
            self._rest(trig=bool(match))

    def _add_text(self, kind: Any, text: str) -> None:
        self._items.append(TextItem(kind, text.strip()))
        self.at = self._line_end() + 1

    def _add_yield(self, match: re.Match[str]) -> None:
        to = match[1].lower()
        self.at = match.end()
        other = _YIELD_OTHER.match(self.text, match.start()) if self._later else None
        item = yield_to(other[1]) if other else None
        if to in ("user", "call", "return", "exit"):
            self._items.append(Yielded(to))  # type: ignore[arg-type]
        elif other and item:
            self.at = other.end()
            self._items.append(item)
        else:
            self._fault(f"yld {to[:40]} is not a yield; write user, call, return or exit", match.start())

    def _rest(self, *, trig: bool) -> None:
        """Read the remaining items of the line, and the text between them."""
        parts: list[str] = []
        after_step, start = False, True
        while self.at < len(self.text):
            space = _SPACE.match(self.text, self.at)
            if space:
                start = start or "<" in space[0]
                parts.append(" ")
                self.at = space.end()
            if self.at >= len(self.text) or self.text[self.at] == "\n":
                self.at += 1
                break
            if (after_step or start) and self._no_yield.match(self.text, self.at):
                self.at = self._line_end() + 1
                break
            match = _YIELD.match(self.text, self.at) if after_step or start else None
            if match and match.end() <= self._line_end():
                self._add_yield(match)
                return
            took = self._item(trig=trig, start=start and not trig)
            if self._finished():
                return
            after_step = took and (after_step or isinstance(self._items[-1], AtStep))
            if not took:
                stop = _STOP.search(self.text, self.at + 1)  # the next position where an item could start
                upto = self.at + 1 if self.text[self.at] == "`" else stop.start() if stop else len(self.text)
                parts.append(self.text[self.at : upto])
                self.at, after_step = upto, False
            start = False
        prose = "".join(parts)
        if prose.strip(" `\n|\t") and not (trig and prose.strip(" .`").lower() == "no"):
            self._items.append(TextItem("prose", " ".join(prose.split())))

    def _item(self, *, trig: bool, start: bool) -> bool:
        """Read an item at the current position. Returns whether there was one."""
        at = self.at
        match = _HEAD.match(self.text, at) or (_BARE_HEAD.match(self.text, at) if start or trig else None)
        try:
            if match:
                self.at = match.end()
                self._items.append(self._bracket_item(match[1].capitalize()))
            elif match := _CALL.match(self.text, at):
                reader = LiteralReader(self.text, match.end())
                call = reader.call()
                self.at = reader.at
                self._queue(Queued(call, match[1] or "", fired=trig and isinstance(self._last(), Fired | Queued)))
            elif _LIKE_CALL.match(self.text, at):
                raise LiteralFault("it is not a Step, Var, Trigger, Return or call of a known form", at)
            else:
                return False
        except LiteralFault as fault:
            self._fault(str(fault), at)
            return True
        if self.at - at > MAX_ITEM_CHARS:
            self._items.pop()
            self._fault(f"an item has over {MAX_ITEM_CHARS:,} characters; write less", at)
            return True
        end = _END.match(self.text, self.at)
        self.at = end.end() if end else self.at
        return True

    def _last(self) -> Item | None:
        return self._items[-1] if self._items else None

    def _queue(self, queued: Queued) -> None:
        last = self._last()
        if queued.fired and isinstance(last, Fired):
            self._items[-1] = Fired(last.playbook, last.number, last.code, queues=True)
        self._items.append(queued)

    def _fault(self, reason: str, at: int) -> None:
        self.at = len(self.text)
        self._items.append(Unreadable(reason, self.text[at : at + 300].split("\n\n")[0].strip()))

    def _bracket_item(self, kind: str) -> Item:
        match kind:
            case "Var":
                return self._var()
            case "Return":
                return ReturnItem(self._until_bracket("Return", empty=True))
        match = CODE.match(self.text, self.at)
        if not match:
            raise LiteralFault(f'a {kind} is written `{kind}["Playbook:Line:CODE"]`', self.at)
        self.at = match.end() + 1
        return item_at(kind, match)

    def _var(self) -> SetVar:
        match = _VAR.match(self.text, self.at)
        if not match:
            raise LiteralFault("a Var is written `Var[$name, value]`", self.at)
        self.at = match.end()
        return SetVar(match[1], self._until_bracket("Var", empty=False))

    def _until_bracket(self, subject: str, *, empty: bool) -> Any:
        """Read the value up to the closing bracket. Bare words count as text."""
        reader = LiteralReader(self.text, self.at)
        if reader.peek() == "]":
            if not empty:
                raise LiteralFault("a value is missing", self.at)
            self.at = reader.at + 1
            return None
        first = reader.peek()
        try:
            value = reader.value()
            if reader.peek() != "]":
                raise LiteralFault(f"{subject} holds more than one value", self.at)
        except LiteralFault:
            if first in ("", '"', "'", "[", "{") or re.match(r"\s*\$[A-Za-z_]", self.text[self.at : self.at + 50]):
                raise
            return self._bare()
        if any(isinstance(part, CallTo) for part in parts_of(value)):
            name = value.name if isinstance(value, CallTo) else "F"
            raise LiteralFault(f"a call in {subject}; queue it alone, as `$x = {name}(…)`", self.at)
        self.at = reader.at + 1
        return value

    def _bare(self) -> str:
        """Read bare words up to the closing bracket, which must be on the same line."""
        depth, at, end = 0, self.at, self._line_end()
        while at < end and (depth or self.text[at] != "]"):
            depth += {"[": 1, "]": -1}.get(self.text[at], 0)
            at += 1
        if at >= end:
            raise LiteralFault("the bracket is not closed", self.at)
        text = self.text[self.at : at].strip()
        self.at = at + 1
        return text
