"""``assembly``: many independent parts, whose results are all needed together at the very end.

The trap: a result is not needed while the parts are made. At the end all of them are, in unit after unit.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, shares

_PARTS = ("hull", "mast", "keel", "sail", "winch", "rudder", "galley", "bilge", "deck", "cabin", "anchor", "radio")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    parts = _PARTS[: max(1, min(len(_PARTS), size.horizon // 12))]
    *lengths, last = shares(units, (*((1,) * len(parts)), max(1, len(parts) / 2)))
    for part, length in zip(parts, lengths, strict=False):
        keys = [f"{part}.{item}" for item in ("gauge", "grade")]
        work.read(rng, size, f"docs/{part}.md", f"The {part}", {key: code(rng) for key in keys})
        for at in range(length):
            gives = {f"built.{part}": code(rng)} if at == length - 1 else {}
            work.do(f"make the {part}, step {at + 1}", *keys, gives=gives)
    built = [f"built.{part}" for part in parts[: len(lengths)]]
    for at in range(last):
        work.do(f"fit joint {at + 1}", *(built[(at + turn) % len(built)] for turn in range(min(4, len(built)))))
    return work.draft(
        "Build a boat from its parts",
        "Part after part is made from its own document, and the last unit of each tells the number it was built under, "
        "once; it stands nowhere else. The last units fit the parts together and need those numbers, four at a time.",
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "mask", "rag", "boundary"), fleeting=True)
