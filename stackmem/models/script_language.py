"""The script language: a YAML file that says, reply by reply, what a scripted model answers.

Rule 1: nothing is skipped in silence; whatever the language does not know is an error with file, line and column.
Rule 2: a script is data; reading it runs nothing, and arguments reach the harness as they stand, wrong ones too.

Source: docs/scripts.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, convert

from stackmem.core.messages import Usage

from .script_source import ScriptSource, listed, read_text

Fault = Literal[
    "429", "529", "timeout", "disconnect", "malformed", "two_calls", "no_call", "truncated", "refusal"
]  # fmt: skip
FAILING_FAULTS: frozenset[str] = frozenset({"429", "529", "timeout", "disconnect"})
"""The faults that leave no reply at all; the others spoil one."""

_SCRIPT_KEYS = ("description", "replies")
_REPLY_KEYS = (
    "call", "args", "calls", "text", "expect", "fault", "retry_after_seconds", "latency_seconds", "usage"
)  # fmt: skip
_CALL_KEYS = ("call", "args")
_EXPECT_KEYS = ("contains", "absent", "depth", "heap_has", "frame")
_USAGE_KEYS = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")


class PlannedCall(Struct, frozen=True):
    """A call as the script has it; neither the tool's name nor its arguments need be right."""

    tool: str
    args: Any


class Expectation(Struct, frozen=True):
    """What must hold of a request before its entry answers; None and () ask nothing.

    Attributes:
        contains: Texts that the system prompt or a message holds.
        absent: Texts that neither holds.
        heap_has: Chunks that stand on the heap.

    """

    contains: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    depth: int | None = None
    heap_has: tuple[str, ...] = ()
    frame: str | None = None


class ScriptedReply(Struct, frozen=True):
    """One entry: the answer to one request.

    Attributes:
        line: Where the entry stands in its file, from 1; 0 where it was made in Python.
        usage: None is the estimate, characters / 2.5.

    """

    text: str = ""
    calls: tuple[PlannedCall, ...] = ()
    fault: Fault | None = None
    retry_after_seconds: float | None = None
    latency_seconds: float = 0.0
    expect: Expectation | None = None
    usage: Usage | None = None
    line: int = 0


class Script(Struct, frozen=True):
    """Answers in order; ``path`` names the script in messages."""

    replies: tuple[ScriptedReply, ...]
    path: str = "script"
    description: str = ""


def read_script(path: Path) -> Script:
    """The script in a file.

    Raises:
        UsageError: The file cannot be read, or is no script; the message starts ``path:line:col:``.

    """
    return parse_script(read_text(path), str(path))


def parse_script(text: str, path: str = "script") -> Script:
    """The script in a text.

    Raises:
        UsageError: As ``read_script``.

    """
    source = ScriptSource(text, path)
    root = source.load()
    if root is None:
        raise source.error(0, 0, "the script is empty; it needs 'replies:', a list of what the model answers")
    top = source.mapping(root, (0, 0), "a script", _SCRIPT_KEYS)
    if "replies" not in top:
        raise source.error(0, 0, "'replies' is missing; it is the list of what the model answers")
    entries = source.sequence(top["replies"], source.at(top, "replies"), "'replies'")
    if not entries:
        raise source.error(*source.at(top, "replies"), "'replies' is empty; a script answers at least once")
    description = source.string(top, "description", "")
    return Script(tuple(_reply(source, entries, index) for index in range(len(entries))), path, description)


def _reply(source: ScriptSource, entries: Any, index: int) -> ScriptedReply:
    at = source.at(entries, index)
    entry = source.mapping(entries[index], at, "a reply", _REPLY_KEYS)
    fault = _fault(source, entry)
    text = source.string(entry, "text", "")
    calls = _calls(source, entry, at)
    if fault is None and not calls and "text" not in entry:
        raise source.error(*at, "this reply says nothing; give it 'call', 'calls', 'text' or 'fault'")
    if "retry_after_seconds" in entry and fault not in {"429", "529"}:
        raise source.error(*source.at(entry, "retry_after_seconds"), "'retry_after_seconds' goes with fault 429 or 529")
    if fault in FAILING_FAULTS and (calls or text):
        raise source.error(*at, f"fault {fault} leaves no reply; move 'call' and 'text' to the next entry")
    if fault == "two_calls" and len(calls) > 1:
        raise source.error(*at, "fault two_calls makes its own second call; use 'calls' without a fault for your own")
    if fault in {"no_call", "refusal"} and calls:
        raise source.error(*at, f"fault {fault} is a reply without a call; leave out 'call'")
    return ScriptedReply(
        text=text,
        calls=calls,
        fault=fault,
        retry_after_seconds=source.number(entry, "retry_after_seconds") if "retry_after_seconds" in entry else None,
        latency_seconds=source.number(entry, "latency_seconds") if "latency_seconds" in entry else 0.0,
        expect=_expectation(source, entry),
        usage=_usage(source, entry),
        line=at[0] + 1,
    )


def _fault(source: ScriptSource, entry: Any) -> Fault | None:
    if "fault" not in entry:
        return None
    value = entry["fault"]
    known: tuple[Fault, ...] = get_args(Fault)
    for fault in known:
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value) == fault:
            return fault
    raise source.error(*source.at(entry, "fault"), f"no fault {str(value)[:60]!r}; known: {', '.join(known)}")


def _calls(source: ScriptSource, entry: Any, at: tuple[int, int]) -> tuple[PlannedCall, ...]:
    if "calls" in entry:
        if "call" in entry or "args" in entry:
            raise source.error(*at, "'call' and 'calls' exclude each other; keep one")
        listed = source.sequence(entry["calls"], source.at(entry, "calls"), "'calls'")
        if not listed:
            raise source.error(*source.at(entry, "calls"), "'calls' is empty; leave it out for a reply without a call")
        return tuple(
            _call(source, source.mapping(item, source.at(listed, index), "a call", _CALL_KEYS))
            for index, item in enumerate(listed)
        )
    if "call" in entry:
        return (_call(source, entry),)
    if "args" in entry:
        raise source.error(*source.at(entry, "args"), "'args' without 'call'; name the tool with 'call'")
    return ()


def _call(source: ScriptSource, entry: Any) -> PlannedCall:
    if "call" not in entry:
        raise source.error(entry.lc.line, entry.lc.col, "'call' is missing; it names the tool")
    try:
        args = source.plain(entry["args"], source.at(entry, "args")) if "args" in entry else {}
    except RecursionError as error:
        raise source.error(*source.at(entry, "args"), "nested too deeply, or within itself; write it out") from error
    return PlannedCall(source.string(entry, "call", ""), args)


def _expectation(source: ScriptSource, entry: Any) -> Expectation | None:
    if "expect" not in entry:
        return None
    expect = source.mapping(entry["expect"], source.at(entry, "expect"), "'expect'", _EXPECT_KEYS)
    if not expect:
        raise source.error(*source.at(entry, "expect"), f"'expect' asks nothing; known: {listed(_EXPECT_KEYS)}")
    return Expectation(
        contains=source.strings(expect, "contains"),
        absent=source.strings(expect, "absent"),
        depth=source.count(expect, "depth") if "depth" in expect else None,
        heap_has=source.strings(expect, "heap_has"),
        frame=source.string(expect, "frame", "") if "frame" in expect else None,
    )


def _usage(source: ScriptSource, entry: Any) -> Usage | None:
    if "usage" not in entry:
        return None
    usage = source.mapping(entry["usage"], source.at(entry, "usage"), "'usage'", _USAGE_KEYS)
    return convert({key: source.count(usage, key) for key in usage}, Usage)
