"""Applies change requests to a payload.

Frequent mistakes of models are flagged: truncated text, removed values, placeholders.

Rule 1: the original payload is never changed; the result is a new value.
Rule 2: for one key, ``replaceElements`` applies first, or else updates, then removals, then additions. List positions
therefore refer to the list that the model saw.
Rule 3: corrections are warnings, and denied operations are listed as blocked. Nothing is dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.languages.frame.values import texts

from .paths import MISSING, Draft, Operation, Path, Rule, denial, look_up, path_text
from .reply_json import json_kind

DELETE = "__DELETE__"
_CORRECTED = "Auto-corrected"
WORDS = ("newElements", "updateElements", "removeElements", "replaceElements", "reasoning")


class PayloadChange(Struct, frozen=True):
    """The result of a change request."""

    result: Any
    edits: tuple[PayloadEdit, ...] = ()  # applied edits, in order
    warnings: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # reasons for a second look; empty if the change is unremarkable
    blocked: tuple[str, ...] = ()  # operations that were not allowed
    # the warnings about requests that were carried out in a different way
    corrections: tuple[str, ...] = ()


def fault_of(request: Any) -> str:
    """Return what is wrong with the form of a request; empty if it is valid."""
    if not isinstance(request, dict):
        return "payloadChangeRequest must be an object"
    for word in WORDS[:-1]:
        if request.get(word) is not None and not isinstance(request[word], dict):
            return f"payloadChangeRequest.{word} must be an object"
    return ""


def apply_change(payload: Any, request: dict[str, Any], rules: tuple[Rule, ...] = ()) -> PayloadChange:
    """Apply a request of valid form to the payload."""
    work = _PayloadEditor(Draft(payload if isinstance(payload, dict) else {}), rules)
    new, update, remove, replace = (dict(request.get(word) or {}) for word in WORDS[:-1])
    work.adopt_stray(request, new, update, (remove, replace))
    for key, value in replace.items():
        work.replace((key,), value)
        for other in (new, update, remove):
            other.pop(key, None)
    for key, value in update.items():
        work.update((key,), value, top=True)
    for key, value in remove.items():
        work.remove((key,), value)
    for key, value in new.items():
        work.add((key,), value)
    edits, warnings = tuple(work.edits), tuple(dict.fromkeys(work.warnings))
    corrections = tuple(text for text in warnings if text.startswith(_CORRECTED))
    return PayloadChange(work.result, edits, warnings, flags_of(edits), tuple(work.blocked), corrections)


def write_one(
    draft: Draft, path: Path, value: Any, rules: tuple[Rule, ...], *, removes: bool = False
) -> tuple[str, ...]:
    """Set or remove the value at one path. Returns what was not allowed."""
    work = _PayloadEditor(draft, rules)
    there = look_up(draft.value, path) is not MISSING
    if there:
        work.set("delete" if removes else "update", path, value)
    elif not removes:
        work.add_allowed(path, value)
    return tuple(work.blocked)


class _PayloadEditor:
    """A payload that is being changed."""

    def __init__(self, draft: Draft, rules: tuple[Rule, ...]) -> None:
        self.draft = draft
        self.rules = rules
        self.edits: list[PayloadEdit] = []
        self.warnings: list[str] = []
        self.blocked: list[str] = []

    @property
    def result(self) -> Any:
        return self.draft.value

    def set(self, operation: Operation, path: Path, value: Any) -> None:
        refused = denial(self.rules, path, operation)
        if refused:
            self.blocked.append(refused)
            return
        before = look_up(self.result, path)
        if operation == "delete":
            self.draft.take(path)
        else:
            self.draft.put(path, value)
        self.edits.append(PayloadEdit(operation, path, None if before is MISSING else before, value))

    def adopt_stray(
        self, request: dict[str, Any], new: dict[str, Any], update: dict[str, Any], other: tuple[dict[str, Any], ...]
    ) -> None:
        """Apply keys outside the known words, which the model forgot to wrap."""
        for key, value in request.items():
            if key in WORDS or key.startswith(("_", "$")):
                continue
            if key in new or key in update or any(key in each for each in other):
                self.warnings.append(f"'{key}' is also among the known words; the explicit entry is used")
                continue
            target, word = (update, "updateElements") if key in self.result else (new, "newElements")
            target[key] = value
            self.warnings.append(f"{_CORRECTED}: '{key}' stood outside of the known words (moved to {word})")

    def replace(self, path: Path, value: Any) -> None:
        there = look_up(self.result, path) is not MISSING
        if value == DELETE:
            self._delete_by_mark(path, "replaceElements")
            return
        if there and denial(self.rules, path, "add"):  # do not remove a value that may not be added again
            self.blocked.append(denial(self.rules, path, "add"))
            return
        if there:
            self.set("delete", path, None)
        if look_up(self.result, path) is MISSING:
            self.add_allowed(path, self._without_marks(path, value))

    def add_allowed(self, path: Path, value: Any) -> None:
        """Add a value. If an object may not be added as a whole, add the members that may."""
        if isinstance(value, dict) and denial(self.rules, path, "add") and self._may_add_within(path, value):
            for name, member in value.items():
                self.add_allowed((*path, name), member)
        else:
            self.set("add", path, value)

    def _may_add_within(self, path: Path, value: Any) -> bool:
        members = value.items() if isinstance(value, dict) else ()
        inner = [((*path, name), member) for name, member in members]
        return any(
            not denial(self.rules, member_path, "add") or self._may_add_within(member_path, each)
            for member_path, each in inner
        )

    def add(self, path: Path, value: Any) -> None:
        have = look_up(self.result, path)
        if value == DELETE:
            self._delete_by_mark(path, "newElements")
        elif have is MISSING:
            self.add_allowed(path, self._without_marks(path, value))
        elif isinstance(have, list):
            items = value if isinstance(value, list) else [value]
            self._append(path, items)
        elif isinstance(have, dict) and isinstance(value, dict):
            for name, member in value.items():
                self.add((*path, name), member)
        else:
            key = path_text(path)
            message = f"{_CORRECTED}: '{key}' was in newElements but already exists (treated as update)"
            self.warnings.append(message)
            self.update(path, value)

    def update(self, path: Path, value: Any, *, top: bool = False) -> None:
        have = look_up(self.result, path)
        if isinstance(value, str) and value == DELETE:
            self._delete(path, have)
        elif have is MISSING:
            if top:
                key = path_text(path)
                message = f"{_CORRECTED}: '{key}' was in updateElements but does not exist (treated as addition)"
                self.warnings.append(message)
            self.add_allowed(path, self._without_marks(path, value))
        elif value == {} and isinstance(value, dict):
            if top:  # below, it is the usual way to skip an item of a list
                self._warn_about_empty(path, have, value)
        elif value == [] and isinstance(have, list):
            self._warn_about_empty(path, have, value)
        elif isinstance(have, dict) and isinstance(value, dict):
            for name, member in value.items():
                self.update((*path, name), member)
        elif isinstance(have, list) and isinstance(value, list):
            self._update_items(path, value, len(have))
        elif not _equal(have, value):
            self.set("update", path, self._without_marks(path, value))

    def _update_items(self, path: Path, values: list[Any], length: int) -> None:
        marked, more = list[int](), list[Any]()
        for index, item in enumerate(values):
            if isinstance(item, str) and item == DELETE:
                marked.append(index)
            elif index < length:
                self.update((*path, index), item)
            else:
                more.append(item)
        self._append(path, more)
        self._delete_items(path, marked)

    def _append(self, path: Path, items: list[Any]) -> None:
        """Append all items in one step. Appending them one by one would copy a long list for every item."""
        have = look_up(self.result, path)
        items_after = list(have)
        for item in items:
            if item == DELETE:
                self.warnings.append(f"an item of '{path_text(path)}' is \"{DELETE}\", so nothing was appended for it")
                continue
            item_path = (*path, len(items_after))
            value = self._without_marks(item_path, item)
            refused = denial(self.rules, item_path, "add")
            if refused:
                self.blocked.append(refused)
                continue
            items_after.append(value)
            self.edits.append(PayloadEdit("add", item_path, None, value))
        if len(items_after) > len(have):
            self.draft.put(path, items_after)

    def remove(self, path: Path, mark: Any) -> None:
        have = look_up(self.result, path)
        if isinstance(mark, str) and mark == DELETE:
            self._delete(path, have)
        elif isinstance(mark, dict) and mark and isinstance(have, dict):
            for name, member in mark.items():
                self.remove((*path, name), member)
        elif isinstance(mark, list) and isinstance(have, list):
            marked = [index for index, item in enumerate(mark) if isinstance(item, str) and item == DELETE]
            for index, item in enumerate(mark[: len(have)]):
                if isinstance(item, dict | list):
                    self.remove((*path, index), item)
            self._delete_items(path, marked)
        elif mark is not None and mark != {}:
            self.warnings.append(f"'{path_text(path)}' in removeElements was kept: only \"{DELETE}\" removes")

    def _delete_items(self, path: Path, marked: list[int]) -> None:
        """Remove several items in one step, because removing them one by one would copy the list for every item.

        The edits are recorded from the last item to the first.
        """
        have, removed = look_up(self.result, path), set[int]()
        for index in reversed(marked):
            item_path = (*path, index)
            if index >= len(have) or denial(self.rules, item_path, "delete"):
                self._delete(item_path, look_up(self.result, item_path))
                continue
            removed.add(index)
            self.edits.append(PayloadEdit("delete", item_path, have[index]))
        if removed:
            self.draft.put(path, [item for index, item in enumerate(have) if index not in removed])

    def _without_marks(self, path: Path, value: Any) -> Any:
        """Return a new value without deletion marks inside it, which would remove what is not there."""
        match value:
            case dict():
                items = [(name, each) for name, each in value.items() if not self._is_mark((*path, name), each)]
                return {name: self._without_marks((*path, name), each) for name, each in items}
            case list():
                unmarked = [each for at, each in enumerate(value) if not self._is_mark((*path, at), each)]
                return [self._without_marks((*path, at), each) for at, each in enumerate(unmarked)]
            case _:
                return value

    def _is_mark(self, path: Path, value: Any) -> bool:
        if value == DELETE:
            self._delete(path, MISSING)
        return bool(value == DELETE)

    def _delete_by_mark(self, path: Path, word: str) -> None:
        """Remove a value whose mark is in a member that adds values."""
        have = look_up(self.result, path)
        if have is not MISSING:
            message = f"{_CORRECTED}: '{path_text(path)}' is \"{DELETE}\" in {word} (treated as removal)"
            self.warnings.append(message)
        self._delete(path, have)

    def _warn_about_empty(self, path: Path, have: Any, value: Any) -> None:
        """Warn about an update with ``[]`` or ``{}``, which changes nothing because lists and objects merge."""
        if have and isinstance(have, dict | list):
            empty = "[]" if isinstance(value, list) else "{}"
            message = f"'{path_text(path)}' is {empty} in updateElements, which changes nothing"
            self.warnings.append(f"{message}; to empty it, write it in replaceElements")

    def _delete(self, path: Path, have: Any) -> None:
        if have is MISSING:
            self.warnings.append(f"'{path_text(path)}' was to be removed and is not there")
        else:
            self.set("delete", path, None)


def _equal(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


_CUT = 0.3
_WORTH_CHARS = 50
"""Texts that were shorter than this may shrink without a flag."""
_PLACEHOLDER = re.compile(
    r"…|\[?\.{3}\]?|TODO|TBD"
    r"|(?i:etc\.?|\(?(rest|remainder) (of .{1,40} )?(unchanged|omitted|as before|goes here)\)?)"
)
"""``TODO`` counts only in capitals, because in lower case it is often the status of a task."""

_ENDS = ("...", "…", " etc", " etc.")


class PayloadEdit(Struct, frozen=True):
    """One change of a payload. ``before`` or ``after`` is None if the value was added or removed."""

    operation: Operation
    path: Path
    before: Any = None
    after: Any = None


def flags_of(edits: tuple[PayloadEdit, ...]) -> tuple[str, ...]:
    """Return one sentence for each edit that needs a second look."""
    return tuple(flag for edit in edits for flag in _flags(edit))


def _flags(edit: PayloadEdit) -> Iterator[str]:
    location = path_text(edit.path)
    if edit.operation == "delete":
        if edit.before not in (None, "", [], {}):
            yield f"'{location}' was removed and was not empty"
        return
    if edit.operation == "update":
        yield from _shrinkage(location, edit.before, edit.after)
        if edit.before is not None and edit.after is not None and json_kind(edit.before) != json_kind(edit.after):
            yield f"'{location}' was {json_kind(edit.before)} and is {json_kind(edit.after)}"
    for text in texts(edit.after):
        if _PLACEHOLDER.fullmatch(text.strip()) or text.rstrip().endswith(_ENDS):
            yield f"'{location}' contains what looks like a placeholder: {text[-40:]!r}"
            return


def _shrinkage(location: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, str) and isinstance(after, str) and len(before) >= _WORTH_CHARS:
        lost = 1 - len(after) / len(before)
        if lost > 1 - _CUT:
            yield f"'{location}' lost {lost:.0%} of its {len(before):,} characters"
