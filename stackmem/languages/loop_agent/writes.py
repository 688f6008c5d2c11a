"""Writes results into a payload, computes the difference of two payloads, and merges parallel iterations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from .paths import MAX_STEPS, MISSING, Draft, Path, Rule, index_of, look_up, parse_path, path_text
from .payload import write_one
from .references import ReferenceNames, add_warning, excess, resolve
from .reply_json import json_value
from .results import ActionOutcome

MAX_GAP = 100_000
_STEP_NAME = re.compile(r"\[(?:\*|([A-Za-z_]\w*))\]")


class Write(Struct, frozen=True):
    """One write to a path. ``appended`` adds the items to the list at the path; ``removes`` removes the value."""

    path: Path
    value: Any = None
    appended: bool = False
    removes: bool = False


def writes_between(before: Any, after: Any, path: Path = ()) -> Iterator[Write]:
    """Yield the writes that turn ``before`` into ``after``."""
    if before is after:  # shortcut for parts that the agent did not change
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before:
            if name not in after:
                yield Write((*path, name), removes=True)
        for name, value in after.items():
            yield from writes_between(before.get(name, MISSING), value, (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(after) >= len(before):
        for at, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from writes_between(old, new, (*path, at))
        if len(after) > len(before):
            yield Write(path, after[len(before) :], appended=True)
    elif before is MISSING or type(before) is not type(after) or before != after:
        yield Write(path, after)


class PayloadMerge:
    """A payload into which iterations are merged in order. On a conflict the last write wins, with a warning."""

    def __init__(self, payload: Any, rules: tuple[Rule, ...], *, together: bool, names: Sequence[str] = ()) -> None:
        """Start a merge into a payload.

        Only iterations that ran ``together`` can conflict. Warnings refer to them by ``names`` or by number.
        """
        self._together, self._names = together, names
        self._draft = Draft(payload)
        self.warnings: list[str] = []
        self._rules = rules
        self._first: dict[Path, tuple[int, Write]] = {}
        self._parents_written: dict[
            Path, int
        ] = {}  # ancestors of written paths, with the first iteration that wrote below them

    @property
    def payload(self) -> Any:
        return self._draft.value

    def give(self, value: Any) -> None:
        """Note that an iteration received ``value``, which may be a part of the payload."""
        self._draft.give(value)

    def merge(self, index: int, writes: Iterator[Write] | tuple[Write, ...]) -> None:
        for write in writes:
            if write.appended:
                self._append(write)
                continue
            if self._together:
                self._compare(index, write)
            self._put(write.path, write.value, removes=write.removes)

    def leave_holes(self, targets: Iterator[Path]) -> bool:
        """Put null at each targeted list index that has no value yet. Returns whether any was put."""
        put = False
        for target in targets:
            at = next((number for number, step in enumerate(target, 1) if isinstance(step, int)), 0)
            if at and look_up(self.payload, target[:at]) is MISSING:
                self._put(target[:at], None)
                put = put or look_up(self.payload, target[:at]) is None
        return put

    def _compare(self, index: int, write: Write) -> None:
        first = self._first.setdefault(write.path, (index, write))
        location = path_text(write.path)
        if first[0] != index and first[1] != write:
            message = f"{self._writers_text(first[0], index)} wrote different values to '{location}'"
            add_warning(self.warnings, f"{message}; the later holds")
            self._first[write.path] = (index, write)
        ancestors = [write.path[:at] for at in range(1, len(write.path))]
        writers = [self._first[each][0] for each in ancestors if each in self._first]
        others = [writer for writer in (*writers, self._parents_written.get(write.path, index)) if writer != index]
        if others:
            message = f"{self._writers_text(others[0], index)} wrote '{location}' and a value inside or around it"
            add_warning(self.warnings, f"{message}; the later holds")
        for each in ancestors:
            self._parents_written.setdefault(each, index)

    def _writers_text(self, first: int, second: int) -> str:
        return f"{self._names[first]} and {self._names[second]}" if self._names else f"iterations {first} and {second}"

    def _append(self, write: Write) -> None:
        have = look_up(self.payload, write.path)
        for position, item in enumerate(write.value, len(have) if isinstance(have, list) else 0):
            self._put((*write.path, position), item)

    def _put(self, path: Path, value: Any, *, removes: bool = False) -> None:
        fault = excess(value) or ("the place is too deep" if len(path) > MAX_STEPS else "") or self._gap(path)
        if fault:
            add_warning(self.warnings, f"nothing was written to '{path_text(path)[:80]}': {fault}")
            return
        for refused in write_one(self._draft, path, value, self._rules, removes=removes):
            add_warning(self.warnings, refused)

    def _gap(self, path: Path) -> str:
        """Return why a list cannot be filled up to an index in the path; empty if it can."""
        for at, step in enumerate(path):
            have = look_up(self.payload, path[:at])
            length = len(have) if isinstance(have, list) else 0
            if not isinstance(have, dict) and (index_of(step) or 0) - length > MAX_GAP:
                return f"index {step} lies more than {MAX_GAP:,} behind the end of its list"
        return ""


def pairs_of(mapping: Any) -> tuple[tuple[str, str], ...] | None:
    """Return ``(result path, payload path)`` pairs as text; None if the mapping is invalid."""
    if isinstance(mapping, str) and mapping.lstrip().startswith("{") and not mapping.lstrip().startswith("{{"):
        mapping = json_value(mapping)
    if isinstance(mapping, str):
        return (("", mapping),)
    if isinstance(mapping, dict) and all(isinstance(value, str) for value in mapping.values()):
        return tuple((str(name), value) for name, value in mapping.items())
    return None


def mapping_fault(mapping: Any) -> str:
    """Return what is wrong with an output mapping; empty if it is valid.

    References in payload paths are not checked.
    """
    pairs = pairs_of(mapping)
    if pairs is None:
        return "an output mapping is a payload path, or an object of result path to payload path"
    for source, target in pairs:
        if parse_path(source) is None:
            return f"{source[:80]!r} is not a path in a result; write it like a.b[0]"
        if "{{" not in _with_braces(target) and not parse_path(_bare(target)):
            return f"{target[:80]!r} is not a path in the payload; write it like a.b[0]"
    return ""


def is_mapped(mapping: Any, outcome: ActionOutcome) -> bool:
    """Return whether a result is written.

    A failed command is written only if the mapping names ``exit_code``, which shows that its failure counts as data.
    """
    if outcome.ok:
        return True
    return isinstance(outcome.value, dict) and any(source == "exit_code" for source, _ in pairs_of(mapping) or ())


def targets_of(mapping: Any, names: ReferenceNames) -> Iterator[Path]:
    """Yield the payload paths that a valid mapping names."""
    for _, target in pairs_of(mapping) or ():
        yield parse_path(_bare(_spelled(target, names, []))) or ()


def writes_of(mapping: Any, result: Any, names: ReferenceNames, warnings: list[str]) -> tuple[Write, ...]:
    """Return the writes of a valid mapping for a result."""
    writes = []
    for source, target in pairs_of(mapping) or ():
        value = look_up(result, parse_path(source) or ())
        spelled = _spelled(target, names, warnings)
        path = parse_path(_bare(spelled))
        if value is MISSING:
            add_warning(warnings, f"the result has no '{source}', so nothing was written to '{spelled}'")
        elif not path:
            add_warning(warnings, f"{spelled[:80]!r} is not a path in the payload; nothing was written there")
        else:
            writes.append(Write(path, value))
    return tuple(writes)


def _spelled(target: str, names: ReferenceNames, warnings: list[str]) -> str:
    """Resolve references in a payload path, as in ``a[{{index}}]``, ``a[index]``, or ``a[*]`` for the item's index."""
    braced = _with_braces(target)
    return str(resolve(braced, names, warnings)) if "{{" in braced else target


def _with_braces(target: str) -> str:
    return _STEP_NAME.sub(lambda match: "[{{" + (match[1] or "index") + "}}]", target)


def _bare(path: str) -> str:
    text = path.strip()
    return text[len("payload.") :] if text.lower().startswith("payload.") else text
