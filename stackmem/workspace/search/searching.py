"""``search_files``: builds the search command for the sandbox and formats its answer."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec

from stackmem.core.strict_json import decode_json

from ..clip import cut, shown_name, visible
from ..command import CommandEnd
from ..outcome import ToolOutcome
from ..refusals import ToolRefused
from . import search_program

MATCHES = 100
SECONDS = 20.0
MAX_BYTES = 8 * 1024 * 1024
_CONTEXT = 10
_PATTERN_CHARS = 1_000
_LINE_BYTES = 300
_PROGRAM = Path(search_program.__file__).read_text("utf-8")
_META = frozenset("\\.+*?()|[]{}^$#&-~")
_FOLDS_BEYOND_ASCII = frozenset("iksIKS")
_TOKEN = re.compile(
    r"""(?P<flag>\(\?i\)) | (?P<open>\((?:\?i?:|\?P<\w+>)?(?!\?)) | (?P<bar>\|) | (?P<close>\))
    | (?P<repeat>(?:[*+?]|\{(?:\d+|\d*,\d*)\})[?+]?)
    | \\(?P<escaped>[!-/:-@[-`{-~]) | (?P<literal>[ !"#%&',/0-9:;<=>@A-Z\]_`a-z{}~-])
    | (?P<other>\\[wWdDsSbBtnrfva] | \[\^?\]?(?:\\.|[^]\\])*\] | [.^$\x00-\x1f\x7f] | [^\x00-\x7f])""",
    re.VERBOSE | re.DOTALL,
)
# Syntax that ripgrep does not support or interprets differently from Python.
_OWN = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?![:iP])|\(\?P[=>]|\\[1-9AZz]|\[\[:|&&|--(?=[^\]]*\])|~~)")


class FileSearchAnswer(msgspec.Struct, frozen=True):
    """Output of the search: line groups by path, number of searched files, whether there are more matches, and any
    error.
    """

    groups: list[tuple[str, list[tuple[int, bool, str]]]]
    searched: int
    more: bool
    wrong: str = ""


def search_command(python: str, pattern: str, path: str, glob: str, context: int) -> str:
    """Return the command that runs the search.

    Raise ToolRefused if the pattern or ``context`` is not allowed.

    Args:
        path: Relative to the workspace.
    """
    if len(pattern) > _PATTERN_CHARS:
        raise ToolRefused(f"the pattern is {len(pattern):,} characters, the limit is {_PATTERN_CHARS:,}; shorten it")
    if own := _OWN.search(pattern):
        raise ToolRefused(
            f"the pattern has {own[1]!r}; look-around, back-references and anchors of a whole text are not supported"
        )
    if not 0 <= context <= _CONTEXT:
        raise ToolRefused(f"context is {context}; write 0 to {_CONTEXT}")
    order = {"pattern": pattern, "path": path, "glob": glob, "context": context, "most": MATCHES}
    order["prefilter"] = prefilter(pattern)
    return f"{shlex.quote(python)} -I -S -c {shlex.quote(_PROGRAM)} {shlex.quote(msgspec.json.encode(order).decode())}"


def prefilter(pattern: str) -> str | None:
    """Return a ripgrep expression for bytes that matches every line that the pattern matches, or None if none is
    useful.

    It keeps what both dialects share: literals, groups and alternatives. Everything else becomes ``.*``: classes,
    anchors and characters beyond ASCII are checked by Python in the remaining files.
    """
    pieces: list[str] = []
    at, last, fold = 0, "", "(?i" in pattern
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at, kind, text = token.end(), token.lastgroup or "", token[token.lastgroup or 0]
        if fold and text in _FOLDS_BEYOND_ASCII:
            kind = "other"
        if kind in ("literal", "escaped"):
            kind = "literal"
            plain = f"\\{text}" if text in _META else text
            pieces.append(f"[{text.lower()}{text.upper()}]" if fold and text.isalpha() else plain)
        elif kind == "repeat" and last in ("literal", "close"):
            pieces.append("*" if text[0] == "{" else text[0])
        else:
            pieces.append({"open": "(?:", "bar": "|", "close": ")", "other": ".*"}.get(kind, ""))
        last = kind
    return "".join(pieces)


def shown_matches(
    ended: CommandEnd, path: str, shown_bytes: int, scrub: Callable[[str], str], location: str = ""
) -> ToolOutcome:
    """Return the answer for the model, one line each: ``path:12:text`` for a match, ``path-12-text`` for a line near
    one.
    """
    if ended.reason == "timeout":
        return ToolOutcome(f"the search took over {SECONDS:g} s; search a smaller folder, or a simpler pattern", True)
    try:
        answer = decode_json(ended.capture.parts()[0], FileSearchAnswer)
    except msgspec.DecodeError:
        reason = ended.reason or f"exit {ended.exit_code}"
        return ToolOutcome(f"the search ended without an answer ({reason}); use run_command with grep", True)
    if answer.wrong:
        return ToolOutcome(f"the pattern is not a regular expression ({answer.wrong}); escape literal characters", True)
    files = f"{answer.searched:,} {'file' if answer.searched == 1 else 'files'} searched"
    if not answer.groups:
        return ToolOutcome(f"[no match below {shown_name(path)}; {files}, ignored files skipped]")
    lines: list[str] = []
    has_context = any(not match for _, rows in answer.groups for _, match, _ in rows)
    for name, rows in answer.groups:
        lines += ["--"] if lines and has_context else []
        label = shown_name(os.path.relpath(name, location) if location else name)
        for number, match, text in rows:
            mark = ":" if match else "-"
            lines.append(f"{label}{mark}{number}{mark}{cut(visible(scrub(text)), _LINE_BYTES)}")
    return ToolOutcome(_fitting(lines, answer.more, shown_bytes))


def _fitting(lines: list[str], more: bool, shown_bytes: int) -> str:
    room, count = shown_bytes - 200, 0
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        count += 1
    if count == len(lines) and not more:
        return "\n".join(lines)
    return "\n".join(
        [f"[{count} lines shown, there are more; narrow the pattern, the path or the glob]", *lines[:count]]
    )
