"""Mutations of an input: by bytes, by words, by JSON values, and by parts of other inputs."""

import json
import re
from random import Random
from typing import Any

_WORD = re.compile(rb"[\w.]+|\s+|[^\w\s]")
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_ODD = (
    b"", b"\0", b"\n", b"\r\n", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028".encode(),
    "\u202e".encode(), b"\x1b[2J", b"..", b"/", b"~", b"null", b"true", b"{}", b"[]", b'""', b"'",
    b"${", b"{{", b"\\ud800", b"\\u0000", b"%s",
)  # fmt: skip
_NUMBERS = (b"-1", b"0", b"1e400", b"-0.0", b"NaN", b"9" * 20, b"9" * 5_000, b"1_0", b"0x1", b"18446744073709551616")
_BRACKETS = ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b'{"a":', b"}"))
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**63, 2**64, 1e308, -0.5, "", "a", "\ud800", "\0", "..", "/etc/passwd", "x" * 5_000, [],
    {}, [[]], [{}], {"": None}, {"type": "text"}, {"a": {"a": {}}}, [None, 1, "a"], "2026-01-01T00:00:00Z", "1e400",
    float("nan"),
)  # fmt: skip


def mutated(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...] = ()) -> bytes:
    """Return another input that differs by one change or a few."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        way = chance.choice((_bytes, _bytes, _words, _words, _values, _values, _values, _numbers, _nested, _spliced))
        data = way(data, chance, others, words)
    return data


def _bytes(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((0, 1, 1, 4, 30, 300)))
    piece = data[start:end]
    match chance.randrange(5):
        case 0:
            put = b""
        case 1:
            put = piece * chance.choice((2, 2, 3, 100))
        case 2:
            put = bytes([chance.randrange(256)])
        case 3:
            put = piece[::-1]
        case _:
            put = chance.choice((*_ODD, *words))
    return data[:start] + put + data[end:]


def _words(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    found = _WORD.findall(data)
    if not found:
        return data
    one, other = chance.randrange(len(found)), chance.randrange(len(found))
    match chance.randrange(4):
        case 0:
            found[one] = found[other]
        case 1:
            found[one], found[other] = found[other], found[one]
        case 2:
            del found[min(one, other) : min(one, other) + chance.choice((1, 3, 10))]
        case _:
            found[one] = chance.choice((*_ODD, *(words or _ODD)))
    return b"".join(found)


def _numbers(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    one = chance.choice(found)
    return data[: one.start()] + chance.choice(_NUMBERS) + data[one.end() :]


def _nested(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    opens, closes = chance.choice(_BRACKETS)
    depth, at = chance.choice((1, 3, 60, 1_500)), chance.randrange(len(data) + 1)
    return data[:at] + opens * depth + closes * (depth if chance.random() < 0.7 else 0) + data[at:]


def _spliced(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    other = chance.choice(others) if others else data
    if chance.random() < 0.5:
        return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
    one, two = data.split(b"\n"), other.split(b"\n")
    one.insert(chance.randrange(len(one) + 1), chance.choice(two))
    return b"\n".join(one)


def _values(data: bytes, chance: Random, others: list[bytes], words: tuple[bytes, ...]) -> bytes:
    """In the whole input or a line, if it is JSON: replace, remove or duplicate a value somewhere in it."""
    try:
        return _spelled(_changed(json.loads(data), chance))
    except (ValueError, RecursionError):
        pass
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    head, brace, rest = lines[at].partition(b"{")  # also a line with JSON after a prefix, like `data: {`
    try:
        lines[at] = head + _spelled(_changed(json.loads(brace + rest), chance))
    except (ValueError, RecursionError):
        return _words(data, chance, others, words)
    return b"\n".join(lines)


def _changed(value: Any, chance: Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(list(value))
        match chance.randrange(8):
            case 0:
                return {each: kept for each, kept in value.items() if each != name}
            case 1:
                return value | {chance.choice(list(value)): value[name]}
            case 2:
                return value | {chance.choice(("", "type", "\ud800", name + "x")): chance.choice(_VALUES)}
            case _:
                return value | {name: _changed(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        match chance.randrange(6):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value[:at] + [value[at]] * chance.choice((2, 50)) + value[at:]
            case _:
                return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    if isinstance(value, str) and value and chance.random() < 0.4:
        return _bytes(value.encode("utf-8", "surrogatepass"), chance, [], ()).decode("utf-8", "replace")
    return chance.choice(_VALUES)


def _spelled(value: Any) -> bytes:
    return json.dumps(value).encode()
