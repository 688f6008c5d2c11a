"""Runs, read from their folders, as one page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.facts import ModelReplied, RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.trace.comparison import FactComparison
from stackmem.trace.diff import counted_records
from stackmem.trace.lineage import HISTORY, RunReader
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record

from .files import Pair, TreeChanges, changes
from .fold import PageFold
from .prompts import Prompts
from .rows import RunPage
from .texts import Texts

NO_HISTORY = "no history of files was kept with this run"


class SharedSteps(Struct, frozen=True, omit_defaults=True):
    """How much two runs share.

    Attributes:
        steps: Steps that both begin with; None where they never part.
        forked: They share the very records: one was forked from the other, or both from a third.
        differs_only_in: Kinds of volatile words that differ in what they share.
    """

    steps: int | None
    forked: bool
    differs_only_in: tuple[str, ...] = ()


class PageContent(Struct):
    """What a page shows.

    Attributes:
        parted: Where two runs part.
    """

    texts: list[str]
    parts: list[Any]
    runs: list[RunPage]
    parted: SharedSteps | None = None


def read_runs(folders: Sequence[Path]) -> PageContent:
    """One run, or two that are compared.

    Raises:
        TraceError: A trace is broken, or a parent of a fork is missing.
    """
    texts, parts = Texts(), list[Any]()
    numbers: dict[bytes, int] = {}
    runs = [_read_run(folder, texts, Prompts(texts, parts, numbers)) for folder in folders]
    if len(folders) != 2:
        return PageContent(texts.items, parts, runs)
    one, other = folders
    parted = parting(RunReader(one), RunReader(other), (one / HISTORY, other / HISTORY))
    return PageContent(texts.items, parts, runs, parted)


def _read_run(folder: Path, texts: Texts, prompts: Prompts) -> RunPage:
    stores, pairs = _trees(folder)
    reader = RunReader(folder)
    kept = TreeChanges({}, NO_HISTORY) if pairs is None else changes(stores, pairs)
    fold = PageFold(folder.resolve().name, texts, prompts, kept, sources_of(folder))
    for record in reader:
        fold.take(record)
    return fold.close(reader.torn_bytes)


def _trees(folder: Path) -> tuple[list[Path], list[Pair] | None]:
    """The folders whose histories hold the run's files, and the trees that followed one another; None for no tree."""
    stores, pairs, last = [folder], dict[Pair, None](), ""
    for record in RunReader(folder):
        match record.event:
            case RunStarted(tree=tree) | ToolReturned(tree=tree) | VerifyReturned(tree=tree):
                if last and tree and tree != last:
                    pairs[last, tree] = None
                last = tree or last
            case RunForked(parent=parent):
                stores.append(folder.parent / parent)
    return stores, list(pairs) if last else None


def parting(
    one: Iterable[Record], other: Iterable[Record], histories: tuple[Path, Path] = (Path(), Path())
) -> SharedSteps | None:
    """Where they part; None where nothing differs.

    Runs that share records part where they were forked. Others part, as in ``stackmem diff``, where something else
    happens.

    Args:
        one, other: The records of each; read twice where they share none.
        histories: Where the files of each are kept.
    """
    steps = 0
    for shared, (first, second) in enumerate(zip_longest(one, other)):
        if first != second:
            return SharedSteps(steps, forked=True) if shared else _unlike(one, other, FactComparison(histories))
        steps += isinstance(first.event, ModelReplied)
    return None


def _unlike(one: Iterable[Record], other: Iterable[Record], comparison: FactComparison) -> SharedSteps | None:
    steps = 0
    for first, second in zip_longest(counted_records(one), counted_records(other)):
        if first is None or second is None or not comparison.equal(first.event, second.event):
            return SharedSteps(steps, forked=False, differs_only_in=comparison.differs_only_in)
        steps += isinstance(first.event, ModelReplied)
    only = comparison.differs_only_in
    return SharedSteps(None, forked=False, differs_only_in=only) if only else None
