"""``survey``: the first part of the work only collects facts; the second uses them from both ends.

The trap: the facts are not needed until all of them are, and then the oldest with the newest, one pair per unit.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, shares

_SITES = 40  # upper limit


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    first, second = shares(units, (3, 7)) if units > 1 else (1, 0)
    sites = min(first, _SITES, max(1, size.horizon // 5))
    keys = [f"site.plot-{number}" for number in range(1, sites + 1)]
    for at in range(first):
        key = keys[at * sites // first]
        if not work.units or at * sites // first != (at - 1) * sites // first:
            work.read(rng, size, f"field/{key.partition('-')[2]}.md", f"Field sheet {at + 1}", {key: code(rng)}, 800)
        work.do(f"survey {key.partition('.')[2]}, point {at + 1}", key)
    for at in range(second):
        work.do(f"draw line {at + 1}", keys[-1 - at % sites], keys[at % sites])
    return work.draft(
        "Survey the plots and draw the map",
        "The first units survey one plot after the other; each plot has a field sheet with its mark. The other units "
        "draw lines across the map and need two marks each, beginning with the plots that were surveyed last and "
        "first.",
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag"))
