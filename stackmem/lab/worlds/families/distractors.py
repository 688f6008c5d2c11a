"""``distractors``: a few of very many similar values are needed, and every output contains some that never are.

The trap: a memory that keeps everything that looks like a fact fills up with values that are never needed.
"""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily, code

_NEEDED, _LISTED = 6, 40
_PATH = "docs/endpoints.md"


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    work = UnitList()
    listed = {f"endpoint.api-{number}": f"10.{number}.{rng.randrange(256)}:{rng.randrange(1024, 9999)}"
              for number in range(_LISTED)}  # fmt: skip
    chars = min(500, 28_000 * max(1, size.horizon // 15) // _LISTED)
    work.read(rng, size, _PATH, "Endpoints of the cluster", listed, chars)
    keys = rng.sample(sorted(listed), min(_NEEDED, max(2, size.horizon // 6)))
    for unit in range(1, units + 1):
        work.do(f"roll node {unit}", keys[unit % len(keys)], keys[(unit + 1) % len(keys)])
        statements = tuple(
            f"load.node-{rng.randrange(30)} = {code(rng, 'p50', 'p95', 'p99')} @ {unit}" for _ in range(3)
        )
        work.units[-1] = replace(work.units[-1], says=statements)
    return work.draft(
        "Roll the nodes of a cluster",
        f"Each unit rolls one node and names two endpoints. `{_PATH}` lists {_LISTED} of them; the work needs a few, "
        "the same ones again and again. The outputs tell the load of nodes, which nothing ever needs.",
    )


FAMILY = WorldFamily(build, hurts=("notes", "letta", "memory_dir", "mem1", "agentfold", "truncate"))
