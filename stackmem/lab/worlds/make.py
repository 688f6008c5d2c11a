"""Generate worlds: the same arguments give the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Callable
from functools import partial
from inspect import getdoc
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.foreign.files import read_regular, read_regular_text
from stackmem.run.in_memory import program_text
from stackmem.run.plugins.loading import PluginTable, fits, load_plugins, open_table
from stackmem.run.tasks import work
from stackmem.workspace.tree import remove_tree

from .families import (
    assembly,
    checklist,
    conflict,
    dead_ends,
    deep_deps,
    distractors,
    dropped_branch,
    env_trap,
    history,
    homecoming,
    interleave,
    inventory,
    ledger,
    log_haystack,
    log_stream,
    moving_target,
    prospecting,
    relay,
    reversal,
    spec_map,
    survey,
    uneven,
    vigil,
    workday,
)
from .folder import Made, task_files
from .kernel import Build, FactRow, Need, Size, Unit, WorldDraft, WorldFamily
from .oracle import Oracle
from .prose import document

WORLDS: dict[str, WorldFamily] = {
    "env_trap": env_trap.FAMILY,
    "spec_map": spec_map.FAMILY,
    "dead_ends": dead_ends.FAMILY,
    "moving_target": moving_target.FAMILY,
    "deep_deps": deep_deps.FAMILY,
    "log_haystack": log_haystack.FAMILY,
    "conflict": conflict.FAMILY,
    "ledger": ledger.FAMILY,
    "uneven": uneven.FAMILY,
    "inventory": inventory.FAMILY,
    "reversal": reversal.FAMILY,
    "dropped_branch": dropped_branch.FAMILY,
    "homecoming": homecoming.FAMILY,
    "distractors": distractors.FAMILY,
    "log_stream": log_stream.FAMILY,
    "relay": relay.FAMILY,
    "checklist": checklist.FAMILY,
    "assembly": assembly.FAMILY,
    "interleave": interleave.FAMILY,
    "survey": survey.FAMILY,
    "vigil": vigil.FAMILY,
    "prospecting": prospecting.FAMILY,
    "history": history.FAMILY,
    "workday": workday.FAMILY,
}

SHIPPED = frozenset(WORLDS)
"""The families in this package. Plug-ins can add more."""

open_table("worlds", PluginTable("world", WORLDS, fits(WorldFamily, "build"), re.compile(r"[a-z][a-z0-9_]{0,63}")))

HORIZONS = (10, 2_000)
MAX_NOISE = 8.0
_UNIT_NOISE = 1_500  # characters in the output of a unit at noise 1
_MORE = (("site.shift", "docs/handover.md", "Handover"), ("site.contact", "docs/contacts.md", "Contacts"))


class _Try(Struct, frozen=True):
    world: WorldDraft
    plan: str
    oracle: Oracle

    @property
    def steps(self) -> int:
        return len(self.oracle.calls)


def design(family: str, seed: int, horizon: int, noise: float, repository: Path | None = None) -> Made:
    """Return a world whose oracle needs ``horizon`` calls, with a tolerance of 2 %.

    ``repository`` is the repository whose commits ``history`` uses; None is the one of this project. Raise UsageError
    if the family is unknown, or a parameter is out of range.
    """
    _refuse(family, seed, horizon, noise)
    size, build = Size(horizon, noise), _builder(family, repository)
    salt = hashlib.sha256(f"{family} {seed} {horizon} {noise:g}".encode()).hexdigest()[:16]

    def attempt(units: int, more: int) -> _Try:
        world: object = build(Random(f"{family} {seed}"), size, units)  # noqa: S311 - reproducible on purpose
        if not isinstance(world, WorldDraft):
            wrong = f"build of the world {family} must return a WorldDraft, not {type(world).__name__}"
            raise UsageError(f"{wrong}; fix or uninstall the package that provides it")
        for key, path, title in _MORE[:more]:
            world = _with_document(world, Random(f"{key} {seed}"), size, key, path, title)  # noqa: S311
        plan = work.sealed(_plan(world, salt, size.chars(_UNIT_NOISE)))
        oracle = Oracle(_workspace(world, plan), units)
        oracle.play()
        return _Try(world, plan, oracle)

    best = _fitted(attempt, horizon)
    if abs(best.steps - horizon) > horizon * 0.02:
        raise UsageError(f"{family} cannot be made with a horizon of {horizon} at noise {noise:g}; use less noise")
    return Made(
        family=family,
        seed=seed,
        horizon=horizon,
        noise=noise,
        world=best.world,
        salt=salt,
        files=_workspace(best.world, best.plan),
        calls=tuple(best.oracle.calls),
        commands=tuple(best.oracle.commands),
    )


def make(family: str, seed: int, horizon: int, noise: float, folder: Path, repository: Path | None = None) -> Path:
    """Write a world as a task folder, atomically. ``repository`` is passed to ``design``."""
    world = design(family, seed, horizon, noise, repository)
    folder = folder.absolute()
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty; name another folder with -o, or empty it")
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
        try:
            for path, text, mode in task_files(world):
                target = fresh / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
                target.chmod(mode)
            os.rename(fresh, folder)  # noqa: PTH104 - also replaces an empty folder
        finally:
            remove_tree(fresh)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror}); name another folder with -o") from error
    return folder


def make_task(family: str, seed: int, horizon: int, noise: float, folder: Path) -> Path:
    """Like ``make``, but keep a folder that already contains this exact world.

    Another process may have written it in the meantime.
    """
    parameters = (family, seed, horizon, noise)
    if _holds(folder, parameters):
        return folder
    try:
        return make(family, seed, horizon, noise, folder)
    except UsageError:
        if _holds(folder, parameters):
            return folder
        raise


def _holds(folder: Path, parameters: tuple[str, int, int, float]) -> bool:
    """Return whether the folder contains this world byte for byte as this version generates it."""
    try:
        stored = manifest(folder)
        if tuple(stored.get(name) for name in ("family", "seed", "horizon", "noise")) != parameters:
            return False
        files = task_files(design(*parameters))
        return all(read_regular_text(folder / path) == text for path, text, _ in files)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError):
        return False


def manifest(folder: Path) -> dict[str, Any]:
    """Read a world's ``tests/manifest.json``."""
    content: dict[str, Any] = msgspec.json.decode(read_regular(folder / "tests" / "manifest.json"))
    return content


