"""Reads runs from their folders as one page."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from stackmem.core.errors import TraceError
from stackmem.core.facts import ModelReplied
from stackmem.core.images import ImageRef
from stackmem.core.images.vision import SENT_TYPES
from stackmem.review.comparison import FactComparison
from stackmem.review.diff import counted_records
from stackmem.trace.images import images_of
from stackmem.trace.lineage import HISTORY, RunReader
from stackmem.trace.record import Record

from .follow import FollowedRun
from .prompts import Prompts
from .rows import RunPage
from .texts import Texts


class SharedSteps(Struct, frozen=True, omit_defaults=True):
    """The common beginning of two runs."""

    steps: int | None  # number of common steps; None if the runs never differ
    forked: bool  # whether they share the same records: one was forked from the other, or both from a third
    differs_only_in: tuple[str, ...] = ()  # kinds of volatile words that differ in the common part


class PageContent(Struct):
    """The data of a page."""

    texts: list[str]
    parts: list[Any]
    runs: list[RunPage]
    parted: SharedSteps | None = None  # the common beginning of two runs
    links: dict[str, str] = field(default_factory=dict)  # run id to the address of its page


def pictures_of(folder: Path) -> Callable[[ImageRef], str]:
    """Return a function that reads an image of a run as a URL for the page; empty if the run lacks it."""
    read = images_of(folder)

    def picture(ref: ImageRef) -> str:
        try:
            raw = read(ref.digest) if ref.media in SENT_TYPES else b""
        except (TraceError, OSError):
            return ""
        return f"data:{ref.media};base64,{base64.b64encode(raw).decode()}" if raw else ""

    return picture


def read_runs(folders: Sequence[Path]) -> PageContent:
    """Read one run, or several to compare; for two, also find where they differ.

    Raise TraceError if a trace is broken, or a parent of a fork is missing.
    """
    texts, parts = Texts(), list[Any]()
    numbers: dict[bytes, int] = {}
    runs = [
        FollowedRun(folder, texts, Prompts(texts, parts, numbers, pictures_of(folder))).read() for folder in folders
    ]
    if len(folders) != 2:
        return PageContent(texts.items, parts, runs)
    path, other = folders
    parted = parting(RunReader(path), RunReader(other), (path / HISTORY, other / HISTORY))
    return PageContent(texts.items, parts, runs, parted)


def parting(
    records: Iterable[Record], other: Iterable[Record], histories: tuple[Path, Path] = (Path(), Path())
) -> SharedSteps | None:
    """Find where two runs diverge; None if they do not.

    Runs that share records diverge where they were forked. Other runs diverge, as in ``stackmem diff``, at the
    first different event.

    Args:
        records, other: The records of each run, read twice if they share none.
        histories: The folders with the files of each run.
    """
    steps = 0
    for shared, (first, second) in enumerate(zip_longest(records, other)):
        if first != second:
            return SharedSteps(steps, forked=True) if shared else _unlike(records, other, FactComparison(histories))
        steps += isinstance(first.event, ModelReplied)
    return None


def _unlike(records: Iterable[Record], other: Iterable[Record], comparison: FactComparison) -> SharedSteps | None:
    steps = 0
    for first, second in zip_longest(counted_records(records), counted_records(other)):
        if first is None or second is None or not comparison.equal(first.event, second.event):
            return SharedSteps(steps, forked=False, differs_only_in=comparison.differs_only_in)
        steps += isinstance(first.event, ModelReplied)
    only = comparison.differs_only_in
    return SharedSteps(None, forked=False, differs_only_in=only) if only else None
