"""Formats a command's output and ending for the model."""

from __future__ import annotations

import re
from collections.abc import Callable

from .clip import clip, cut
from .command import CommandEnd
from .egress.request_log import refusals

_STOPPED = {
    "memory": "killed: its processes took more memory than a command may; everything it started was killed",
    "processes": "killed: it started more processes than a command may; everything it started was killed",
    "disk": "killed: it filled the disk; everything it started was killed, its files are still there",
    "output": "killed: it printed too much, send long output to a file; everything it started was killed",
    "killed": "killed from inside the sandbox, or by the system; everything it started was killed",
    "stopped": "stopped; everything it started was killed",
    "interrupted": "interrupted by the user; everything it started was killed, and files may be half written",
    "unkillable": "stopped, but something it started cannot be killed and may still run",
}


# How libraries and runtimes spell EXDEV and EROFS; the first letter varies in case.
_CROSSED, _READ_ONLY = b"cross-device link", b"ead-only file system"
_RENAME = "(this folder cannot be renamed in one step; mv, or cp -r and rm -r, work)\n"
_INSTALLED = "(what is installed in .venv, venv and node_modules is read-only in this run; write elsewhere)\n"


def rename_hint(ended: CommandEnd) -> str:
    """Return a hint for a command that failed to rename a folder of an overlay, or an empty string."""
    return _RENAME if _failed_by(ended, _CROSSED) else ""


def read_only_hint(ended: CommandEnd) -> str:
    """Return a hint for a command that failed to write to installed packages, or an empty string."""
    return _INSTALLED if _failed_by(ended, _READ_ONLY) else ""


_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<!\S)#[^\n]*")
_BACKGROUND = re.compile(r"(?<![&|<>\\])&(?![&>])")
_WAITS = re.compile(r"(?<![\w-])wait(?![\w-])")
_SEPARATOR = re.compile(r"&&|\|\||[;\n]")
_SETTING = re.compile(r"\s*(?:(?:cd|export|unset|alias|source|pushd|popd|ulimit|umask)(?:\s|$)|\.\s)")
_BACKGROUND_ENDED = "(background processes end with their command; start one and use it in the same command)\n"
_NOT_KEPT = "(cd, export and the like last only for their command; put them before what needs them)\n"


def lasting_hint(command: str) -> str:
    """Return a hint for a command that relies on what ends with it: background processes, or the shell's own state."""
    plain = _QUOTED.sub("''", command)
    if _BACKGROUND.search(plain) and not _WAITS.search(plain):
        return _BACKGROUND_ENDED
    parts = [part for part in _SEPARATOR.split(plain) if part.strip()]
    return _NOT_KEPT if parts and all(_SETTING.match(part) for part in parts) else ""


def left_hint(count: int) -> str:
    """Return a line about the number of processes that a command left behind; empty if there are none."""
    if not count:
        return ""
    many = "1 process" if count == 1 else f"{count:,} processes"
    return f"(it left {many} behind, which ended with it; background=true keeps a command running)\n"


def _failed_by(ended: CommandEnd, words: bytes) -> bool:
    return ended.exit_code != 0 and any(words in part for part in ended.capture.parts())


def shown_output(
    ended: CommandEnd, seconds: float, shown_bytes: int, readable: Callable[[bytes], str], hint: str = ""
) -> str:
    """Return the beginning and end of the output within ``shown_bytes``. The last line, in brackets, says how it ended.

    ``readable`` converts bytes to clean text without secrets. ``hint`` is a line that says what to do.
    """
    refused = "".join(f"(network: {sentence})\n" for sentence in refusals(ended.requests))
    last = f"{hint}{refused}[{ending(ended, seconds)}]"
    room = shown_bytes - len(last) - 1
    head, tail = (readable(part) for part in ended.capture.parts())
    text = clip(head, room) if not tail else _joined(head, tail, ended.capture.total, room)
    if text and not text.endswith("\n"):
        text += "\n"
    return cut(text + last, shown_bytes) if room > 0 else cut(last, shown_bytes)


def ending(ended: CommandEnd, seconds: float) -> str:
    """Return how a command ended."""
    if ended.reason == "timeout":
        return f"timed out after {seconds:g} s; everything it started was killed"
    if ended.reason:
        return _STOPPED[ended.reason]
    return f"exit {ended.exit_code}"


def _joined(head: str, tail: str, total: int, room: int) -> str:
    """Join head and tail of an output whose middle was not kept. The count refers to printed bytes."""
    marker = f"\n[... {total} bytes omitted of {total} ...]\n"
    space = max(0, room - len(marker))
    first = cut(head, space // 4)
    rest = space - len(first.encode())
    last = tail.encode()[-rest:].decode("utf-8", "ignore") if rest else ""
    omitted = max(0, total - len(first.encode()) - len(last.encode()))
    return cut(f"{first}\n[... {omitted} bytes omitted of {total} ...]\n{last}", max(0, room))
