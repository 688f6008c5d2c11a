"""``inventory``: new facts every few units, more than a heap or summary can contain, and old ones needed again.

The trap: the facts to keep grow without limit, so some are lost and must be found again in their documents.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily

_SHELF = 20  # facts per document
_UNITS = 6  # units per document
_HALLS = ("north", "south", "east", "west", "upper", "lower")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, old = UnitList(), list[str]()
    for shelf in range(-(-units // _UNITS)):
        hall = _HALLS[shelf % len(_HALLS)]
        facts = {f"{hall}.bin-{shelf}-{position}": _position(rng) for position in range(_SHELF)}
        work.read(rng, size, f"stock/{hall}/{shelf}.md", f"Shelf {shelf} of the {hall} hall", facts, 150)
        keys = list(facts)
        for at in range(min(_UNITS, units - shelf * _UNITS)):
            work.do(f"pick order {5000 + work.next}", keys[at], *rng.sample(old, min(1, len(old))))
        old += keys[:_UNITS]
    return work.draft(
        "Pick the orders of a warehouse",
        "Each unit picks one order and names where its articles lie. A shelf's document says so for twenty bins; most "
        "orders need an article of the shelf at hand and one of a shelf seen before. Nothing is moved meanwhile.",
    )


def _position(rng: Random) -> str:
    return ":".join(f"{rng.choice('ABCDEFGH')}{rng.randrange(100, 999)}/{rng.getrandbits(40):010x}" for _ in range(4))


FAMILY = WorldFamily(
    build,
    hurts=(
        "stackheap", "adaptive", "isolated", "summary", "rolling_summary", "compact", "condenser", "handoff", "notes",
        "mem1", "agentfold", "window", "truncate", "rag",
    ),
    fleeting=True,
)  # fmt: skip
