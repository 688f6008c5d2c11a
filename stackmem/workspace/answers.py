"""How the file tools parse paths and phrase their answers, for files on disk and in memory."""

from __future__ import annotations

import ast
import codecs
import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Callable

from .clip import cut
from .lines import LineSpan, shown_lines
from .outcome import ToolOutcome
from .refusals import ToolRefused, quote

PARSED_BYTES = 64 * 1024
"""Maximum size of a file that is parsed for syntax errors."""
_SHOWN_CHARS = 120
_LOST_SHOWN = 8
_LOST_CHARS = 600


def relative(path: str, inside: str) -> bytes:
    """Return a path relative to ``inside``. The code that opens it handles ``..`` and symlinks.

    Raises:
        ToolRefused: A file cannot have this name.
        OSError: EXDEV if the path is absolute and outside ``inside``.
    """
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolRefused(f"{quote(path)} contains a character that file names cannot contain; leave it out") from None
    if not raw:
        raise ToolRefused("the path is empty; use '.' for the workspace itself")
    if b"\0" in raw:
        raise ToolRefused(f"{quote(path)} contains a NUL character, which file names cannot contain; leave it out")
    if not raw.startswith(b"/"):
        return raw
    own, parts = path_parts(os.fsencode(inside)), path_parts(raw)
    if parts[: len(own)] != own:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    rest = b"/".join(parts[len(own) :]) or b"."
    return rest + b"/" if raw.endswith((b"/", b"/.")) else rest


def parted(path: str, raw: bytes) -> tuple[bytes, bytes]:
    """Split the path of a file to write into directory and name; ``raw`` is relative to the root."""
    directory, _, last = raw.rpartition(b"/")
    if last in {b"", b".", b".."}:
        raise ToolRefused(f"{quote(path)} names a directory; end the path with a file name")
    return directory or b".", last


def first_line(start_line: int | None, end_line: int | None) -> int:
    start = 1 if start_line is None else start_line
    if start < 1:
        raise ToolRefused(f"start_line is {start}; lines count from 1")
    if end_line is not None and end_line < start:
        raise ToolRefused(f"end_line {end_line} is before line {start}, the first one asked for; swap or raise it")
    return start


def answer(
    path: str, span: LineSpan, size: int, start: int, *, ranged: bool, shown_bytes: int, scrub: Callable[[str], str]
) -> ToolOutcome:
    """Return the answer with the lines that were read."""
    if span.binary:
        raise ToolRefused(f"binary, {size} bytes: {quote(path)} is not UTF-8 text; look at it with run_command")
    if span.lines == 0 and start == 1:
        return ToolOutcome(cut("[empty file]", shown_bytes))
    if start > span.lines:
        there = f"has {span.lines} lines" if span.counted else f"is too long to search after line {span.lines}"
        way = "leave start_line out to read from line 1"
        raise ToolRefused(f"start_line {start} does not exist: {quote(path)} {there}; {way}")
    return ToolOutcome(shown_lines(span, start, ranged=ranged, shown_bytes=shown_bytes, scrub=scrub))


def encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolRefused(f"character {error.start + 1} of the content is half a character; write it whole") from None


def syntax_note(path: str, raw: bytes) -> str:
    """Return one line about the first syntax error of a Python file.

    Empty if the file parses, is not Python, or is too large. The note names the Python version, because the parser is
    that of the Python that runs stackmem.
    """
    if not path.endswith(".py") or len(raw) > PARSED_BYTES:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(raw)
    except SyntaxError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        line = f"line {error.lineno}: " if error.lineno else ""
        return f"\nnote: Python {version} cannot parse the file now: {line}{error.msg[:_SHOWN_CHARS]}"
    except (ValueError, RecursionError, MemoryError):  # not text, or nested too deeply
        return ""
    return ""


def lost_note(path: str, before: bytes, raw: bytes) -> str:
    """Return a note about the top-level functions and classes of a Python file, or the keys of a JSON object, that a
    write removed, with their text if it is short. Empty if there are none.

    Small models replace a file by only the part that they changed.
    """
    if path.endswith(".py"):
        parts_of, verb = _definitions, "defines"
    elif path.endswith(".json"):
        parts_of, verb = _members, "has the key"
    else:
        return ""
    after = parts_of(raw)
    lost = {} if after is None else {name: text for name, text in (parts_of(before) or {}).items() if name not in after}
    if not lost:
        return ""
    names = ", ".join(name[:40] for name in list(lost)[:_LOST_SHOWN])
    more = f" and {len(lost) - _LOST_SHOWN} more" if len(lost) > _LOST_SHOWN else ""
    note = f"\nnote: the file no longer {verb} {names}{more}"
    text = "\n".join(lost.values())
    if len(text) > _LOST_CHARS:
        return note
    return f"{note}; if they must stay, write the file once more with all of your text and this:\n{text}"


def _definitions(raw: bytes) -> dict[str, str] | None:
    """Map the names that a Python file defines at its top level to their text. None if it cannot be parsed."""
    if len(raw) > PARSED_BYTES:
        return None
    try:
        text = raw.decode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    lines = re.split(r"\r\n|\r|\n", text)
    return {each.name: "\n".join(lines[each.lineno - 1 : each.end_lineno]) for each in body if isinstance(each, kinds)}


def _members(raw: bytes) -> dict[str, str] | None:
    """Map the keys of a JSON object to their text with the value. None if the text is not a JSON object."""
    if len(raw) > PARSED_BYTES:
        return None
    try:
        value = json.loads(raw)
        return {key: f"{json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()}
    except (ValueError, RecursionError, AttributeError):
        return None


def written(path: str, raw: bytes, size: int | None, before: bytes) -> ToolOutcome:
    """Return the answer to a write.

    ``size`` is the file's previous size, or None if it is new. ``before`` is its previous content, which may be cut
    after ``PARSED_BYTES``, or empty if it cannot be read.
    """
    previous = "it is new" if size is None else f"it had {size} bytes"
    note = (syntax_note(path, raw) or lost_note(path, before, raw)) + form_note(before, raw)
    return ToolOutcome(f"wrote {len(raw)} bytes to {quote(path)}; {previous}{note}")


def form_note(before: bytes, raw: bytes) -> str:
    """Return a note if a write replaced CRLF line ends or removed a byte order mark."""
    before, lost = before[:PARSED_BYTES], []  # the same for files on disk, whose content may be cut, and in memory
    if (ends := before.count(b"\r\n")) and ends == before.count(b"\n") and b"\n" in raw and b"\r\n" not in raw:
        lost.append(("its lines ended in CRLF and now end in LF", r"sed -i 's/$/\r/'"))
    if before.startswith(codecs.BOM_UTF8) and not raw.startswith(codecs.BOM_UTF8):
        lost.append(("it began with a byte order mark and no longer does", r"sed -i '1s/^/\xef\xbb\xbf/'"))
    return "".join(
        f"\nnote: {change}; if that is not wanted, restore it, for example with {command}" for change, command in lost
    )


def unchanged(path: str) -> ToolOutcome:
    """Return the answer to a write that would not change the file."""
    return ToolOutcome(f"nothing changed: {quote(path)} has exactly this content already; run it, or do what remains")


def protected(path: str) -> str:
    return f"{quote(path)} is protected, because git or stackmem act on it; leave it as it is"


def path_parts(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in {b"", b"."}]