def families() -> tuple[str, ...]:
    load_plugins()
    return tuple(WORLDS)


def tasks() -> tuple[str, ...]:
    """Return the families that ``all`` means: those that are a single task. ``workday`` is a series of requests."""
    return tuple(name for name in families() if name != "workday")


def description(family: str) -> str:
    """Return one sentence about a family.

    It is the first line of its ``build`` or module docstring, without a prefix that ends in a colon.
    """
    build = WORLDS[family].build
    module = sys.modules.get(getattr(build, "__module__", ""))
    text = (getdoc(build) or getattr(module, "__doc__", "") or "").partition("\n")[0]
    return text.partition(": ")[2] or text


def _refuse(family: str, seed: int, horizon: int, noise: float) -> None:
    load_plugins()  # a worker process may not have loaded any
    if family not in WORLDS:
        raise UsageError(f"no world {family[:60]!a}; known: {', '.join(WORLDS)}")
    if not 0 <= seed < 1 << 63:
        raise UsageError(f"the seed {seed} is out of range; use a whole number from 0")
    low, high = HORIZONS
    if not low <= horizon <= high:
        raise UsageError(f"invalid horizon {horizon}; use {low} to {high:,} calls")
    if not 0 <= noise <= MAX_NOISE:
        raise UsageError(f"invalid noise {noise:g}; use 0 to {MAX_NOISE:g}")


def _builder(family: str, repository: Path | None) -> Build:
    if repository is None:
        return WORLDS[family].build
    if family != "history":
        raise UsageError(f"--repository is only for the family history; {family} needs only a seed")
    return partial(history.build_from, history.commits_of(repository))


def _fitted(attempt: Callable[[int, int], _Try], horizon: int) -> _Try:
    """Return the attempt whose oracle is closest to the horizon, adjusting the number of units in each round."""
    units, seen, best = max(1, int(horizon * 0.7)), set[int](), None
    while units not in seen:
        seen.add(units)
        tried = attempt(units, 0)
        if best is None or abs(tried.steps - horizon) < abs(best.steps - horizon):
            best = tried
        if tried.steps == horizon:
            return tried
        gap = horizon - tried.steps
        units = max(1, units + (round(gap / 1.1) or (1 if gap > 0 else -1)))
    # The search above can alternate around the horizon. Extra documents fill the gap between two numbers of units.
    near = len(best.world.units) if best else 1
    for units in sorted(range(max(1, near - 5), near + 6), key=lambda each: abs(each - near)):
        for more in range(len(_MORE) + 1):
            tried = attempt(units, more)
            if tried.steps == horizon:
                return tried
            if best is None or abs(tried.steps - horizon) < abs(best.steps - horizon):
                best = tried
    assert best is not None  # noqa: S101 - the first attempt sets it
    return best


def _with_document(world: WorldDraft, rng: Random, size: Size, key: str, path: str, title: str) -> WorldDraft:
    """Return the world with one more document to read, for a horizon that lies between two numbers of units."""
    value = f"{rng.choice(('harbour', 'tower', 'yard'))}-{rng.randrange(10, 99)}"
    need = Need(key, value, f"read {path}")
    every = range(0, len(world.units), 5)
    units = tuple(
        replace(unit, needs=(*unit.needs, need)) if at in every else unit for at, unit in enumerate(world.units)
    )
    row = FactRow(key, value, need.way, 1, tuple(at + 1 for at in every), (1, len(units)))
    text = document(title, rng, [("Today", [f"{key} = {value}"])], size.chars(300))
    return replace(world, units=units, facts=(*world.facts, row), files={**world.files, path: text})


def _plan(world: WorldDraft, salt: str, noise: int) -> dict[str, object]:
    """Return what ``./work`` knows of the world. Correct values appear only as digests."""
    return {
        "salt": salt,
        "silent": world.silent,
        "audit": world.audit,
        "opening": list(world.opening),
        "noise": noise,
        "units": [_unit(unit, salt) for unit in world.units],
        "probes": {key: work.digest(salt, key, value) for key, value in world.probes.items()},
        "logs": {
            str(number): [[page.topic, page.chars, list(page.lines)] for page in pages]
            for number, pages in enumerate(world.logs, 1)
        },
    }


def _unit(unit: Unit, salt: str) -> dict[str, object]:
    needs = ", ".join(f"{need.key} <{need.way}>" for need in unit.needs) or "nothing"
    return {
        "plan": f"needs {needs}" + (f"; gives {', '.join(unit.gives)}" if unit.gives else ""),
        "keys": {need.key: work.digest(salt, need.key, need.value) for need in unit.needs},
        "says": list(unit.says),
        "puts": unit.puts,
        "about": unit.description,
    }


def _workspace(world: WorldDraft, plan: str) -> dict[str, str]:
    return {**world.files, "work": program_text(), work.PLAN: plan, work.JOURNAL: ""}
