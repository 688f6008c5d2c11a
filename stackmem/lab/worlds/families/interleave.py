"""``interleave``: four lanes of work take turns, and each continues from its last state.

The trap: related steps are never adjacent, so a frame or summary that covers a stretch of work cuts every lane.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code

_LANES = ("red", "green", "blue", "white")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    lanes = _LANES[: max(1, min(len(_LANES), size.horizon // 8))]
    for lane in lanes:
        facts = {f"{lane}.depot": code(rng), f"{lane}.stamp": code(rng)}
        work.read(rng, size, f"docs/{lane}.md", f"The {lane} lane", facts)
    for unit in range(1, units + 1):
        lane = lanes[(unit + unit // 7) % len(lanes)]
        location = f"at.{lane}"
        needed = [location] if location in work.fact_keys else []
        work.do(
            f"move the {lane} lane on", f"{lane}.depot" if unit % 2 else f"{lane}.stamp", *needed,
            gives={location: code(rng)}, noted=f"lanes/{lane}.md",
        )  # fmt: skip
    return work.draft(
        "Move four lanes of freight in turn",
        "Each unit moves one lane on: it needs where that lane stands, and gives where it stands then; "
        "`lanes/LANE.md` has it as well. It also needs one of the two facts in the lane's document.",
    )


FAMILY = WorldFamily(build, hurts=("letta", "notes", "memory_dir", "rag"), fleeting=True)
