"""``deep_deps``: a tree of sub-tasks, one to six levels deep, whose results siblings and parents need.

The trap: a result appears once, when its sub-task ends, and is needed long after that.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

from stackmem.lab.worlds.kernel import Size, Unit, WorldDraft, WorldFacts, WorldFamily
from stackmem.lab.worlds.prose import document

PATH = "docs/conventions.md"
_RESULTS = 48  # upper limit, so that the number of facts does not grow with the horizon
_CHILDREN = 3
_PARTS = ("adapter", "parser", "schema", "cache", "report", "importer", "planner", "index", "policy", "ledger")
_WORK = ("sketch", "build", "wire", "test", "measure", "review")
_RULES = ("prefix", "branch", "owner", "channel", "budget", "region")


class _Node(Struct):
    """A sub-task. Its own units follow those of its children."""

    name: str
    depth: int
    children: list[_Node]
    result: str = ""


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    facts = WorldFacts()
    rules = list(_RULES)[: size.share(1, 1, len(_RULES), of=0.1)]
    sections = []
    for rule in rules:
        value = f"{rng.choice(('north', 'delta', 'harbour', 'cobalt', 'linden'))}-{rng.randrange(100, 999)}"
        facts.tell(f"house.{rule}", value, f"read {PATH}")
        sections.append((rule.capitalize(), [f"house.{rule} = {value}"]))
    count = max(1, min(_RESULTS, units // 3))
    root = _tree(rng, count, max(1, min(6, count.bit_length())))
    tasks = list(_after_children(root))
    work: list[Unit] = []
    # depth to the result of the last finished sibling, of this task or of one of its ancestors
    before: dict[int, str] = {}
    for at, task in enumerate(tasks):
        last = (at + 1) * units // len(tasks)
        for child in task.children:
            before.pop(child.depth, None)
        results = [*(child.result for child in task.children), *before.values()]
        while len(work) < last:
            unit = len(work) + 1
            inputs = [results[(unit + turn) % len(results)] for turn in range(min(3, len(results)))]
            needs = facts.need(unit, f"house.{rules[unit % len(rules)]}", *inputs)
            description = f"{_WORK[unit % len(_WORK)]} {task.name} (level {task.depth})"
            if unit < last:
                work.append(Unit(description, needs))
                continue
            task.result = f"result.u{unit}"
            value = f"{rng.getrandbits(40):010x}"
            facts.tell(task.result, value, f"unit {unit}", unit + 1)
            work.append(Unit(description, needs, (f"{task.result} = {value}",), (task.result,)))
        before[task.depth] = task.result
    return WorldDraft(
        title="Assemble a product from sub-tasks that build on each other",
        text=(
            "The work is a tree of sub-tasks. The last unit of each gives its result, `result.uK`, an identifier that "
            "the next sub-task of the same parent, all sub-tasks below that one, and the parent itself must pass. "
            "A result appears only once, in the output of that unit. "
            f"`{PATH}` contains the values that every sub-task needs."
        ),
        units=tuple(work),
        facts=facts.rows(units),
        files={PATH: document("House conventions", rng, sections, size.chars(800))},
        extras={"depth": max(task.depth for task in tasks), "sub_tasks": len(tasks)},
    )


def _tree(rng: Random, count: int, depth: int, level: int = 1) -> _Node:
    """Return a tree of about ``count`` tasks with at most ``depth`` levels. The first child is the deepest."""
    task = _Node(f"{rng.choice(_PARTS)}-{rng.randrange(10, 99)}", level, [])
    remaining = count - 1
    branches = min(remaining, _CHILDREN) if depth > 1 else 0
    for branch in range(branches):
        share = remaining if branch == branches - 1 else max(1, remaining * 3 // 5)
        share = min(share, remaining - (branches - branch - 1))
        task.children.append(_tree(rng, share, depth - 1, level + 1))
        remaining -= share
    return task


def _after_children(task: _Node) -> list[_Node]:
    return [*(each for child in task.children for each in _after_children(child)), task]


FAMILY = WorldFamily(build, hurts=("truncate", "rag", "letta"))
