"""Saves the good beginning of a trace that is broken further on."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from msgspec import Struct

from stackmem.errors import TraceError, UsageError

from .private import owners
from .record import WAY_OUT
from .store import TraceReader


class Saved(Struct, frozen=True):
    """What was saved of a file.

    Attributes:
        lines: Lines that are good and were copied, byte for byte.
        lost_bytes: Length of what stands behind them.
        why: What is wrong there.
    """

    lines: int
    lost_bytes: int
    why: str


def recover(source: Path, target: Path) -> Saved:
    """Copy the whole lines before the first broken one into the new file ``target``, and force it to the disk.

    Raises:
        UsageError: Nothing is broken.
        TraceError: Not even the first line is good, or a file cannot be read or written.
    """
    reader = TraceReader(source)
    lines, why = 0, ""
    try:
        for _ in reader:
            lines += 1
    except TraceError as error:
        why = str(error).removesuffix(WAY_OUT)
    if reader.torn_bytes:
        why = f"the last {reader.torn_bytes:,} bytes were cut short by a crash"
    if not why:
        raise UsageError(f"the trace {source} is whole, so there is nothing to recover; stackmem replay tells more")
    if not lines:
        raise TraceError(f"nothing of {source} can be saved: {why}; a copy from before is needed")
    try:
        with source.open("rb") as broken, open(target, "xb", opener=owners) as saved:
            saved.writelines(islice(broken, lines))
            kept = saved.tell()
            saved.flush()
            os.fsync(saved.fileno())
            lost = broken.seek(0, os.SEEK_END) - kept
    except OSError as error:
        raise TraceError(f"the trace cannot be saved to {target} ({error.strerror}); make room there") from error
    return Saved(lines, lost, why)
