"""``log_stream``: one long log after the other, each with a line for now and others that may matter much later.

The trap: when a long log is printed, it is not yet known which of its lines a much later batch will need.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Page, Size, UnitList, WorldDraft, WorldFamily, shares

_EARLY = ("warning", "lock", "retry")
_BLOCK = 4  # units per log
_CHARS = 12_000
_NEAR = 2  # the newest batches are excluded from comparisons


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, logs = UnitList(), list[tuple[Page, ...]]()
    for number, length in enumerate(shares(units, (1,) * max(1, -(-units // _BLOCK))), 1):
        facts = {f"{kind}.batch-{number}": f"req-{rng.getrandbits(48):012x}" for kind in ("trace", *_EARLY)}
        for key, value in facts.items():
            work.facts.tell(key, value, f"run ./work log {number}", work.next)
        chars = min(31_000, size.chars(_CHARS + rng.randrange(-4_000, 8_000)))
        planted = tuple(f"{key} = {value}" for key, value in facts.items())
        logs.append((Page(f"collected for batch {number}", chars, planted),))
        for at in range(length):
            then = number > _NEAR and f"{rng.choice(_EARLY)}.batch-{rng.randrange(1, number - _NEAR + 1)}"
            work.do(f"batch {number}, check {at + 1}", f"trace.batch-{number}", *([then] if then else []))
    return work.draft(
        "Triage the batches of a night run",
        "Each unit checks one thing of a batch and needs the identifier of the request that broke it. It stands once "
        "in the batch's log, which `./work log NUMBER` prints. A check also compares the batch with an earlier one, "
        "and needs the request of the first warning, lock or retry that the log of that one told.",
        logs=tuple(logs),
    )


FAMILY = WorldFamily(
    build, hurts=("window", "truncate", "mask", "rag", "summary", "rolling_summary", "letta"), fleeting=True
)
