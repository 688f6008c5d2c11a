"""Replaces text in a file as ``edit_file`` does, for files on disk and in memory."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable

from .answers import syntax_note
from .clip import cut, visible
from .outcome import ToolOutcome
from .refusals import ToolRefused, quote

EDITED_BYTES = 8 * 1024 * 1024  # maximum size of a file; larger ones must be edited with a command
_COMPARED_LINES = 5_000  # number of lines searched for a near match
_COMPARED_CHARS = 200
_COMPARED_CLOSELY = 20
_SHOWN_LINES = 8
_SHOWN_PLACES = 10
_LINE_BYTES = 200
_NEAR = 0.5
_ESCAPE = re.compile(r"\\(?:r|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_MAX_ESCAPES = 1_000
_SHORT_BYTES = 1_500
"""Up to this size, the answer to an edit that does not match includes the whole file."""


def edited(
    path: str, raw: bytes, old: str, new: str, *, every: bool, scrub: Callable[[str], str]
) -> tuple[bytes, ToolOutcome]:
    """Return the file's new bytes and the answer. Bytes that are not UTF-8 are preserved.

    Raise ToolRefused if the edit is not possible. The message gives the reason and similar lines.

    Args:
        every: Replace all matches. Otherwise exactly one match must exist.
        scrub: Removes secrets from a line before it is cut.
    """
    if len(raw) > EDITED_BYTES:
        raise ToolRefused(f"{quote(path)} is over {EDITED_BYTES:,} bytes; change it with run_command")
    if b"\0" in raw:
        raise ToolRefused(f"binary, {len(raw)} bytes: {quote(path)} is not text; change it with run_command")
    if not old:
        raise ToolRefused("old_string is empty; copy the text to be replaced, or use write_file for a new file")
    if old == new:
        raise ToolRefused("old_string and new_string are the same; nothing would change")
    text = raw.decode("utf-8", "surrogateescape")
    if _ends_in_crlf(text) and "\r" not in old:  # because read_file shows such lines without their CR
        old, new = (part.replace("\r\n", "\n").replace("\n", "\r\n") for part in (old, new))
    places = text.count(old)
    if not places and (meant := _as_shown(text, old, new)):  # read_file shows a control character as such an escape
        old, new = meant
        places = text.count(old)
    if not places:
        short = _whole_file(text, scrub)
        way_out = f"copy it from the file, which is now:\n{short}" if short else _nearest(text, old, scrub)
        raise ToolRefused(f"old_string was not found in {quote(path)}; {way_out}")
    if places > 1 and not every:
        short = _whole_file(text, scrub)
        raise ToolRefused(
            f"old_string occurs {places} times in {quote(path)} ({_lines_of(text, old)}); "
            f'give more of the lines around one of them, or set "replace_all": true to replace all {places}'
            + (f". The file is now:\n{short}" if short else "")
        )
    grown = places * (len(new.encode("utf-8", "surrogatepass")) - len(old.encode("utf-8", "surrogatepass")))
    if len(raw) + grown > EDITED_BYTES:
        raise ToolRefused(f"{quote(path)} would be over {EDITED_BYTES:,} bytes; change it with run_command")
    answer = f"replaced {places} {'place' if places == 1 else 'places'} in {quote(path)} ({_lines_of(text, old)})"
    try:
        content = text.replace(old, new).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolRefused("new_string contains half a character; write it whole") from None
    return content, ToolOutcome(answer + syntax_note(path, content))


def _as_shown(text: str, old: str, new: str) -> tuple[str, str] | None:
    """Return the file's own spelling of a text that ``read_file`` shows with escapes, and that of its replacement.

    An escape is either the character or the same letters in the file. In ``new``, the n-th use of an escape means what
    its n-th use in ``old`` means, and later ones mean what the last one does. Returns None if the file has no such text
    or several different ones.
    """
    parts, at = [], 0
    for match in _ESCAPE.finditer(old):
        if (char := _unescaped(match)) is not None:
            parts.append(f"{re.escape(old[at : match.start()])}({re.escape(match[0])}|{re.escape(char)})")
            at = match.end()
    if not parts or len(parts) > _MAX_ESCAPES:
        return None
    matches = {match[0]: match.groups() for match in re.finditer("".join(parts) + re.escape(old[at:]), text)}
    if len(matches) != 1:
        return None
    ((exact, spelled),) = matches.items()
    uses: dict[str, list[str]] = {}
    for match, each in zip(
        (escape for escape in _ESCAPE.finditer(old) if _unescaped(escape) is not None), spelled, strict=True
    ):
        uses.setdefault(match[0], []).append(each)

    def spell(match: re.Match[str]) -> str:
        spellings = uses.get(match[0])
        if spellings is None:
            return _unescaped(match) or match[0]
        return spellings.pop(0) if len(spellings) > 1 else spellings[0]

    return exact, _ESCAPE.sub(spell, new)


def _unescaped(match: re.Match[str]) -> str | None:
    """Return the character that an escape shows, or None if ``read_file`` shows that character as it is."""
    code = int(match[1] or match[2] or match[3] or "d", 16)
    char = chr(code) if code <= sys.maxunicode and not 0xD800 <= code < 0xE000 else ""
    return char if char and visible(char) == match[0] else None


def _whole_file(text: str, scrub: Callable[[str], str]) -> str:
    """Return the file as ``read_file`` shows it, or an empty string if it is not short."""
    content = visible(scrub(text.replace("\r\n", "\n"))).rstrip("\n")
    return content if content.strip() and len(content.encode(errors="replace")) <= _SHORT_BYTES else ""


def _ends_in_crlf(text: str) -> bool:
    ends = text.count("\r\n")
    return ends > 0 and ends == text.count("\n") == text.count("\r")


def _lines_of(text: str, old: str) -> str:
    """Return the numbers of the lines on which the text begins."""
    numbers: list[int] = []
    at = text.find(old)
    while at >= 0 and len(numbers) <= _SHOWN_PLACES:
        numbers.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    more = ", …" if len(numbers) > _SHOWN_PLACES else ""
    word = "line" if len(numbers) == 1 else "lines"
    return f"{word} {', '.join(map(str, numbers[:_SHOWN_PLACES]))}{more}"


def _nearest(text: str, old: str, scrub: Callable[[str], str]) -> str:
    """Return the lines that are most similar to the text that was not found."""
    lines = text.splitlines()[:_COMPARED_LINES]
    old_lines = [line.strip() for line in old.splitlines() if line.strip()]
    bare = [line.strip() for line in lines]
    if not old_lines or not any(bare):
        return "read_file shows it"
    numbers = [number for number, line in enumerate(bare) if line == old_lines[0]]
    # Of several places with the same first line, take the one whose following lines match best.
    start = max(numbers, key=lambda at: _agreement(bare[at:], old_lines), default=None)
    if start is None:
        start = _most_alike(bare, old_lines[0])
    if start is None:
        return "no line is similar; read_file shows it"
    last = min(len(lines), start + min(len(old.splitlines()) + 1, _SHOWN_LINES))
    rows = [f"{number + 1}\t{cut(visible(scrub(lines[number])), _LINE_BYTES)}" for number in range(start, last)]
    return "the nearest lines are (copy them exactly, including white space):\n" + "\n".join(rows)


def _agreement(lines: list[str], others: list[str]) -> int:
    return sum(line == other for line, other in zip(filter(None, lines), others, strict=False))


def _most_alike(lines: list[str], target: str) -> int | None:
    matcher = difflib.SequenceMatcher(b=target[:_COMPARED_CHARS], autojunk=False)

    def ratio(number: int, quick: bool) -> float:
        matcher.set_seq1(lines[number][:_COMPARED_CHARS])
        return matcher.quick_ratio() if quick else matcher.ratio()

    likely = sorted(range(len(lines)), key=lambda number: -ratio(number, quick=True))[:_COMPARED_CLOSELY]
    best = max(likely, key=lambda number: ratio(number, quick=False))
    return best if ratio(best, quick=False) >= _NEAR else None
