"""``prospecting``: each stretch of work needs a value found by trial that is never needed again.

The trap: the facts are never worth remembering, so every call and every token spent on memory is wasted.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, plant, shares

_TOOLS = ("auger", "sonde", "core-drill", "magnet", "seismic", "radar")
_CLAIM_CALLS = 8


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, probes = UnitList(), dict[str, str]()
    for number, length in enumerate(shares(units, (1,) * max(1, size.horizon // _CLAIM_CALLS)), 1):
        key, path = f"claim.plot-{number}", f"claims/{number}.md"
        text, probes[key] = plant(rng, size, work.facts, key, _TOOLS, path, f"Claim {number}")
        work.files[path] = text
        for at in range(length):
            work.do(f"claim {number}, hole {at + 1}", key)
    return work.draft(
        "Prospect the claims of a valley",
        "Each unit drills one hole on a claim with the tool that works there; `claims/NUMBER.md` lists what has been "
        "tried nearby, and only a trial tells. When a claim is done, another begins, with other ground.",
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("letta", "handoff"), fleeting=True)
