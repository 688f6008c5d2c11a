"""What is never the same twice in the output of a command: durations, times, addresses, temporary names, process ids.

Rule 1: a form counts only where it is clear. ``0.15s`` is a duration anywhere, ``3 s`` only after a word such as
    "took"; ``0x7f3a2c41b0d0`` is an address, ``0x10`` and ``0xdeadbeef`` are values; ``/tmp/tmpab12cd34`` is a
    temporary name, ``/tmp/out.txt`` is none.
Rule 2: lines keep their order and their number, and all else in them decides.
Rule 3: hostile text costs little: every repetition in a pattern is bounded, and so is how much of a text is looked at.
"""

from __future__ import annotations

import re

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
_LOOKED_AT_CHARS = 200_000  # of the lines that differ; about two seconds at worst
_FILL = re.compile(r"([=_ -])\1+")  # pads a line to a width, so it is as long as the duration is short


def volatile_kinds(one: str, other: str) -> frozenset[str] | None:
    """The kinds in which alone two texts differ; None where anything else is not the same, too."""
    old, new = one.split("\n"), other.split("\n")
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
    """The line without what is volatile, and that by its kind."""
    values: dict[str, list[str]] = {}

    def mask(match: re.Match[str]) -> str:
        group = str(match.lastgroup)
        values.setdefault(_GROUPS.get(group, "durations"), []).append(match[0])
        return "" if group == "in_brackets" else f"<{group}>"  # jest leaves it out where a test took no time

    return _FILL.sub(r"\1", _FORM.sub(mask, line)), values
