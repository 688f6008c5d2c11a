"""The columns of the report that show the mean of one figure of a trial. A metric with a row here has a column."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["share", "usd", "tokens", "count", "ratio"]
SUCCESS, BILL, CONTEXT, WORK = "Success", "Bill, USD", "Context", "Work"
LOST, MEMORY, MORE = "Lost and found again", "Memory", "From plug-ins"


class Column(Struct, frozen=True):
    """A column with one figure per line."""

    key: str  # the name of the figure, or of the comparison
    title: str
    tells: str
    group: str  # the heading that it appears under
    kind: Kind
    against: bool = False  # whether it is a difference from the baseline


RUN_COLUMNS = (
    Column("cache_read_share", "cached", "share of prompt tokens read from the cache", CONTEXT, "share"),
    Column("steps", "steps", "replies of the model", WORK, "count"),
    Column("never_acted", "never acted", "share of trials that showed the whole history", WORK, "share"),
    Column("wall_seconds", "seconds", "wall time of a trial; the spreadsheet splits it", WORK, "count"),
    Column("facts_lost", "out of sight", "facts that left the prompt while still needed", LOST, "count"),
    Column("rediscoveries", "rediscovered", "failed commands that another frame tried again", LOST, "count"),
    Column("found_again", "found again", "lookups with a result that a finished frame already had", LOST, "count"),
    Column("repeated_looks", "repeated", "lookups that returned the same, or failed, again", LOST, "count"),
    Column("rereads", "reread", "reads of a file that returned the same again", LOST, "count"),
    Column("memory_call_share", "calls", "share of calls that manage memory", MEMORY, "share"),
    Column("heap_reads_per_write", "reads a write", "reads per stored chunk", MEMORY, "count"),
    Column("never_read_share", "never read", "share of chunks that were never read", MEMORY, "share"),
    Column("stale_reads", "stale", "reads of chunks whose source had changed", MEMORY, "count"),
    Column("false_pops", "false pops", "frames that reported success but were not done", MEMORY, "count"),
)
"""The mean figures of a trial, by name of their metric."""
