"""A run that may still be written, read as the values of its page: whole at first, then what is new."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from stackmem.core.facts import RunForked, RunStarted, ToolReturned, VerifyReturned
from stackmem.trace.lineage import TRACE
from stackmem.trace.lock import is_held
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record
from stackmem.trace.tail import RunTail

from .files import Pair, TreeChanges, changes
from .fold import PageFold
from .prompts import Prompts
from .rows import RunPage
from .texts import Texts

NO_HISTORY = "no history of files was kept with this run"
INTERRUPTED = "interrupted"
_AT_ONCE = 2_000


class FollowedRun:
    """A run's page, which grows with its trace."""

    def __init__(self, folder: Path, texts: Texts, prompts: Prompts) -> None:
        """Begin; nothing is read yet."""
        self._folder, self._tail = folder, RunTail(folder)
        self._changes = TreeChanges({}, NO_HISTORY)
        self._stores, self._tree = [folder], ""
        self.fold = PageFold(folder.resolve().name, texts, prompts, self._changes, sources_of(folder))

    def read(self) -> RunPage:
        """The page, with all that the trace holds now.

        Raises:
            TraceError: The trace is broken, or a parent of a fork is missing.
        """
        fresh = self._tail.fresh()
        while records := list(islice(fresh, _AT_ONCE)):
            self._look_up(records)
            for record in records:
                self.fold.take(record)
        page = self.fold.close(self._tail.torn_bytes)
        if not page.ending and not is_held(self._folder / TRACE):
            page.outcome = INTERRUPTED
        return page

    def _look_up(self, records: Iterable[Record]) -> None:
        """What changed between the trees of these records."""
        pairs: dict[Pair, None] = {}
        for record in records:
            match record.event:
                case RunStarted(tree=tree) | ToolReturned(tree=tree) | VerifyReturned(tree=tree):
                    if self._tree and tree and tree != self._tree:
                        pairs[self._tree, tree] = None
                    self._tree = tree or self._tree
                case RunForked(parent=parent):
                    self._stores.append(self._folder.parent / parent)
        if pairs or (self._tree and self._changes.missing == NO_HISTORY):
            found = changes(self._stores, list(pairs))
            self._changes.between.update(found.between)
            if found.missing or self._changes.missing == NO_HISTORY:
                self._changes.missing = found.missing
