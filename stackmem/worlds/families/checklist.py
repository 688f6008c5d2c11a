"""``checklist``: every unit needs many of the same facts.

The trap: no turn may go by without them, so a memory that looks each of them up pays a call a fact, again and again.
"""

from __future__ import annotations

from random import Random

from stackmem.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code

_RULES = ("brand", "tone", "legal", "units", "currency", "locale", "font", "margin", "index", "license", "paper", "ink")
_EACH = 6


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    rules = [f"style.{rule}" for rule in _RULES]
    for number, part in enumerate((rules[:6], rules[6:]), 1):
        work.read(rng, size, f"docs/style-{number}.md", f"House style, part {number}", {key: code(rng) for key in part})
    for unit in range(1, units + 1):
        shift = unit * 5
        work.do(f"set page {unit}", *(rules[(shift + at) % len(rules)] for at in range(_EACH)))
    return work.draft(
        "Set the pages of a handbook",
        f"Each unit sets one page and names {_EACH} rules of the house style, which two documents under `docs/` hold. "
        "The rules do not change.",
    )


FAMILY = WorldFamily(build, hurts=("window", "rag", "mem1", "isolated"))
