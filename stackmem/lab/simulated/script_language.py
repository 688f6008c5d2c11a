"""The script language: a YAML file with the replies of a scripted model.

- Unknown content is never skipped; it is an error with file, line and column.
- A script is data; reading it executes nothing. Arguments are passed on unchanged, even wrong ones.

Source: docs/scripts.md.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct, convert

from stackmem.core.errors import UsageError
from stackmem.core.messages import Usage
from stackmem.core.text import whole
from stackmem.foreign.files import read_start
from stackmem.foreign.yaml_depth import bounded_scanner, read_json_line

MAX_SCRIPT_BYTES = 2 * 1024 * 1024
MAX_VALUES = 200_000
MAX_WAIT_SECONDS = 3_600
MAX_BRACKETS = 250


def read_text(path: Path) -> str:
    """Read a script file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a regular file; pass a script, as in script:demo.yaml")
        raw = read_start(path, MAX_SCRIPT_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(f"no script {path}; pass a YAML file, as in script:demo.yaml") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the script {path} cannot be read ({error}); pass a readable YAML file") from error
    if len(raw) > MAX_SCRIPT_BYTES:
        raise UsageError(f"{path}:1:1: the script is larger than {MAX_SCRIPT_BYTES:,} bytes; split it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        col = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        byte = raw[error.start]
        raise UsageError(f"{path}:{line}:{col}: byte 0x{byte:02x} is not UTF-8; save the script as UTF-8") from error


class ScriptSource:
    """A script's text with positions of its values; creates all error messages about it."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self._values_left = MAX_VALUES

    def error(self, line: int, col: int, message: str) -> UsageError:
        """Build an error for a position counted from 0, like YAML's marks."""
        lines = self.text.splitlines()
        line_text = lines[line][:120] if line < len(lines) else ""
        caret = f"\n    {line_text}\n    {' ' * min(col, 120)}^" if line_text.isprintable() and line_text else ""
        return UsageError(f"{self.path}:{line + 1}:{col + 1}: {message}{caret}")

    def load(self) -> Any:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
        from ruamel.yaml.reader import ReaderError
        from ruamel.yaml.scanner import RoundTripScanner

        reader = YAML(typ="rt", pure=True)
        reader.Scanner = bounded_scanner(RoundTripScanner, MAX_BRACKETS)
        try:
            return reader.load(self.text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = str(error.problem or error.context).strip().splitlines()[0]
            line, col = (mark.line, mark.column) if mark else (0, 0)
            raise self.error(line, col, f"not a valid script: {problem}; see docs/scripts.md") from error
        except ReaderError as error:
            position = error.position if isinstance(error.position, int) else 0
            line = self.text.count("\n", 0, position)
            col = position - (self.text.rfind("\n", 0, position) + 1)
            raise self.error(line, col, "YAML does not allow this character; escape it in double quotes") from error
        except RecursionError as error:
            raise self.error(0, 0, "nested too deeply; a script needs only a few levels") from error
        except (YAMLError, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            # The parser raises Python's own errors for some invalid scalars, tags and keys.
            problem = (str(error).splitlines() or [type(error).__name__])[0]
            raise self.error(0, 0, f"not a valid script: {problem}; see docs/scripts.md") from error

    def at(self, parent: Any, key: Any) -> tuple[int, int]:
        """Return the start of a key's value or a list's item; for merged and absent keys, the start of the parent."""
        positions: Any = getattr(parent, "lc", None)
        if positions is None:
            return (0, 0)  # read as one line of JSON
        try:
            line, col = positions.item(key) if isinstance(parent, list) else positions.key(key)
        except (KeyError, IndexError, TypeError):
            line, col = positions.line, positions.col
        return (line or 0, col or 0)

    def mapping(self, value: Any, at: tuple[int, int], label: str, keys: tuple[str, ...] | None) -> Any:
        """Check that a value is a mapping, with only these keys. None allows any."""
        if not isinstance(value, dict):
            form = f" with {listed(keys)}" if keys else ""
            raise self.error(*at, f"{label} must be a mapping{form}, not {kind_of(value)}")
        for key in value:
            if keys is not None and key not in keys:
                raise self.error(
                    *self.at(value, key), f"unknown key {str(key)[:60]!r} in {label}; known: {listed(keys)}"
                )
        return value

    def sequence(self, value: Any, at: tuple[int, int], label: str) -> Any:
        if not isinstance(value, list):
            raise self.error(*at, f"{label} must be a list, not {kind_of(value)}; start each item with '- '")
        return value

    def string(self, parent: Any, key: str) -> str:
        value = parent.get(key, "")
        if not isinstance(value, str):
            raise self.error(*self.at(parent, key), f"{key!r} must be a text, not {kind_of(value)}; put it in quotes")
        return whole(str(value))

    def strings(self, parent: Any, key: str) -> tuple[str, ...]:
        """Read a text or a list of texts."""
        value = parent.get(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise self.error(*self.at(parent, key), f"{key!r} must be a non-empty text or a list of them")
        return tuple(whole(str(item)) for item in items)

    def number(self, parent: Any, key: str) -> float:
        value = parent[key]
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_WAIT_SECONDS
        if not good:
            raise self.error(
                *self.at(parent, key), f"{key!r} must be a number of seconds from 0 to {MAX_WAIT_SECONDS:,}"
            )
        return float(value)

    def count(self, parent: Any, key: str) -> int:
        value = parent[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
            raise self.error(*self.at(parent, key), f"{key!r} must be a whole number, at least 0, not {kind_of(value)}")
        return int(value)

    def plain(self, value: Any, at: tuple[int, int]) -> Any:
        """Convert a YAML value to JSON; every use of an alias counts against the limit."""
        self._values_left -= 1
        if self._values_left < 0:
            raise self.error(*at, f"more than {MAX_VALUES:,} values; use fewer aliases")
        if getattr(getattr(value, "tag", None), "value", None) is not None:
            raise self.error(*at, "tags are not supported; write the value without a tag")
        match value:
            case None | bool():
                return value
            case str() | int():  # convert the loader's subclasses to Python's own types
                return whole(str(value)) if isinstance(value, str) else int(value)
            case float() if math.isfinite(value):
                return float(value)
            case list():
                return [self.plain(item, self.at(value, index)) for index, item in enumerate(value)]
            case dict():
                return {self._key(value, key): self.plain(item, self.at(value, key)) for key, item in value.items()}
        raise self.error(*at, f"{kind_of(value)} is not a JSON value; put it in quotes")

    def _key(self, parent: Any, key: Any) -> str:
        if not isinstance(key, str):
            raise self.error(*self.at(parent, key), f"the key {str(key)[:60]!r} is not a text; put it in quotes")
        return str(key)


def listed(keys: tuple[str, ...]) -> str:
    return ", ".join(keys)


def kind_of(value: Any) -> str:
    """Name the type of a YAML value in YAML terms."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"a {type(value).__name__.lower()}"


Fault = Literal[
    "429", "529", "timeout", "disconnect", "malformed", "two_calls", "no_call", "truncated", "refusal"
]  # fmt: skip
FAILING_FAULTS: frozenset[str] = frozenset({"429", "529", "timeout", "disconnect"})
"""Faults that leave no reply at all; the others damage one."""

_SCRIPT_KEYS = ("description", "memory", "replies", "frames")
_REPLY_KEYS = (
    "call", "args", "calls", "text", "expect", "fault", "retry_after_seconds", "latency_seconds", "usage"
)  # fmt: skip
_CALL_KEYS = ("call", "args")
_EXPECT_KEYS = ("contains", "absent", "depth", "heap_has", "frame")
_USAGE_KEYS = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")


class PlannedCall(Struct, frozen=True):
    """A call in a script; its tool name and arguments may be wrong on purpose."""

    tool: str
    args: Any


class Expectation(Struct, frozen=True):
    """Conditions on a request, checked before its entry answers; None and () check nothing."""

    contains: tuple[str, ...] = ()  # texts that must occur in the system prompt or a message
    absent: tuple[str, ...] = ()  # texts that must not occur
    depth: int | None = None
    heap_has: tuple[str, ...] = ()  # chunks that must be on the heap
    frame: str | None = None


class ScriptedReply(Struct, frozen=True):
    """One entry: the answer to one request."""

    text: str = ""
    calls: tuple[PlannedCall, ...] = ()
    fault: Fault | None = None
    retry_after_seconds: float | None = None
    latency_seconds: float = 0.0
    expect: Expectation | None = None
    usage: Usage | None = None  # None means estimated, characters / 2.5
    line: int = 0  # line in the file, from 1; 0 if created in Python


class Script(Struct, frozen=True):
    """Answers in order; ``path`` names the script in messages."""

    replies: tuple[ScriptedReply, ...]
    path: str = "script"
    description: str = ""
    frames: Mapping[str, tuple[ScriptedReply, ...]] = {}  # the answers in parallel frames, by name
    memory_optional: bool = False  # under a strategy without frames or heap, their calls are left out


def read_script(path: Path) -> Script:
    """Read a script from a file.

    Raise UsageError if the file cannot be read, or is not a script. The message starts with ``path:line:col:``.
    """
    return parse_script(read_text(path), str(path))


def parse_script(text: str, path: str = "script") -> Script:
    """Parse a script. Raise UsageError as ``read_script`` does."""
    source = ScriptSource(text, path)
    if (root := read_json_line(text, MAX_BRACKETS)) is not None:
        with suppress(UsageError, RecursionError):  # the YAML reader reports the error with its position
            return _script(source, root)
    source = ScriptSource(text, path)
    return _script(source, source.load())


def _script(source: ScriptSource, root: Any) -> Script:
    path = source.path
    if root is None:
        raise source.error(0, 0, "the script is empty; it needs 'replies:', a list of what the model answers")
    top = source.mapping(root, (0, 0), "a script", _SCRIPT_KEYS)
    if "replies" not in top:
        raise source.error(0, 0, "'replies' is missing; it is the list of what the model answers")
    replies = _replies(source, top, "replies")
    lists = source.mapping(top["frames"], source.at(top, "frames"), "'frames'", None) if "frames" in top else {}
    frames = {str(name): _replies(source, lists, name) for name in lists}
    description = source.string(top, "description")
    if "memory" in top and top["memory"] != "optional":
        raise source.error(*source.at(top, "memory"), "'memory' can only be 'optional'; leave it out otherwise")
    return Script(replies, path, description, frames, "memory" in top)


def _replies(source: ScriptSource, parent: Any, key: str) -> tuple[ScriptedReply, ...]:
    entries = source.sequence(parent[key], source.at(parent, key), f"{key!r}")
    if not entries:
        raise source.error(*source.at(parent, key), f"{key!r} is empty; a script answers at least once")
    return tuple(_reply(source, entries, index) for index in range(len(entries)))


def _reply(source: ScriptSource, entries: Any, index: int) -> ScriptedReply:
    at = source.at(entries, index)
    entry = source.mapping(entries[index], at, "a reply", _REPLY_KEYS)
    fault = _fault(source, entry)
    text = source.string(entry, "text")
    calls = _calls(source, entry, at)
    if fault is None and not calls and "text" not in entry:
        raise source.error(*at, "this reply is empty; add 'call', 'calls', 'text' or 'fault'")
    if "retry_after_seconds" in entry and fault not in {"429", "529"}:
        raise source.error(*source.at(entry, "retry_after_seconds"), "'retry_after_seconds' requires fault 429 or 529")
    if fault in FAILING_FAULTS and (calls or text):
        raise source.error(*at, f"fault {fault} sends no reply; move 'call' and 'text' to the next entry")
    if fault == "two_calls" and len(calls) > 1:
        raise source.error(
            *at, "fault two_calls adds a second call automatically; to write both calls, use 'calls' without a fault"
        )
    if fault in {"no_call", "refusal"} and calls:
        raise source.error(*at, f"fault {fault} means a reply without a call; leave out 'call'")
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
    faults: tuple[Fault, ...] = get_args(Fault)
    for fault in faults:
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value) == fault:
            return fault
    raise source.error(*source.at(entry, "fault"), f"no fault {str(value)[:60]!r}; known: {', '.join(faults)}")


def _calls(source: ScriptSource, entry: Any, at: tuple[int, int]) -> tuple[PlannedCall, ...]:
    if "calls" in entry:
        if "call" in entry or "args" in entry:
            raise source.error(*at, "'call' and 'calls' cannot be combined; keep one of them")
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
        raise source.error(*source.at(entry, "args"), "'args' requires 'call' with the name of the tool")
    return ()


def _call(source: ScriptSource, entry: Any) -> PlannedCall:
    if "call" not in entry:
        raise source.error(*source.at(entry, "call"), "'call' is missing; it names the tool")
    try:
        args = source.plain(entry["args"], source.at(entry, "args")) if "args" in entry else {}
    except RecursionError as error:
        raise source.error(*source.at(entry, "args"), "nested too deeply, or recursive; write it out") from error
    return PlannedCall(source.string(entry, "call"), args)


def _expectation(source: ScriptSource, entry: Any) -> Expectation | None:
    if "expect" not in entry:
        return None
    expect = source.mapping(entry["expect"], source.at(entry, "expect"), "'expect'", _EXPECT_KEYS)
    if not expect:
        raise source.error(*source.at(entry, "expect"), f"'expect' is empty; known: {listed(_EXPECT_KEYS)}")
    return Expectation(
        contains=source.strings(expect, "contains"),
        absent=source.strings(expect, "absent"),
        depth=source.count(expect, "depth") if "depth" in expect else None,
        heap_has=source.strings(expect, "heap_has"),
        frame=source.string(expect, "frame") if "frame" in expect else None,
    )


def _usage(source: ScriptSource, entry: Any) -> Usage | None:
    if "usage" not in entry:
        return None
    usage = source.mapping(entry["usage"], source.at(entry, "usage"), "'usage'", _USAGE_KEYS)
    return convert({key: source.count(usage, key) for key in usage}, Usage)
