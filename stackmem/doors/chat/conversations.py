"""Lists earlier conversations with what the user said in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import bounded_lines, open_regular, read_regular
from stackmem.review.kept.run_list import name_of
from stackmem.run.companion.conversations import kept_sessions
from stackmem.run.run_folder import TRACE
from stackmem.trace.lineage import sources
from stackmem.trace.lock import is_held

NAME = "name.txt"
"""The file next to the trace with the name that the user gave the conversation."""
_MAX_NAME = 60
_EVENT_NAME = b'"PersonSaid"'
_MAX_CHARS = 200_000


class EarlierConversation(Struct, frozen=True):
    """A conversation that can be continued."""

    folder: Path  # of its run
    messages: tuple[str, ...]  # the texts of the user, oldest first
    busy: bool  # whether a process has it open
    name: str  # that the user gave it; otherwise empty

    @property
    def run(self) -> str:
        return name_of(self.folder)

    def mentions(self, words: str) -> bool:
        """Return whether the user wrote all these words, in any order and case."""
        text = "\n".join((self.run, self.name, *self.messages)).casefold()
        return all(word in text for word in words.casefold().split())


class _Fact(Struct):
    type: str
    text: str = ""


class _Record(Struct):
    seq: int
    event: _Fact


def conversations(runs_dir: Path, folder: Path) -> Iterator[EarlierConversation]:
    """Yield the conversations about ``folder``, newest first. Unreadable ones are left out."""
    for path, subject in kept_sessions(runs_dir):
        if subject == folder:
            with suppress(OSError, msgspec.DecodeError, TraceError):
                yield EarlierConversation(path, tuple(_user_words(path)), is_held(path / TRACE), given_name(path))


def given_name(run_dir: Path) -> str:
    """Return the name that the user gave a conversation, or the run that it was forked from. Empty if there is none."""
    for folder, _, _ in reversed(sources(run_dir)):
        with suppress(OSError, UnicodeDecodeError):
            name = read_regular(folder / NAME, 4 * _MAX_NAME).decode().strip()
            if _is_name(name):
                return name
    return ""


def find_named(runs_dir: Path, name: str) -> Path | None:
    """Return the newest conversation with this name, or None."""
    for path, _ in kept_sessions(runs_dir):
        with suppress(OSError, TraceError):
            if given_name(path) == name:
                return path
    return None


def rename(run_dir: Path, name: str) -> None:
    """Store the name of a conversation; an earlier one is replaced. Raise UsageError if the text cannot be a name."""
    if not _is_name(name):
        raise UsageError(
            f"{name[:80]!a} cannot be a name; use 1 to {_MAX_NAME} printable characters, no / or - at the start"
        )
    fresh = run_dir / f".{NAME}.new"
    fresh.write_text(f"{name}\n", "utf-8")
    fresh.replace(run_dir / NAME)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME and name.isprintable() and name[0] not in "/-" and name != "last"


def _user_words(run_dir: Path) -> Iterator[str]:
    """Yield what the user said, without decoding the other records."""
    remaining = _MAX_CHARS
    for folder, at, _ in sources(run_dir):
        with open_regular(folder / TRACE) as file:
            for line in bounded_lines(file):
                if _EVENT_NAME not in line or not line.endswith(b"\n"):
                    continue
                record = decode_json(line, _Record)
                if record.seq > at or remaining <= 0:
                    break
                if record.event.type == "PersonSaid":
                    yield record.event.text[:remaining]
                    remaining -= len(record.event.text)
