"""Searches the earlier conversations about a folder, for the user's ``/search`` and the agent's ``recall``.

Rule 1: A search only reads, and takes no locks. A conversation that another process is writing is read up to its last
    complete record.
Rule 2: Links, redacted copies, damaged conversations and those of another user are not read, and are counted.
Rule 3: Time, conversations and characters are bounded. A long conversation is then read in part, and counted.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct

from stackmem.core.conversation.ranking import Index
from stackmem.core.conversation.recall import RECALLED_CHARS, RecalledPassage, best_of, passages_of
from stackmem.core.errors import StackmemError, TraceError
from stackmem.core.person_facts import EarlierPassage, RecallFound, SessionRules
from stackmem.core.state import State
from stackmem.core.strict_json import decode_json
from stackmem.core.text import quantity
from stackmem.foreign.files import open_regular, read_regular
from stackmem.run.run_folder import RUN, TRACE, frame_parent, is_run
from stackmem.run.stored_request import read_request
from stackmem.trace.lineage import RunReader
from stackmem.trace.store import LONGEST_BYTES
from stackmem.trace.walk import state_after

MAX_CONVERSATIONS = 10
SEARCH_SECONDS = 5.0
"""Maximum duration of a search, without the last step of it."""
SECOND_CHARS = 16
"""Length of the time at the start of a run's name, such as 20261128T195201Z."""
_MAX_PASSAGES = 20_000
_QUERY_CHARS = 1_000
LINKS, OTHERS, REDACTED, DAMAGED, IN_PART = (
    "links", "of another user", "redacted", "damaged", "too long to read in full",
)  # fmt: skip
_INVALID = (StackmemError, OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Errors from folding the records of a damaged conversation."""


class _Session(Struct):
    session: SessionRules | None = None


class _First(Struct):
    at: float


class _Found(Struct):
    """What was read of the other conversations, oldest first."""

    passages: list[RecalledPassage] = []
    searched: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)


def run_folders(runs_dir: Path) -> list[Path]:
    try:
        return [path for path in runs_dir.iterdir() if is_run(path)]
    except OSError:
        return []


def kept_sessions(runs_dir: Path) -> Iterator[tuple[Path, Path]]:
    """Yield every conversation and the folder that it is about, newest first.

    Damaged ones are left out, and so are parallel frames, which belong to a conversation.
    """
    for path in _newest_first([path for path in run_folders(runs_dir) if not frame_parent(path.name)]):
        with suppress(OSError, msgspec.DecodeError, TraceError):
            saved = decode_json(read_regular(path / RUN), _Session)
            if saved.session is not None:
                yield path, Path(read_request(path).subject)


def started_at(run_dir: Path) -> float:
    """Return when the first record of a run was written, or 0. It orders runs that started in the same second."""
    try:
        with open_regular(run_dir / TRACE) as trace:
            return decode_json(trace.readline(LONGEST_BYTES), _First).at
    except (OSError, msgspec.DecodeError):
        return 0.0


def _newest_first(folders: list[Path]) -> Iterator[Path]:
    """Yield folders by the second in their names, and read a trace only where two runs started in the same second."""
    for _, group in groupby(sorted(folders, key=_second_of, reverse=True), _second_of):
        runs = list(group)
        yield from runs if len(runs) == 1 else sorted(runs, key=started_at, reverse=True)


def _second_of(run_dir: Path) -> str:
    return run_dir.name[:SECOND_CHARS]


def search_conversations(run_dir: Path, state: State, query: str) -> str:
    """Return the passages that fit best in this conversation and the most recent others about its folder.

    A text that several of them contain, such as the beginning of a fork, is found once, in the newest.
    """
    others = _Found()
    with suppress(StackmemError, OSError):
        others = _others(run_dir, Path(read_request(run_dir).subject))
    texts = {passage.text: passage for passage in others.passages}
    for passage in passages_of(state):
        texts.pop(passage.text, None)
        texts[passage.text] = passage
    count = others.searched
    searched = f"this conversation and {quantity(count, 'other')}" if count else "this conversation"
    return best_of(list(texts.values()), query, searched)


def search_earlier(run_dir: Path, folder: Path | None, scrub: Callable[[str], str], query: str) -> RecallFound:
    """Return what fits best in the most recent other conversations about the folder, for the trace."""
    if folder is None:
        return RecallFound(query)
    others = _others(run_dir, folder)
    index = Index()
    for passage in others.passages:
        index = index.add(passage.text)
    remaining, numbers = RECALLED_CHARS, list[int]()
    for number in index.ranked(query[:_QUERY_CHARS]):
        passage = others.passages[number]
        remaining -= len(passage.source) + len(passage.text)
        if remaining < 0:
            break
        numbers.append(number)
    passages = (others.passages[number] for number in sorted(numbers))
    return RecallFound(
        query,
        tuple(EarlierPassage(scrub(passage.source), scrub(passage.text)) for passage in passages),
        others.searched,
        dict(sorted(others.skipped.items())) or UNSET,
    )


def _others(run_dir: Path, folder: Path) -> _Found:
    """Read the most recent other conversations about the folder until the time is over, the newest first."""
    others, until = _Found(), time.monotonic() + SEARCH_SECONDS
    read = list[list[RecalledPassage]]()
    remaining = _MAX_PASSAGES
    for path, subject in kept_sessions(run_dir.parent):
        if subject != folder or path.name == run_dir.name:
            continue
        if len(read) == MAX_CONVERSATIONS or time.monotonic() > until:
            break
        obstacle = _obstacle(path)
        if obstacle:
            others.skipped[obstacle] += 1
            continue
        passages, problem = _read(path, until, remaining)
        if problem:
            others.skipped[problem] += 1
        if problem in ("", IN_PART):
            others.searched += 1
            read.append(passages)
            remaining -= len(passages)
    texts: dict[str, RecalledPassage] = {}
    for passages in reversed(read):
        for passage in passages:
            texts.pop(passage.text, None)
            texts[passage.text] = passage
    others.passages = list(texts.values())
    return others


def _obstacle(path: Path) -> str:
    """Return why a conversation is not read, or an empty string."""
    if path.is_symlink() or (path / TRACE).is_symlink():
        return LINKS
    return OTHERS if path.stat().st_uid not in (os.geteuid(), 0) else ""


def _read(path: Path, until: float, most: int) -> tuple[list[RecalledPassage], str]:
    """Return the passages of a conversation, and why some of them are missing."""
    state, problem = State(), ""
    try:
        for number, record in enumerate(RunReader(path)):
            state = state_after(state, record)
            if number == 0 and state.begun.redacted is not UNSET:
                return [], REDACTED
            if number % 100 == 0 and time.monotonic() > until:
                problem = IN_PART
                break
        name = f"{path.name[:16]} of {_day(path.name)}"
        passages = [RecalledPassage(f"{name}: {item.source}", item.text) for item in passages_of(state)]
    except _INVALID:
        return [], DAMAGED
    return (passages[-most:], IN_PART) if len(passages) > most else (passages, problem)


def _day(name: str) -> str:
    return f"{name[:4]}-{name[4:6]}-{name[6:8]}"
