"""Generates random conditions: from the grammar, from pieces, and by small changes to others."""

from __future__ import annotations

import random

NASTY = {
    "payload": {
        "a": 1, "b": "b", "t": "Hello, \u00c4rger\u00df ", "z": None, "y": True, "no": False, "zero": 0, "half": 0.5,
        "low": -7,
        "small": 1.5e-7, "tiny": 0.00001, "large": 1e21, "big": 123456789012345678, "max": 1.7976931348623157e308,
        "beyond": 10**400, "below": -(10**400),
        "numeral": " 12 ", "hex": "0x1f", "one": "1", "e": "1e3", "inf": "Infinity", "nan": "NaN", "under": "1_0",
        "arabic": "\u0661", "nel": "\u0085", "bom": "\ufeff5\ufeff", "empty": "", "space": " \n", "length": "own",
        "l": [], "n": [3, 1, 2], "m": [1, "1", None, True, [1, [2, None]], {}, ""], "one_item": [5], "nested": [[],
        [[]]],
        "o": {"k": [{"v": "x"}], "length": 2, "1": "one"}, "eo": {}, "rows": [{"id": 1, "s": "ok"}, {"id": 2}],
    },
    "results": [{"ok": True, "value": 2}, {"ok": False}],
    "errors": ["no", ""],
    "item": {"id": 7, "name": "Ann"},
}  # fmt: skip
_PATHS = [
    *(f"payload.{name}" for name in NASTY["payload"]), "payload.none", "payload['a']", "payload.o.k[0].v",
    "payload.o[1]",
    "payload.n[1]", "payload.n['1']", "payload.n['01']", "payload.n[null]", "payload.n['']", "payload.n[[1]]",
    "payload.n[-1]", "payload.n[1.5]", "payload.n[true]", "payload.m[4]", "payload.t[1]", "payload.rows[0].id",
    "item.id",
    "item.name", "results", "results[0].ok", "results.length", "errors", "errors[0]", "errors.length",
    "payload.n.length",
    "payload.t.length", "payload.l.length", "payload.z.more", "payload.none.more", "nobody", "payload.o.length",
]  # fmt: skip
_LITERALS = [
    "0", "1", "2", "-1", "1.5", ".5", "5.", "1e3", "1e21", "1e-7", "123456789012345680000", "9007199254740993", "null",
    "undefined", "true", "false", "NaN", "Infinity", "''", "'a'", '"1"', "' 1 '", r"'\u00e9\x41\n\'\q'", r"'\u{e9}'",
    "[]",
    "[1]", "[1, 'a', null]", "[[1], [2, 3]]", "['b', undefined]", "08", "1..length",
]  # fmt: skip
_BINARY = ["&&", "||", "===", "!==", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%"]
_UNARY = ["!", "-", "+", "typeof ", "!!", "- -", "!-", "typeof typeof "]
_PLAIN = ["toLowerCase()", "toUpperCase()", "trim()", "trimStart()", "trimEnd()", "toString()", "valueOf()"]
_FINDING = ["includes", "indexOf", "lastIndexOf", "startsWith", "endsWith"]
_FUNCTIONS = ["some", "every", "find", "filter", "map"]
_PIECES = [
    "payload", "results", "errors", "item", "x", ".length", ".a", ".l", ".t", "[0]", "(", ")", "[", "]", "!", "-",
    "+", "typeof",
    "&&", "||", "==", "===", "!=", "!==", "<", ">", "<=", ">=", "1", "0", "2.5", "'a'", "null", "undefined", "true",
    "NaN", ",",
    "=>", ".map(", ".filter(", ".some(", ".reduce(", ".includes(", "x=>x", "(a,b)=>a+b", "__proto__", ".constructor",
    ";", "{",
    "}", "=", ".", "*", "/", "%", "'", "\\", ".toString()", ".trim()", "__import__", ".__class__", "`", "1e999", '"',
    "//", "/*",
    "#", "@", "\u2603", "(((((((", "]]]]", "['__proto__']", "['constructor']", ".lastIndexOf(", r"'\ud800'",
    r"'\u{110000}'",
    "\ufeff", "\u0661", ".__dict__", "(x=>x)", "x=>y=>x", "...", "?.", "??", "?", ":", "**", "<<", "\n", "\x00",
    "typeof typeof",
]  # fmt: skip


def pieced(dice: random.Random, most: int = 14) -> str:
    """Return a sequence of pieces, which is rarely a valid expression."""
    return "".join(dice.choice(_PIECES) + " " * (dice.random() < 0.3) for _ in range(dice.randint(1, most)))


def grown(dice: random.Random, depth: int = 3, names: tuple[str, ...] = ()) -> str:
    """Return an expression that follows the grammar."""
    again = lambda more=(): grown(dice, depth - 1, (*names, *more))  # noqa: E731
    kind = dice.random() if depth else 0
    if kind < 0.35:
        return dice.choice([*names, *names, *_PATHS] if dice.random() < 0.7 else _LITERALS)
    if kind < 0.6:
        return f"{again()} {dice.choice(_BINARY)} {again()}"
    if kind < 0.68:
        return f"{dice.choice(_UNARY)}{again()}"
    if kind < 0.74:
        return f"({again()})"
    if kind < 0.82:
        return f"({again()}).{dice.choice(_PLAIN)}"
    if kind < 0.88:
        return f"({again()}).{dice.choice(_FINDING)}({again()})"
    if kind < 0.9:
        return f"({again()})[{again()}]"
    name = f"x{depth}"
    if kind < 0.97:
        parameters = dice.choice([name, f"({name}, i)", f"({name}, i, all)"])
        more = (name, "i", "all")[: 1 + parameters.count(",")]
        return f"({again()}).{dice.choice(_FUNCTIONS)}({parameters} => {again(more)})"
    first = f", {again()}" if dice.random() < 0.5 else ""
    return f"({again()}).reduce((sum, {name}) => {again(('sum', name))}{first})"


def mutated(dice: random.Random) -> str:
    """Return an expression of the grammar with a few characters dropped, doubled, swapped or replaced."""
    text = list(grown(dice, 2))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        match dice.randrange(4):
            case 0:
                del text[at : at + dice.randint(1, 3)]
            case 1:
                text[at:at] = text[at : at + 6]
            case 2:
                text[at : at + 2] = text[at : at + 2][::-1]
            case _:
                text[at : at + 1] = dice.choice(_PIECES)
    return "".join(text)
