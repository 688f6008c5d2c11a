"""``checklist``: a list of values found by trial is needed as a whole, at long intervals.

The trap: between two inspections none of the values is needed, and each inspection needs all of them.
"""

from __future__ import annotations

from random import Random

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code, plant

_RULES = ("valve", "sensor", "brake", "pump", "relief", "fuse")
_GRADES = ("a-1", "b-2", "c-3", "d-4", "e-5", "f-6")
_EVERY = 25  # units from one inspection to the next


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work, probes = UnitList(), dict[str, str]()
    rules = [f"passes.{rule}" for rule in _RULES[: size.share(5.5, 1, len(_RULES), of=0.35)]]
    for key in rules:
        path = f"docs/{key.partition('.')[2]}.md"
        work.files[path], probes[key] = plant(rng, size, work.facts, key, _GRADES, path, f"Inspecting: {key}")
    line = {f"line.{item}": code(rng) for item in ("belt", "shift", "crew")}
    work.read(rng, size, "docs/line.md", "The line", line)
    every = max(2, min(_EVERY, units // 3))
    for unit in range(1, units + 1):
        if unit % every == 1:
            work.do(f"inspection before lot {unit}", *rules)
        else:
            work.do(f"run lot {unit}", list(line)[unit % 3])
    return work.draft(
        "Run a line with inspections",
        f"Each unit runs a lot and needs a fact of `docs/line.md`. Every {every} units there is an inspection instead: "
        "it needs the grade at which each part passes, which only a trial tells; `docs/PART.md` lists grades.",
        probes=probes,
    )


FAMILY = WorldFamily(build, hurts=("window", "truncate", "rag"))
