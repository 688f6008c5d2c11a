"""``dropped_branch``: attempts that are given up, one after the other, with all that was found out for them.

The trap: what belongs to a dropped attempt is of no use any more, and a memory that keeps it pays for it to the end.
"""

from __future__ import annotations

from random import Random

from stackmem.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, plant, shares

_TRUNK = ("release", "schema", "mirror", "owner")
_DRIVERS = ("odbc", "jdbc", "native", "proxy", "bulk", "stream")
_WEIGHTS = (5, 2, 9, 3, 6, 2, 12, 4)


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, probes = UnitList(), dict[str, str]()
    trunk = [f"trunk.{item}" for item in _TRUNK[: size.share(1, 1, len(_TRUNK), of=0.1)]]
    work.read(rng, size, "docs/trunk.md", "What every attempt builds on", {key: code(rng) for key in trunk})
    attempts = shares(units, _WEIGHTS[: max(1, size.horizon // 14)])
    for number, length in enumerate(attempts, 1):
        key, path = f"attempt.driver-{number}", f"attempts/{number}.md"
        said, probes[key] = plant(rng, size, work.facts, key, _DRIVERS, path, f"Attempt {number}")
        work.files[path] = said
        for at in range(length):
            over = at == length - 1 and number < len(attempts)
            work.do(f"attempt {number}, step {at + 1}", key, trunk[at % len(trunk)], changed="attempt" if over else "")
    return work.draft(
        "Port an importer, attempt by attempt",
        "Each unit is a step of an attempt and needs the driver that works for it, which only a trial tells, and a "
        "fact that all attempts share. The last step of an attempt says `changed attempt @ UNIT`: it is dropped, and "
        "nothing that was found out for it is needed again.",
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("rag", "notes", "letta"), fleeting=True)
