"""Runs, read from their folders, as one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.facts import RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.trace.lineage import HISTORY, RunReader
from stackmem.trace.program import sources_of

from .files import Changes, Pair, changes
from .fold import Fold
from .parting import Parting, parting
from .prompts import Prompts
from .steps import RunPage
from .texts import Texts

NO_HISTORY = "no history of files was kept with this run"


class Shown(Struct):
    """What a page shows.

    Attributes:
        parted: Where two runs part.

    """

    texts: list[str]
    parts: list[Any]
    runs: list[RunPage]
    parted: Parting | None = None


def read_runs(folders: Sequence[Path]) -> Shown:
    """One run, or two that are compared.

    Raises:
        TraceError: A trace is broken, or a parent of a fork is missing.

    """
    texts, parts = Texts(), list[Any]()
    numbers: dict[bytes, int] = {}
    runs = [_read_run(folder, texts, Prompts(texts, parts, numbers)) for folder in folders]
    if len(folders) != 2:
        return Shown(texts.items, parts, runs)
    one, other = folders
    parted = parting(RunReader(one), RunReader(other), (one / HISTORY, other / HISTORY))
    return Shown(texts.items, parts, runs, parted)


def _read_run(folder: Path, texts: Texts, prompts: Prompts) -> RunPage:
    stores, pairs = _trees(folder)
    reader = RunReader(folder)
    kept = Changes({}, NO_HISTORY) if pairs is None else changes(stores, pairs)
    fold = Fold(folder.resolve().name, texts, prompts, kept, sources_of(folder))
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
            case _:
                pass
    return stores, list(pairs) if last else None
