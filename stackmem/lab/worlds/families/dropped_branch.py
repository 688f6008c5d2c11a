"""``dropped_branch``: attempts that are abandoned one after the other, with everything found out for them.

The trap: each step finds out something for its attempt. Once the attempt is dropped, all of that is useless, and a
memory that wrote it down has paid for it and keeps paying.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, plant, shares

_TRUNK = ("release", "schema", "mirror", "owner")
_DRIVERS = ("odbc", "jdbc", "native", "proxy", "bulk", "stream")
_DISCOVERIES = ("table", "cursor", "charset", "grant", "index", "buffer", "locale", "view")
_WEIGHTS = (5, 2, 9, 3, 6, 2, 12, 4)


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, probes = UnitList(), dict[str, str]()
    trunk = [f"trunk.{item}" for item in _TRUNK[: size.share(1, 1, len(_TRUNK), of=0.1)]]
    work.read(rng, size, "docs/trunk.md", "What every attempt builds on", {key: code(rng) for key in trunk})
    attempts = shares(units, _WEIGHTS[: max(1, size.horizon // 14)])
    for number, length in enumerate(attempts, 1):
        driver, path = f"attempt.driver-{number}", f"attempts/{number}.md"
        text, probes[driver] = plant(rng, size, work.facts, driver, _DRIVERS, path, f"Attempt {number}")
        work.files[path] = text
        discoveries: list[str] = []
        for at in range(length):
            is_dropped = at == length - 1 and number < len(attempts)
            needed = [rng.choice(discoveries)] if discoveries else []
            key = f"attempt.{_DISCOVERIES[at % len(_DISCOVERIES)]}-{number}"
            gives = {} if is_dropped else {key: code(rng)}
            discoveries = list(dict.fromkeys([*discoveries, *gives]))
            work.do(
                f"attempt {number}, step {at + 1}", driver, trunk[at % len(trunk)], *needed, gives=gives,
                noted=f"attempts/{number}-found.md" if gives else "", changed="attempt" if is_dropped else "",
            )  # fmt: skip
    return work.draft(
        "Port an importer, attempt by attempt",
        "Each unit is a step of an attempt. It needs the driver that works for the attempt, which only a trial tells, "
        "a fact that all attempts share, and something that an earlier step of the attempt found out; "
        "`attempts/NUMBER-found.md` has that as well. The last step of an attempt says `changed attempt @ UNIT`: it "
        "is dropped, and nothing that was found out for it is needed again.",
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("letta", "notes", "memory_dir"), fleeting=True)
