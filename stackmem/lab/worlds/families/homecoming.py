"""``homecoming``: the work starts with facts found by trial, goes elsewhere for long, and then needs them again.

The trap: the first facts cost many trials and left the prompt long ago, and then every unit to the end needs them.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, plant, shares

_CLAUSES = ("venue", "escrow", "renewal", "language", "arbiter", "seal")
_FORMS = ("short", "long", "annexed", "by-reference", "bilingual", "notarial")
_PLACES = ("billing", "portal", "archive")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, probes = UnitList(), dict[str, str]()
    contract = [f"contract.{clause}" for clause in _CLAUSES[: size.share(5.5, 1, len(_CLAUSES), of=0.35)]]
    for key in contract:
        path = f"contract/{key.partition('.')[2]}.md"
        work.files[path], probes[key] = plant(rng, size, work.facts, key, _FORMS, path, f"Clause: {key}")
    first, *middle, last = shares(units, (3, *((4,) * max(1, min(len(_PLACES), size.horizon // 20))), 6))
    for at in range(first):
        work.do(f"draft page {at + 1}", contract[2 * at % len(contract)], contract[(2 * at + 1) % len(contract)])
    for location, length in zip(_PLACES, middle, strict=False):
        keys = [f"{location}.{item}" for item in ("path", "queue")]
        work.read(rng, size, f"docs/{location}.md", f"The {location}", {key: code(rng) for key in keys})
        for at in range(length):
            work.do(f"adapt the {location}, part {at + 1}", keys[at % 2])
    for at in range(last):
        work.do(f"check page {at + 1}", contract[at % len(contract)], contract[(at + 2) % len(contract)])
    return work.draft(
        "Carry a new contract through the systems",
        "The first units draft a contract; which form of a clause is accepted, only a trial tells, and "
        "`contract/CLAUSE.md` lists forms. The next adapt one system after the other, each from its own document, and "
        "the last check every page of the contract again. Nothing changes.",
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag"), fleeting=True)
