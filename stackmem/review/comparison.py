"""Compares facts of two runs, ignoring everything that never repeats exactly.

Rule 1: Some values are not compared: token counts, providers' ids of replies, output of checks, network requests, and
    the digest of a prompt, which follows from everything before it.
Rule 2: Text from a model, a user or a program is compared exactly. In results from outside, and in facts that follow
    from them, differences in volatile words (durations, times, addresses and so on) are noted but count as equal.
Rule 3: Once such words have differed, digests and sizes of texts that may contain them count as equal too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core import facts
from stackmem.core.errors import TraceError
from stackmem.core.messages import Usage
from stackmem.core.program_facts import PhaseEnded, ProgramReturned, StepLeft, ToolAnswered, UserAnswered, VariableSet
from stackmem.trace.difference import equal_facts
from stackmem.trace.snapshot import FileChange, Snapshot, changes

_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
_DECIMAL = r"\d{1,12}\.\d{1,12}"
_UNIT = r"(?:ns|us|µs|μs|ms|msecs?|s|secs?|seconds?|milliseconds?|mins?|minutes?|hours?)"
_COMPOUND = r"(?:(?:\d{1,6}\s?h\s?)?\d{1,6}\s?m\s?\d{1,2}(?:\.\d{1,9})?\s?s|\d{1,6}\s?h\s?\d{1,2}\s?m)"
_SPAN = rf"(?:{_COMPOUND}|{_NUMBER}\s?{_UNIT})"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\s)?"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-6]\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:\s?(?:Z|[A-Z]{3,4}|[+-]\d\d:?\d\d)\b)?"
_DATE = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_RANDOM = r"(?=[A-Za-z]{0,15}\d|[A-Za-z0-9]{0,15}[a-z0-9][A-Z])(?=\d{0,15}[A-Za-z])[A-Za-z0-9_]{6,16}"
_IN_BRACKETS = rf" ?\({_SPAN}\)"

_FORMS = {
    "durations": [
        rf"(?i:\b(?:in|took|elapsed|time|duration)[:=]?\s{{1,12}}{_SPAN}\b)"
        rf"(?: \(\d{{1,6}}:\d\d:\d\d\))?(?:, estimated {_SPAN}\b)?",  # pytest adds the first, jest the second
        rf"\b(?:duration|elapsed|time)(?:_ns|_us|_ms|_s|_secs?|_seconds)\b[\"']?\s?[:=]?\s?[\"']?{_NUMBER}",
        rf"\b(?:duration|elapsed|time)[\"']?\s?[:=]\s?[\"']?{_DECIMAL}(?:\s?{_UNIT}\b)?",
        rf"(?<![\w.])(?:{_COMPOUND}|{_DECIMAL}\s?{_UNIT})\b",
        rf"(?<![\w.:]){_DECIMAL}(?:user|system)\b|(?<![\w.])\d{{1,6}}:\d\d[.:]\d\delapsed \d{{1,6}}%CPU",  # time(1)
        rf"(?<![\w.]){_NUMBER} (?:ns|µs|us|ms)/(?:op|iter)\b|(?<=\t)\(cached\)",  # go
    ],
    "times": [
        rf"\b{_DATE}(?:[T ]{_CLOCK}{_ZONE})?(?![\w-])",
        rf"\b{_DAY}{_MONTH}\s{{1,2}}\d{{1,2}}\s{_CLOCK}{_ZONE}(?:\s(?:19|20)\d\d)?\b",  # ctime, date, syslog
        rf"\b{_DAY}\d{{1,2}}\s{_MONTH}\s(?:19|20)\d\d\s{_CLOCK}{_ZONE}",  # mail, HTTP
        rf"\b{_MONTH}\s{{1,2}}\d{{1,2}}\s(?:[01]\d|2[0-3]):[0-5]\d\b",  # ls -l
        rf"(?<![\w:.]){_CLOCK}(?![\w:])",
    ],
    "addresses": [
        r"\b0x0{0,8}[1-9a-fA-F][0-9a-fA-F]{8,11}\b|(?<=\bat )0x[0-9a-fA-F]{5,16}\b",
    ],
    "temporary names": [
        r"\b(?:replay-[0-9a-f]{12}|\d{8}T\d{6}Z-[\w.-]{1,100}-[0-9a-f]{6})\b",  # the folder of a run, or of a replay
        r"\bpytest-of-[\w.-]{1,64}/pytest-\d{1,9}\b",
        r"(?<=/tmp/)tmp[a-z0-9_]{8}\b|\btmp(?=[a-z_]{0,7}\d)[a-z0-9_]{6,8}\b|\btmp\.[A-Za-z0-9]{6,12}\b",
        rf"(?<=/tmp/)(?:[\w.]{{1,64}}[.-])?{_RANDOM}(?=[/'\"\s:)]|$)",
        r"\bgo-(?:build|link-)\d{6,12}\b|(?<=/)(?:cc|rustc)[A-Za-z0-9]{6}(?=[./])",
    ],
    "process ids": [
        r"\b(?:pid|PID|Pid)(?:\s?[:=#]\s?|\s)\d{1,10}\b|\(node:\d{1,10}\)|^==\d{1,10}==|^\[\d{1,4}\]\s\d{1,10}$",
        r"(?<=:)\s{1,6}\d{1,10}(?=\s(?:Segmentation|Aborted|Killed|Terminated|Bus error|Floating))",  # from bash
    ],
}
KINDS = tuple(_FORMS)
_GROUPS = {kind.replace(" ", "_"): kind for kind in KINDS}
_FORM = re.compile(
    "|".join([
        f"(?P<in_brackets>{_IN_BRACKETS})",
        *(f"(?P<{group}>{'|'.join(_FORMS[kind])})" for group, kind in _GROUPS.items()),
    ])
)  # fmt: skip
_LOOKED_AT_CHARS = 200_000  # of the lines that differ; about two seconds in the worst case
_FILL = re.compile(r"([=_ -])\1+")  # pads a line to a width, so its length depends on that of the duration


def volatile_kinds(text_a: str, text_b: str) -> frozenset[str] | None:
    """Return the kinds of volatile words in which two texts differ, or None if they differ in anything else."""
    old, new = text_a.split("\n"), text_b.split("\n")
    if len(old) != len(new):
        return None
    pairs = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
    if sum(len(line) for pair in pairs for line in pair) > _LOOKED_AT_CHARS:
        return None
    kinds = set[str]()
    for pair in pairs:
        (first, before), (second, after) = map(_mask, pair)
        if first != second:
            return None
        kinds |= {kind for kind in KINDS if before.get(kind) != after.get(kind)}
    return frozenset(kinds) or None


def _mask(line: str) -> tuple[str, dict[str, list[str]]]:
    """Return the line with placeholders for its volatile words, and these words by kind."""
    values: dict[str, list[str]] = {}

    def mask(match: re.Match[str]) -> str:
        group = str(match.lastgroup)
        values.setdefault(_GROUPS.get(group, "durations"), []).append(match[0])
        return "" if group == "in_brackets" else f"<{group}>"  # jest omits it for a test that took no time

    return _FILL.sub(r"\1", _FORM.sub(mask, line)), values


_FILE_BYTES = 400_000  # of both files together; larger ones count as different without a comparison of words
_DIGEST = re.compile("[0-9a-f]{16,64}")
_FOLLOWS: dict[type, tuple[str, ...]] = {
    facts.ToolReturned: ("digests",),
    facts.VerifyReturned: ("digests",),
    facts.SourcesDigested: ("digests",),
    PhaseEnded: ("digests",),
    VariableSet: ("size",),
    StepLeft: ("size",),
    ProgramReturned: ("size", "digest"),
    facts.ChunkRead: ("chars",),
}
"""Fields that are computed from texts in other places."""


def without_counts(event: facts.Event) -> facts.Event:
    """Return the event without the values that Rule 1 excludes."""
    match event:
        case facts.ModelReplied() | facts.ContextCompacted():
            return replace(event, prompt_digest="", reply_id="", usage=Usage())
        case facts.ModelFailed():
            return replace(event, prompt_digest="", retry_after_seconds=None)
        case facts.ChecksReturned():
            return replace(event, text="", requests=UNSET)
        case facts.ToolReturned():
            return replace(event, requests=UNSET, search=UNSET)
        case facts.VerifyReturned() | ToolAnswered():
            return replace(event, requests=UNSET)
        case _:
            return event


class FactComparison:
    """Compares two runs, fact by fact in order. ``histories`` are the folders with the files of each run."""

    def __init__(self, histories: tuple[Path, Path]) -> None:
        self._histories = histories
        self._kinds: set[str] = set()
        self._trees: dict[tuple[str, str], frozenset[str] | None] = {}

    @property
    def differs_only_in(self) -> tuple[str, ...]:
        """The kinds of volatile words that differed in otherwise equal facts."""
        return tuple(kind for kind in KINDS if kind in self._kinds)

    def equal(self, event: facts.Event, other: facts.Event) -> bool:
        """Return whether the next facts of both runs are equal."""
        if equal_facts(event, other):
            return True
        if type(event) is not type(other):
            return False
        event, other = without_counts(event), without_counts(other)
        if equal_facts(event, other):
            return True
        if isinstance(event, facts.ModelReplied | facts.ContextCompacted | UserAnswered):
            return False
        kinds = self._field_kinds(event, other)
        self._kinds |= kinds or frozenset()
        return kinds is not None

    def equal_text(self, text_a: str, text_b: str) -> bool:
        """Return whether two texts from outside are equal."""
        kinds = _value_kinds(text_a, text_b)
        self._kinds |= kinds or frozenset()
        return kinds is not None

    def changed_files(self, snapshot: Snapshot, other: Snapshot) -> list[FileChange]:
        """Return the change of each file that differs in more than volatile words. Raises like ``changes``."""
        paths, kinds = _changed_paths(snapshot, other)
        self._kinds |= kinds
        return changes(snapshot, other, paths)

    def _field_kinds(self, fact_a: Struct, fact_b: Struct) -> frozenset[str] | None:
        """Return the kinds of volatile words in which the fields differ, or None if they differ in anything else."""
        kinds = frozenset[str]()
        follows = _FOLLOWS.get(type(fact_a), ())
        for name in (*(name for name in fact_a.__struct_fields__ if name not in follows), *follows):
            old, new = getattr(fact_a, name), getattr(fact_b, name)
            if old == new:
                continue
            if name in follows:
                if not (kinds or self._kinds) or _unhashed(old) != _unhashed(new):
                    return None
                continue
            these = self._tree_kinds(old, new) if name == "tree" else _value_kinds(old, new)
            if these is None:
                return None
            kinds |= these
        return kinds

    def _tree_kinds(self, tree_a: str, tree_b: str) -> frozenset[str] | None:
        """Compare the files of two moments in the same way as ``_field_kinds``."""
        if not tree_a or not tree_b:
            return None
        if (tree_a, tree_b) not in self._trees:
            try:
                paths, kinds = _changed_paths(
                    Snapshot(self._histories[0], tree_a), Snapshot(self._histories[1], tree_b)
                )
                self._trees[tree_a, tree_b] = None if paths else kinds
            except TraceError:  # lost files: the difference is not known to be small
                self._trees[tree_a, tree_b] = None
        return self._trees[tree_a, tree_b]


def _value_kinds(value_a: Any, value_b: Any) -> frozenset[str] | None:
    """Apply ``volatile_kinds`` to all texts in two JSON values. Empty if they are equal."""
    if equal_facts(value_a, value_b):
        return frozenset()
    if isinstance(value_a, str) and isinstance(value_b, str):
        return volatile_kinds(value_a, value_b)
    if isinstance(value_a, dict) and isinstance(value_b, dict) and list(value_a) == list(value_b):
        pairs = [(value_a[name], value_b[name]) for name in value_a]
    elif isinstance(value_a, list | tuple) and isinstance(value_b, list | tuple) and len(value_a) == len(value_b):
        pairs = list(zip(value_a, value_b, strict=True))
    else:
        return None
    kinds = frozenset[str]()
    for old, new in pairs:
        these = _value_kinds(old, new)
        if these is None:
            return None
        kinds |= these
    return kinds


def _changed_paths(snapshot: Snapshot, other: Snapshot) -> tuple[list[str], frozenset[str]]:
    """Return the files that differ in more than volatile words, and the kinds in which the others differ."""
    paths, kinds = [], frozenset[str]()
    for path in sorted(snapshot.entries.keys() | other.entries.keys()):
        if snapshot.entries.get(path) != other.entries.get(path):
            these = _file_kinds(snapshot, other, path)
            if these is None:
                paths.append(path)
            kinds |= these or frozenset()
    return paths, kinds


def _file_kinds(snapshot: Snapshot, other: Snapshot, path: str) -> frozenset[str] | None:
    if path not in snapshot or path not in other or snapshot.entries[path].mode != other.entries[path].mode:
        return None
    old, new = snapshot[path], other[path]
    if len(old) + len(new) > _FILE_BYTES:
        return None
    try:
        return volatile_kinds(old.decode(), new.decode())
    except UnicodeDecodeError:
        return None


def _unhashed(value: Any) -> Any:
    """Return digests by name with the hashes removed; ``unknown`` and ``missing`` stay."""
    return {name: _DIGEST.sub("", text) for name, text in value.items()} if isinstance(value, dict) else None
