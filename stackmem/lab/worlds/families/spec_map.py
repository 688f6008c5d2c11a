"""``spec_map``: one long document maps forty fields of an old record, and the whole work needs them.

The trap: reading the document takes several calls, and an agent that did not keep its content reads it again.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.lab.worlds.prose import document

PATH = "docs/field-mapping.md"
_GROUPS = ("customer", "address", "contract", "invoice", "payment", "claim", "vehicle", "agent")
_PARTS = ("id", "status", "opened-on", "owner", "amount", "currency", "branch", "origin", "remark", "version")
_TARGETS = ("KNA1", "ADRC", "VBAK", "VBRK", "BSEG", "ICLCLAIM", "EQUI", "BUT000")
_FORMS = ("char10", "char32", "dec13.2", "date8", "int4", "flag1", "curr15.2", "lang2")
_JOBS = ("load", "check", "convert", "reconcile", "archive", "replay")


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    fields = rng.sample([f"{group}-{part}" for group in _GROUPS for part in _PARTS], size.share(1, 6, 40, of=0.7))
    sections = []
    for field in fields:
        table = _TARGETS[_GROUPS.index(field.partition("-")[0])]
        column = "".join(rng.choice("ABCDEFGHKLMNPRSTUVZ") for _ in range(5))
        value = f"{table}.{column}:{rng.choice(_FORMS)}"
        facts.tell(f"field.{field}", value, f"read {PATH}")
        sections.append((f"{field.replace('-', ' ').capitalize()}", [f"field.{field} = {value}"]))
    # a short run does not have enough steps for a long document
    most = 28_000 * max(1, size.horizon // 15) // len(fields)
    text = document("Field mapping, old claims system to new", rng, sections, min(size.chars(1_700), most))
    work: list[Unit] = []
    waiting: list[str] = []
    for unit in range(1, units + 1):
        if len(waiting) < 2:
            waiting = rng.sample(fields, len(fields))
        first, second = waiting.pop(), waiting.pop()
        description = f"{rng.choice(_JOBS)} batch {unit:04d} by {first} and {second}"
        work.append(Unit(description, facts.need(unit, f"field.{first}", f"field.{second}")))
    return WorldDraft(
        title="Move the claims archive into the new system",
        text=(
            f"Each unit moves one batch of records and names where its two leading fields go. `{PATH}` says so for "
            "every field, as TABLE.COLUMN:FORM; it is long, and nothing in it changes while you work."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files={PATH: text},
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag", "summary", "rolling_summary", "compact", "mem1"))
