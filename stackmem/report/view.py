"""Runs, read from their folders, as one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.events import RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.trace.lineage import RunReader

from .files import Pair, changes
from .fold import Fold
from .prompts import Prompts
from .steps import RunPage
from .texts import Texts


class Shown(Struct):
    """What a page shows.

    Attributes:
        parted: Of two runs, the last step that both have in common, and the record where they part; else None.

    """

    texts: list[str]
    parts: list[Any]
    runs: list[RunPage]
    parted: tuple[int, int] | None = None


def read_runs(folders: Sequence[Path]) -> Shown:
    """One run, or two that are compared.

    Raises:
        TraceError: A trace is broken, or a parent of a fork is missing.

    """
    texts, parts = Texts(), list[Any]()
    numbers: dict[bytes, int] = {}
    runs = [_read_run(folder, texts, Prompts(texts, parts, numbers)) for folder in folders]
    return Shown(texts.items, parts, runs, _parting(*folders) if len(folders) == 2 else None)


def _read_run(folder: Path, texts: Texts, prompts: Prompts) -> RunPage:
    stores, pairs = _trees(folder)
    reader = RunReader(folder)
    fold = Fold(folder.resolve().name, texts, prompts, changes(stores, pairs))
    for record in reader:
        fold.take(record)
    return fold.close(reader.torn_bytes)


def _trees(folder: Path) -> tuple[list[Path], list[Pair]]:
    """The folders whose histories hold the run's files, and the trees that followed one another."""
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
    return stores, list(pairs)


def _parting(one: Path, other: Path) -> tuple[int, int]:
    """Steps that two runs share, and the number of the first record that differs."""
    steps, number = 0, 0
    for first, second in zip(_events(one), _events(other), strict=False):
        if first != second:
            break
        number += 1
        steps += type(first).__name__ == "ModelReplied"
    return steps, number + 1


def _events(folder: Path) -> Iterator[object]:
    return (record.event for record in RunReader(folder))
