"""``reversal``: values are changed, contradicted, and set back to earlier values.

The trap: the newest of several values counts, and often it is one that an older note calls outdated.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code

_SWITCHES = ("checkout", "search", "mail", "ledger", "quota", "archive")
_LOG = "docs/switches-now.md"


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    keys = [f"switch.{name}" for name in _SWITCHES[: size.share(1, 2, len(_SWITCHES), of=0.2)]]
    first = {key: code(rng, "on", "off", "canary") for key in keys}
    work.read(rng, size, "docs/switches.md", "Feature switches at the start of the week", first)
    for unit in range(1, units + 1):
        first_key, second_key = keys[unit % len(keys)], keys[(unit // 2 + 1) % len(keys)]
        changes = {}
        if unit % 3 == 0 and unit < units:
            moved = rng.choice(keys)
            back = rng.random() < 0.5 and work.facts.value(moved) != first[moved]
            changes = {moved: first[moved] if back else code(rng, "on", "off", "canary")}
        work.do(f"handle ticket {200 + unit}", first_key, second_key, gives=changes, noted=_LOG if changes else "")
    return work.draft(
        "Work the tickets of a week of switches",
        "Each unit handles a ticket and needs two switches as they stand at that moment. `docs/switches.md` has them "
        "as the week began. Some units set one: their output says to what, with the unit's number, and "
        f"`{_LOG}` has the newest of each. About half of the changes set a switch back to where it began.",
    )


FAMILY = WorldFamily(build, hurts=("letta",))
