"""``search_files``: what is asked of the search in the sandbox, and how its answer is shown."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec

from . import search_program
from .clip import cut, shown_name, visible
from .command import CommandEnd
from .outcome import ToolOutcome
from .refusals import ToolRefused

MATCHES = 100
SECONDS = 20.0
MOST_BYTES = 8 * 1024 * 1024
_CONTEXT = 10
_PATTERN_CHARS = 1_000
_LINE_BYTES = 300
_PROGRAM = Path(search_program.__file__).read_text("utf-8")
# What Python's expressions and those of ripgrep do not share, or read in two ways.
_OWN = re.compile(r"(?<!\\)(?:\\\\)*(\(\?(?![:iP])|\(\?P[=>]|\\[1-9AZz]|\[\[:|&&|--(?=[^\]]*\])|~~)")


class SearchAnswer(msgspec.Struct, frozen=True):
    """What the search printed: runs of lines by path, files looked into, and whether there is more."""

    groups: list[tuple[str, list[tuple[int, bool, str]]]]
    searched: int
    more: bool


def search_command(python: str, pattern: str, path: str, glob: str, context: int) -> str:
    """The command that searches.

    Args:
        path: Relative to the workspace.

    Raises:
        Refused: The pattern or a number cannot be.
    """
    if len(pattern) > _PATTERN_CHARS:
        raise ToolRefused(f"the pattern is {len(pattern):,} characters, the limit is {_PATTERN_CHARS:,}; shorten it")
    if own := _OWN.search(pattern):
        raise ToolRefused(
            f"the pattern has {own[1]!r}; look-around, back-references and anchors of a whole text are not to be had"
        )
    if not 0 <= context <= _CONTEXT:
        raise ToolRefused(f"context is {context}; write 0 to {_CONTEXT}")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolRefused(f"the pattern is no regular expression ({error}); escape what is meant literally") from error
    order = {"pattern": pattern, "path": path, "glob": glob, "context": context, "most": MATCHES}
    return f"{shlex.quote(python)} -I -S -c {shlex.quote(_PROGRAM)} {shlex.quote(msgspec.json.encode(order).decode())}"


def shown_matches(
    ended: CommandEnd, path: str, shown_bytes: int, scrub: Callable[[str], str], place: str = ""
) -> ToolOutcome:
    """The answer as a model reads it, one line a line: ``path:12:text`` for a match, ``path-12-text`` beside one.

    Args:
        place: The folder that paths are shown from.
    """
    if ended.reason == "timeout":
        return ToolOutcome(f"the search took over {SECONDS:g} s; search a smaller folder, or a simpler pattern", True)
    try:
        answer = msgspec.json.decode(ended.capture.parts()[0], type=SearchAnswer)
    except msgspec.DecodeError:
        why = ended.reason or f"exit {ended.exit_code}"
        return ToolOutcome(f"the search ended without an answer ({why}); use run_command with grep", True)
    files = f"{answer.searched:,} {'file' if answer.searched == 1 else 'files'} searched"
    if not answer.groups:
        return ToolOutcome(f"[no match below {shown_name(path)}; {files}, ignored ones left out]")
    lines: list[str] = []
    apart = any(not match for _, rows in answer.groups for _, match, _ in rows)
    for name, rows in answer.groups:
        lines += ["--"] if lines and apart else []
        shown = shown_name(os.path.relpath(name, place) if place else name)
        for number, match, text in rows:
            mark = ":" if match else "-"
            lines.append(f"{shown}{mark}{number}{mark}{cut(visible(scrub(text)), _LINE_BYTES)}")
    return ToolOutcome(_within(lines, answer.more, shown_bytes))


def _within(lines: list[str], more: bool, shown_bytes: int) -> str:
    room, kept = shown_bytes - 200, 0
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept += 1
    if kept == len(lines) and not more:
        return "\n".join(lines)
    return "\n".join([f"[{kept} lines shown, there are more; narrow the pattern, the path or the glob]", *lines[:kept]])
