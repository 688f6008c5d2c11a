"""``uneven``: phases of very different length, one unit to a third of the work, each with its own facts.

The trap: a memory that forgets after a fixed number of turns is too early in long phases and too late in short ones.
The last unit of each phase needs a word from every earlier phase, which appeared only once.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, shares

_PHASES = ("inventory", "cleanup", "naming", "pricing", "shipping", "taxes", "returns", "closing")
_ITEMS = ("cutoff", "channel", "zone")
_WEIGHTS = (1, 21, 2, 13, 3, 34, 1, 8)


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, ended = UnitList(), list[str]()
    for name, length in zip(_PHASES, shares(units, _WEIGHTS[: max(1, size.horizon // 8)]), strict=False):
        keys = [f"{name}.{item}" for item in _ITEMS]
        work.read(rng, size, f"docs/{name}.md", f"Phase {name}", {key: code(rng) for key in keys})
        for at in range(length):
            last = ended if at == length - 1 else ()
            gives = {} if at else {f"owner.{name}": code(rng)}
            work.do(f"{name}, part {at + 1} of {length}", keys[at % 3], keys[(at + 1) % 3], *last, gives=gives)
        ended.append(f"owner.{name}")
    return work.draft(
        "Bring the catalog through its phases",
        "The work has phases; some are a single unit, some a third of everything. `docs/PHASE.md` says what a phase "
        "needs. The first unit of each tells its owner, once; the last unit of a phase also needs the owners of all "
        "phases before it. Nothing changes.",
    )


FAMILY = WorldFamily(build, fleeting=True, hurts=("window", "truncate", "mask", "rag", "boundary"))
