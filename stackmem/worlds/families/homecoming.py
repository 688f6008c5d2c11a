"""``homecoming``: the work begins with one document, goes through others for long, and comes back to the first.

The trap: the facts of the beginning are long out of sight when they are needed again, in every unit to the end.
"""

from __future__ import annotations

from random import Random

from stackmem.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, shares

_CLAUSES = ("term", "notice", "rate", "venue", "cap", "party", "escrow", "renewal", "language")
_PLACES = ("billing", "portal", "archive")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    contract = [f"contract.{clause}" for clause in _CLAUSES[: size.share(1, 2, len(_CLAUSES), of=0.15)]]
    work.read(rng, size, "docs/contract.md", "The contract", {key: code(rng) for key in contract}, 2_500)
    first, *middle, last = shares(units, (3, *((4,) * max(1, min(len(_PLACES), size.horizon // 20))), 6))
    for at in range(first):
        work.do(f"draft clause {at + 1}", contract[2 * at % len(contract)], contract[(2 * at + 1) % len(contract)])
    for place, length in zip(_PLACES, middle, strict=False):
        keys = [f"{place}.{item}" for item in ("path", "queue")]
        work.read(rng, size, f"docs/{place}.md", f"The {place}", {key: code(rng) for key in keys})
        for at in range(length):
            work.do(f"adapt the {place}, part {at + 1}", keys[at % 2])
    for at in range(last):
        work.do(f"check clause {at + 1}", contract[at % len(contract)], contract[(at + 2) % len(contract)])
    return work.draft(
        "Carry a new contract through the systems",
        "The first units draft clauses from `docs/contract.md`, the next adapt one system after the other, each from "
        "its own document, and the last check every clause against the contract again. Nothing changes.",
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag", "mask"))
