"""Reads a page without a browser."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

from stackmem.review.report.page import page
from stackmem.review.report.view import read_runs


def held(content: bytes) -> dict[str, Any]:
    """Return the page's data."""
    found = re.search(rb'id="held">([A-Za-z0-9+/=]*)</script>', content)
    assert found
    decoded: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return decoded


def opened(*folders: Path) -> dict[str, Any]:
    return held(page(read_runs(folders)))


def text(shown: dict[str, Any], ref: Any) -> str:
    """Resolve a text reference in the same way as the page."""
    if isinstance(ref, int):
        return str(shown["texts"][ref])
    return "".join(piece_of(shown, piece) for piece in ref)


def piece_of(shown: dict[str, Any], piece: Any) -> str:
    if isinstance(piece, int):
        return str(shown["texts"][piece])
    number, start, end = piece
    units = shown["texts"][number].encode("utf-16-le")
    return units[2 * start : 2 * end].decode("utf-16-le")


def value(shown: dict[str, Any], kept: Any) -> Any:
    match kept:
        case list():
            return [value(shown, inner) for inner in kept]
        case {"t": ref}:
            return text(shown, ref)
        case {"n": digits}:
            return int(digits)
        case {"o": pairs}:
            return {value(shown, name): value(shown, inner) for name, inner in pairs}
        case _:
            return kept


def prompt(shown: dict[str, Any], run: int, step: int) -> list[Any]:
    """Return the parts of a step's prompt, in order, with their texts."""
    told = shown["runs"][run]
    ranges = told["steps"][step - 1][9]
    numbers = [
        number
        for sequence, start, end in zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True)
        for number in told["sequences"][sequence][start:end]
    ]
    return [part(shown, number) for number in numbers]


def part(shown: dict[str, Any], number: int) -> Any:
    kept = shown["parts"][number]
    match kept[0]:
        case "s" | "k":
            return [kept[0], text(shown, kept[1])]
        case "t":
            return ["t", kept[1], text(shown, kept[2])]
        case "d":
            return ["d", kept[1], text(shown, kept[2]), text(shown, kept[3])]
        case "r":
            return ["r", text(shown, kept[1]), kept[2], kept[3]]
        case "m":
            return ["m", kept[1], text(shown, kept[2]), kept[3]]
        case _:
            return ["c", kept[1], value(shown, kept[2]), kept[3]]
