"""Reads a run as a page while it may still be written: first from its start in pieces, then new records."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf
from pathlib import Path

from stackmem.core.text import quantity
from stackmem.run.result import read_result
from stackmem.trace.imported import Stated, stated_by_recording
from stackmem.trace.lineage import TRACE, sources
from stackmem.trace.lock import INTERRUPTED, is_held
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record
from stackmem.trace.snapshot import tree_of

from .files import Pair, TreeChanges, changes
from .fold import PageFold
from .prompts import Prompts
from .rows import RunPage
from .tail import RunTail
from .texts import Texts

NO_HISTORY = "this run has no file history"
READING = "reading"
_RESULT_CHARS = 300


class FollowedRun:
    """A run's page, which grows with its trace."""

    def __init__(self, folder: Path, texts: Texts, prompts: Prompts, at_once: int = 500) -> None:
        """Prepare; the first ``read`` starts reading.

        ``at_once`` is the number of records that are read between looks at the clock.
        """
        self._folder, self._tail, self._at_once = folder, RunTail(folder), at_once
        self._changes = TreeChanges({}, NO_HISTORY)
        self._statement: Stated | None = None
        self._fresh: Iterator[Record] | None = None
        self._stores, self._tree = list[Path](), ""
        self.fold = PageFold(folder.resolve().name, texts, prompts, self._changes, sources_of(folder))

    def read(self, seconds: float = inf) -> RunPage:
        """Return the page with the trace so far; its outcome is ``reading`` if time ran out before the end.

        Raise TraceError if the trace is broken, or a parent of a fork is missing.

        Args:
            seconds: How long to read. A long trace takes many calls, and each continues after the previous one.
        """
        until = time.monotonic() + seconds
        if not self._stores:  # records of a fork's parents come first, together with their file changes
            self._stores = [path for path, _, _ in reversed(sources(self._folder))]
        self._fresh = fresh = self._fresh or self._tail.fresh()
        while records := list(islice(fresh, self._at_once)):
            self._look_up(records)
            for record in records:
                self.fold.take(record)
            if time.monotonic() > until:
                break
        else:
            self._fresh = None
        page = self.fold.close(self._tail.torn_bytes)
        if self._statement is None and self.fold.imported:
            self._statement = stated_by_recording(self._folder)
        if self._statement is not None:
            page.strategy, page.stated_usd = self._statement.shown_strategy, self._statement.recorded_usd
        page.reading = "" if self._fresh is None else self._told_so_far()
        if page.reading:
            page.outcome = READING
        elif not page.ending and not is_held(self._folder / TRACE):
            page.outcome = INTERRUPTED
        return page

    def _told_so_far(self) -> str:
        """Describe a partly read trace; how it ended is known if there is a result."""
        size = max(1, (self._folder / TRACE).stat().st_size)
        progress = f"{min(1.0, self._tail.read_bytes / size):.0%} of the trace has been read so far."
        result = read_result(self._folder / "result.json")
        if result is None:
            return progress
        words = " ".join(result.result.split())[:_RESULT_CHARS]
        return f"{progress} It ended as {result.outcome} after {quantity(result.steps, 'step')}: {words}"

    def _look_up(self, records: Iterable[Record]) -> None:
        """Look up the file changes between the trees of these records."""
        pairs: dict[Pair, None] = {}
        for record in records:
            tree = tree_of(record.event)
            if self._tree and tree and tree != self._tree:
                pairs[self._tree, tree] = None
            self._tree = tree or self._tree
        if pairs or (self._tree and self._changes.missing == NO_HISTORY):
            tree_changes = changes(self._stores, list(pairs))
            self._changes.between.update(tree_changes.between)
            if tree_changes.missing or self._changes.missing == NO_HISTORY:
                self._changes.missing = tree_changes.missing
