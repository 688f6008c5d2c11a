"""A suite: a bench written down as TOML, with the names of what is compared; flags go over it.

::

    about = "What the index costs where it stands"      # shown, nothing more
    worlds = ["spec_map", "env_trap"]                   # or "all"
    tasks = ["calculator", "./my-task"]                 # as seen from the suite's folder
    strategies = ["full", "stackheap:index=tail"]       # or "all"
    models = ["sim/bounded-reader"]
    trials = 3
    horizons = [60, 300]
    noise = [1]
    price = "claude-sonnet-5-5"
    latency_seconds = 10
    session = "frame"                                   # a world's requests are asked for by a person
    pause_seconds = 120                                 # before each of them, in the bill
    keep_traces = "all"
    agent = "mini -m {provider}/{model} -t {instruction}" # an agent that is not ours works on the tasks

    [settings]                                          # any option of a run, spelled with _
    isolation = "memory"

    [[variants]]                                        # a strategy under settings of its own
    name = "heap of 2,000"
    strategy = "stackheap"
    heap_chars = 2_000
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from stackmem.core.strict_json import parse_toml
from stackmem.errors import UsageError
from stackmem.foreign.files import read_start
from stackmem.settings.option_values import ValuePlace, read_value
from stackmem.settings.options import OPTIONS, suggestion

from .plan import Keep, SessionKind, Variant

_NOT_OURS = frozenset(
    {"model", "strategy", "runs_dir", "sandbox_dir", "apply", "yes", "include", "git", "check", "check_files", "seed"}
)

SETTINGS = tuple(name for name in OPTIONS if name not in _NOT_OURS)
"""The options of a run that a bench may set; the others it sets itself, or they are for folders of one's own."""

LARGEST_BYTES = 1_000_000


class SuiteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite or a command asks for; None is not said."""

    about: str = ""
    # worlds, strategies: names, ``all`` among them for every one
    worlds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # names or folders; those of a suite are absolute where they are folders
    strategies: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    models: tuple[str, ...] = ()
    trials: int | None = None
    horizons: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    price: str | None = None
    latency_seconds: float | None = None
    pause_seconds: float | None = None
    session: SessionKind | None = None
    keep_traces: Keep | None = None
    agent: str = ""  # the command of an agent that is not ours
    settings: dict[str, Any] = field(default_factory=dict)


def over(flags: SuiteRequest, suite: SuiteRequest) -> SuiteRequest:
    """What was asked for by both: a flag replaces what the suite says, settings one by one.

    A strategy that is named by a flag replaces the suite's variants too, and a task its worlds.
    """
    said = {name: value for name, value in msgspec.structs.asdict(flags).items() if value not in (None, (), {}, "")}
    if "strategies" in said:
        said["variants"] = ()
    if said.keys() & {"worlds", "tasks"}:
        said = {"worlds": (), "tasks": (), **said}
    said["settings"] = {**suite.settings, **flags.settings}
    return msgspec.structs.replace(suite, **said)


def read_suite(path: Path, home: str) -> SuiteRequest:
    """The suite in a file."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would wait for whoever writes to it
            raise UsageError(f"the suite {path} is no regular file; name a TOML file")
        raw = read_start(path, LARGEST_BYTES + 1)
        if len(raw) > LARGEST_BYTES:
            raise UsageError(f"{path} has {len(raw):,} bytes; a suite has at most {LARGEST_BYTES:,}")
        table = parse_toml(raw.decode())
    except OSError as error:
        raise UsageError(f"the suite {path} cannot be read ({error.strerror}); name a TOML file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the suite {path} is no TOML: {error}") from error
    known = SuiteRequest.__struct_fields__
    for key in table:
        if key not in known:
            raise UsageError(f"{path.name}: {key[:60]!a} is no key of a suite; {suggestion(key, known)}")
    for key in ("worlds", "tasks", "strategies", "models"):
        if isinstance(table.get(key), str):
            table[key] = [table[key]]
    table["variants"] = [_variant(entry, path, home) for entry in _tables(table, "variants", path)]
    table["settings"] = _settings(table.get("settings", {}), path, home, "settings")
    try:
        asked = msgspec.convert(table, SuiteRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path.name}: {error}; docs/bench.md shows a whole suite") from error
    return msgspec.structs.replace(asked, tasks=tuple(_from(path, task) for task in asked.tasks))


def read_setting(name: str, raw: Any, place: ValuePlace) -> Any:
    """The value of a run's option as a plan keeps it: checked, and such as JSON can hold."""
    if name not in SETTINGS:
        raise UsageError(f"{place.source}: {name[:60]!a} is no setting of a bench; {suggestion(name, SETTINGS)}")
    value = read_value(OPTIONS[name], raw, place)
    if value is None:
        return "none"
    return str(value) if isinstance(value, Path) else value


def _settings(given: Any, path: Path, home: str, key: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{path.name}: {key} is no table; write [{key}] above its lines")
    folder = path.parent.absolute()
    return {
        name: read_setting(name, raw, ValuePlace(path.name, folder=folder, home=home, key=name, textual=False))
        for name, raw in given.items()
    }


def _tables(table: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UsageError(f"{path.name}: {key} are tables; write [[{key}]] above each of them")
    return found


def _variant(entry: dict[str, Any], path: Path, home: str) -> dict[str, Any]:
    strategy = entry.get("strategy")
    if not isinstance(strategy, str):
        raise UsageError(f'{path.name}: a variant has no strategy; write strategy = "NAME" under [[variants]]')
    own = {name: value for name, value in entry.items() if name not in ("name", "strategy", "session")}
    name = entry.get("name", strategy)
    if (own or "session" in entry) and name == strategy:
        raise UsageError(f"{path.name}: the variant of {strategy!r} with settings of its own needs a name")
    variant = {"name": name, "strategy": strategy, "settings": _settings(own, path, home, "variants")}
    return {**variant, "session": entry["session"]} if "session" in entry else variant


def _from(path: Path, task: str) -> str:
    """A folder that stands beside the suite, as seen from anywhere; a mere name is looked for where tasks are."""
    there = path.parent.absolute() / task
    return str(there) if "/" in task or there.is_dir() else task
