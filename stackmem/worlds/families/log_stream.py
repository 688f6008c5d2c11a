"""``log_stream``: one long output after the other, each with a single line that matters, for the next few units only.

The trap: nothing is needed for long, so whatever is kept beyond that is paid for in vain.
"""

from __future__ import annotations

from random import Random

from stackmem.worlds.kernel import Page, Size, UnitList, WorldDraft, WorldFamily, shares

_BLOCK = 4  # units on one log
_CHARS = 12_000


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, logs = UnitList(), list[tuple[Page, ...]]()
    for number, length in enumerate(shares(units, (1,) * max(1, -(-units // _BLOCK))), 1):
        key, value = f"trace.batch-{number}", f"req-{rng.getrandbits(48):012x}"
        work.facts.tell(key, value, f"run ./work log {number}", work.next)
        chars = min(31_000, size.chars(_CHARS + rng.randrange(-4_000, 8_000)))
        logs.append((Page(f"collected for batch {number}", chars, (f"{key} = {value}",)),))
        for at in range(length):
            work.do(f"batch {number}, check {at + 1}", key)
    return work.draft(
        "Triage the batches of a night run",
        "Each unit checks one thing of a batch and needs the identifier of the request that broke it. It stands once "
        "in the batch's log, which `./work log NUMBER` prints. When a batch is done, the next begins.",
        logs=tuple(logs),
    )


FAMILY = WorldFamily(build, hurts=("letta", "notes", "condenser"), fleeting=True)
