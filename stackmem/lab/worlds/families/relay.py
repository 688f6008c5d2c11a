"""``relay``: each unit gives a value that is needed once, a fixed number of units later.

The trap: two dozen values are pending at any time, all of them new, and the visible past must reach back that far.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code

_DISTANCE, _LANES = 24, 30


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    work.read(rng, size, "docs/crew.md", "The crew", {"crew.pilot": code(rng), "crew.tower": code(rng)})
    distance = max(1, min(_DISTANCE, units // 3))
    for unit in range(1, units + 1):
        due = [f"baton.lane-{(unit - distance) % _LANES}"] if unit > distance else []
        crew = "crew.pilot" if unit % 2 else "crew.tower"
        work.do(f"leg {unit}", crew, *due, gives={f"baton.lane-{unit % _LANES}": code(rng)})
    return work.draft(
        "Run a relay of deliveries",
        f"Each unit is a leg: it gives a baton, which the leg {distance} units later must name. The output tells it, "
        "once; it stands nowhere else. Every leg needs one of the crew as well.",
    )


FAMILY = WorldFamily(
    build,
    hurts=("window", "truncate", "mask", "rag", "boundary", "letta", "notes", "memory_dir", "mem1", "fold"),
    fleeting=True,
)
