"""The strategy and cost of a run as its page shows them; for an imported run, those that its recording states."""

from __future__ import annotations

from collections.abc import Iterable

from stackmem.core.facts import RunStarted
from stackmem.core.state import State
from stackmem.trace.imported import imported_from, shown_strategy, stated_by_recording
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record


class StatedRun:
    """The statements in a run's recording; empty for stackmem's own runs and for records outside a run folder."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._statement = stated_by_recording(records.folder) if isinstance(records, RunReader) else None

    def strategy(self, start: RunStarted) -> str:
        return shown_strategy(start, self._statement)

    def usd(self, state: State) -> float | None:
        """Return the cost of the whole run by known prices, otherwise as stated; None if both are unknown."""
        if state.cost_usd is not None or self._statement is None or not imported_from(state.begun):
            return state.cost_usd
        return self._statement.recorded_usd
