"""``conflict``: a handbook gives one value and a later unit finds another; the later one counts, without a reminder.

The trap: the handbook keeps the old value. An agent that reads it again, or trusts an early note, is silently wrong.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.lab.worlds.prose import document

HANDBOOK, DECISIONS = "docs/tariff-handbook.md", "docs/decisions.md"
_CLASSES = (
    "household", "farm", "bakery", "school", "clinic", "hotel", "port", "foundry", "laundry", "cinema", "depot",
    "nursery", "garage", "museum", "brewery", "sawmill",
)  # fmt: skip
_WORK = ("bill", "credit", "quote", "review", "renew", "estimate")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    classes = rng.sample(_CLASSES, size.share(1, 3, len(_CLASSES), of=0.25))
    sections = []
    for name in classes:
        value = _rate(rng)
        facts.tell(f"rate.{name}", value, f"read {HANDBOOK}")
        sections.append((f"Rate of the class {name}", [f"rate.{name} = {value}"]))
    handbook = document("Tariff handbook, third edition", rng, sections, size.chars(900))
    decided: dict[str, str] = {}
    work: list[Unit] = []
    order: list[str] = []
    every = max(3, min(8, units // 3))  # units from one finding to the next
    for unit in range(1, units + 1):
        if not order:
            order = rng.sample(classes, len(classes))
        name = order.pop()
        needs = facts.need(unit, f"rate.{name}")
        description = f"{rng.choice(_WORK)} account {rng.randrange(10_000, 99_999)}, class {name}"
        says: tuple[str, ...] = ()
        gives: tuple[str, ...] = ()
        puts: dict[str, str] = {}
        if unit % every == every // 2 and unit < units:
            rate_class = rng.choice(classes)
            key, value = f"rate.{rate_class}", _rate(rng, facts.value(f"rate.{rate_class}"))
            decided[key] = f"{key} = {value} @ {unit}"
            says, gives = (decided[key],), (key,)
            puts[DECISIONS] = _decisions(decided)
            facts.tell(key, value, f"read {DECISIONS}", unit + 1)
        work.append(Unit(description, needs, says, gives, puts))
    return WorldDraft(
        title="Bill the accounts of a utility under a tariff in dispute",
        text=(
            f"Each unit bills one account and needs the rate of its class. `{HANDBOOK}` gives the rates as they were "
            "printed. In the course of the work some units find another rate: their output says so with the unit's "
            f"number after an `@`, and `{DECISIONS}` collects such findings. The latest finding holds, for all units "
            "after it; the handbook is never corrected. Values are not checked when they are given; whether they "
            "held is judged at the end."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files={HANDBOOK: handbook, DECISIONS: _decisions({})},
        silent=True,
    )


def _decisions(decided: dict[str, str]) -> str:
    lines = "".join(f"- {decided[key]}\n" for key in sorted(decided)) or "None so far.\n"
    return f"# Findings that overrule the handbook\n\n{lines}"


def _rate(rng: Random, other: str = "") -> str:
    """Return a rate that differs from ``other``."""
    while (value := f"0.{rng.randrange(1000, 9999)}") == other:
        pass
    return value


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag", "mask", "boundary"))
