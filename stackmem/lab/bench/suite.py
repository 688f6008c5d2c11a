"""A suite: a bench written as TOML, with names for what it compares. Flags override it.

::

    about = "Cost of the index by its position"         # only for display

    worlds = ["spec_map", "env_trap"]                   # or "all"
    tasks = ["calculator", "./my-task"]                 # relative to the suite's folder
    strategies = ["full", "stackheap:index=tail"]       # or "all"
    models = ["sim/bounded-reader"]
    trials = 3
    horizons = [60, 300]
    noise = [1]
    price = "claude-sonnet-5-5"
    latency_seconds = 10
    session = "frame"                                   # a simulated user sends a world's requests
    pause_seconds = 120                                 # before each request, in the bill
    looks = 3                                           # stop after a third of the seeds if all is decided
    decide_on = "bill"                                  # solved, bill or peak
    keep_traces = "all"
    agent = "mini -m {provider}/{model} -t {instruction}" # a foreign agent works on the tasks

    [settings]                                          # any option of a run, spelled with _
    isolation = "memory"

    [[variants]]                                        # a strategy with its own settings
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

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import parse_toml
from stackmem.foreign.files import read_start
from stackmem.settings.option_values import ValuePlace, read_value
from stackmem.settings.options import OPTIONS, suggestion

from .plan import Keep, SessionKind, Variant

_NOT_OURS = frozenset(
    {"model", "strategy", "runs_dir", "sandbox_dir", "apply", "yes", "include", "git", "check", "check_files", "seed"}
)

SETTINGS = tuple(name for name in OPTIONS if name not in _NOT_OURS)
"""The options of a run that a bench accepts. The others are set by the bench itself or apply to user folders."""

MAX_BYTES = 1_000_000


class SuiteRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The values given by a suite or a command; None means not given."""

    description: str = field(default="", name="about")
    # worlds, strategies: names; ``all`` stands for every one
    worlds: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # names or folders; the folders of a suite are absolute
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
    looks: int | None = None
    decide_on: str = ""  # the figure that can end the bench at a look
    keep_traces: Keep | None = None
    agent: str = ""  # the command line of a foreign agent
    settings: dict[str, Any] = field(default_factory=dict)


def merge(flags: SuiteRequest, suite: SuiteRequest) -> SuiteRequest:
    """Merge flags over a suite: a flag replaces the suite's value, and settings are merged one by one.

    A strategy flag also replaces the suite's variants. A task or world flag replaces both its tasks and its worlds.
    """
    values = {name: value for name, value in msgspec.structs.asdict(flags).items() if value not in (None, (), {}, "")}
    if "strategies" in values:
        values["variants"] = ()
    if values.keys() & {"worlds", "tasks"}:
        values = {"worlds": (), "tasks": (), **values}
    values["settings"] = {**suite.settings, **flags.settings}
    return msgspec.structs.replace(suite, **values)


def read_suite(path: Path, home: str) -> SuiteRequest:
    """Read the suite in a file."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block until something writes to it
            raise UsageError(f"the suite {path} is not a regular file; name a TOML file")
        raw = read_start(path, MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{path} has {len(raw):,} bytes; a suite can have at most {MAX_BYTES:,}")
        table = parse_toml(raw.decode())
    except OSError as error:
        raise UsageError(f"the suite {path} cannot be read ({error.strerror}); name a TOML file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"the suite {path} is not valid TOML: {error}") from error
    keys = SuiteRequest.__struct_encode_fields__
    for key in table:
        if key not in keys:
            raise UsageError(f"{path.name}: {key[:60]!a} is not a key of a suite; {suggestion(key, keys)}")
    for key in ("worlds", "tasks", "strategies", "models"):
        if isinstance(table.get(key), str):
            table[key] = [table[key]]
    table["variants"] = [_variant(entry, path, home) for entry in _tables(table, "variants", path)]
    table["settings"] = _settings(table.get("settings", {}), path, home, "settings")
    try:
        request = msgspec.convert(table, SuiteRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path.name}: {error}; docs/bench.md shows a whole suite") from error
    return msgspec.structs.replace(request, tasks=tuple(_from(path, task) for task in request.tasks))


def read_setting(name: str, raw: Any, source: ValuePlace) -> Any:
    """Check the value of a run option and convert it to a form that JSON can store.

    Raise UsageError if a bench does not have this option, or the value is not accepted.
    """
    if name not in SETTINGS:
        raise UsageError(f"{source.source}: {name[:60]!a} is not a setting of a bench; {suggestion(name, SETTINGS)}")
    value = read_value(OPTIONS[name], raw, source)
    if value is None:
        return "none"
    return str(value) if isinstance(value, Path) else value


def _settings(table: Any, path: Path, home: str, key: str) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        raise UsageError(f"{path.name}: {key} is not a table; write [{key}] above its lines")
    folder = path.parent.absolute()
    return {
        name: read_setting(name, raw, ValuePlace(path.name, folder=folder, home=home, key=name, textual=False))
        for name, raw in table.items()
    }


def _tables(table: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path.name}: {key} must be a list of tables; write [[{key}]] above each")
    return entries


def _variant(entry: dict[str, Any], path: Path, home: str) -> dict[str, Any]:
    strategy = entry.get("strategy")
    if not isinstance(strategy, str):
        raise UsageError(f'{path.name}: a variant has no strategy; write strategy = "NAME" under [[variants]]')
    own = {name: value for name, value in entry.items() if name not in ("name", "strategy", "session")}
    name = entry.get("name", strategy)
    if (own or "session" in entry) and name == strategy:
        raise UsageError(f"{path.name}: the variant of {strategy!r} has its own settings, so it needs a name")
    variant = {"name": name, "strategy": strategy, "settings": _settings(own, path, home, "variants")}
    return {**variant, "session": entry["session"]} if "session" in entry else variant


def _from(path: Path, task: str) -> str:
    """Return a task folder next to the suite as an absolute path. A plain name is searched for later."""
    there = path.parent.absolute() / task
    return str(there) if "/" in task or there.is_dir() else task
