"""Worlds for tests: created once each, and played in memory with a changed value or command."""

from collections.abc import Callable
from functools import lru_cache

from stackmem.lab.worlds import WORLDS, design
from stackmem.lab.worlds.folder import Made, answers
from stackmem.run.in_memory import PROGRAM
from stackmem.run.tasks import work
from stackmem.workspace.memory import MemoryWorkspace

FAMILIES = tuple(WORLDS)
SILENT = ("moving_target", "conflict")
LASTING = tuple(name for name, family in WORLDS.items() if not family.fleeting)
VISIBLE = tuple(name for name in FAMILIES if name not in SILENT)
SHOWN = 32_768


@lru_cache(maxsize=512)
def made(family: str, horizon: int = 60, seed: int = 7, noise: float = 1.0) -> Made:
    return design(family, seed, horizon, noise)


def opened(world: Made) -> MemoryWorkspace:
    return MemoryWorkspace(world.files, "/workspace", PROGRAM)


def do(unit: int, values: dict[str, str]) -> str:
    return " ".join([f"./work do {unit}", *(f"{key}={value}" for key, value in values.items())])


def right(world: Made, unit: int) -> dict[str, str]:
    """Return the value that the unit needs."""
    return {need.key: need.value for need in world.world.units[unit - 1].needs}


def played(
    world: Made, give: Callable[[int, dict[str, str]], dict[str, str]] = lambda _, values: values
) -> tuple[MemoryWorkspace, list[int]]:
    """Do every unit in order with the values that ``give`` returns for the right ones; return the refused units."""
    workspace, refused = opened(world), []
    for unit in range(1, len(world.world.units) + 1):
        if workspace.run_command(do(unit, give(unit, right(world, unit))), 10, SHOWN).failed:
            refused.append(unit)
            workspace.run_command(do(unit, right(world, unit)), 10, SHOWN)
    return workspace, refused


def reward(world: Made, workspace: MemoryWorkspace) -> float:
    return work.verdict(workspace.files, answers(world))[0]
