"""Export traces for other tools. Each format is a fold over a run's records and is deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stackmem.trace.record import Record

from .atif import atif
from .chrome import chrome
from .mini import mini
from .otel import otel
from .sft import sft
from .table import table

EXPORTS: dict[str, Callable[[Iterable[Record], str], Iterator[str]]] = {
    "atif": atif,
    "chrome": chrome,
    "csv": table,
    "mini": mini,
    "otel": otel,
    "sft": sft,
}
"""Name to fold. A fold takes the records and the run's id, and yields the text in pieces."""
