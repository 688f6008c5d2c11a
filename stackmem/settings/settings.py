"""The settings of a run, each with its source.

Rule 1: The precedence is: flag, variable, project file, user file, task, default. The first that is set counts.
Rule 2: Every source is checked completely, including values that another source overrides.
Rule 3: A project file and a task may set only what ``options.py`` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.errors import UsageError

from .option_values import ValuePlace, read_value
from .options import NOT_SETTINGS, OPTIONS, PREFIX, TASK_OPTIONS, suggestion
from .settings_files import SettingsFile, project_file, user_file, user_path

Layer = Literal["flag", "variable", "project", "user", "task", "default"]


class Settings(Struct, frozen=True):
    """Settings of a run; see options.py for their meaning. Paths are absolute."""

    model: str | None = None
    strategy: str = "adaptive"
    isolation: str = "auto"
    network: Literal["none", "list", "host"] = "none"
    allow: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    check: str | None = None
    check_files: Literal["left", "settings", "tests"] = "settings"
    include: tuple[str, ...] = ()
    git: Literal["read", "none"] = "read"
    instructions: str | None = "auto"
    skills: Literal["auto", "off"] = "auto"
    learn: Literal["off", "on"] = "off"
    programs: tuple[str, ...] = ()
    extra_tools: tuple[str, ...] = ()
    layer: str = "auto"
    runs_dir: Path | None = None
    sandbox_dir: Path | None = None
    max_steps: int | None = 200
    max_usd: float | None = 5.0
    max_tokens: int | None = None
    max_seconds: float | None = None
    command_seconds: float = 30.0
    prompt: Path | None = None
    profile: Path | None = None
    base_url: str | None = None
    window_tokens: int | None = None
    size: str = "auto"
    price: str | None = None
    temperature: str | None = None
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    service_tier: str | None = None
    headers: tuple[str, ...] = ()
    text_calls: Literal["auto", "prompt", "off"] = "auto"
    vision: Literal["auto", "on", "off"] = "auto"
    call_schema: Literal["auto", "on", "off"] = "auto"
    seed: int | None = None
    otel: str | None = None
    apply: bool = False
    yes: bool = False
    heap: str | None = None
    heap_chars: int = 10_000
    heap_chunks: int = 64
    depth: int = 5
    checkpoints: Literal["auto", "on", "off"] = "auto"
    read_calls: Literal["one", "many"] = "one"
    parallel_frames: int = 0
    jobs: Literal["auto", "on", "off"] = "auto"
    upkeep: Literal["off", "on"] = "off"
    literal_mib: int = 10
    fsync: Literal["step", "frame", "none"] = "step"

    @property
    def budgets(self) -> Budgets:
        return Budgets(depth=self.depth, heap_chars=self.heap_chars, heap_chunks=self.heap_chunks)


class Value(Struct, frozen=True):
    """A setting with its source."""

    name: str
    value: Any
    # for example ``--max-steps``, ``STACKMEM_MAX_STEPS``, ``stackmem.toml:3``, ``task.toml`` or ``default``
    source: str
    layer: Layer


class Resolved(Struct, frozen=True):
    """The effective settings, and their values in the order of the options."""

    settings: Settings
    values: tuple[Value, ...]

    def value(self, name: str) -> Value:
        return next(value for value in self.values if value.name == name)

    def is_given(self, name: str) -> bool:
        """Return whether the value comes from anything but the default."""
        return self.value(name).layer != "default"

    def is_chosen(self, name: str) -> bool:
        """Return whether the user or a configuration file set the value, not the task or the default."""
        return self.value(name).layer not in {"task", "default"}


def resolve(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    cwd: Path,
    task: Mapping[str, object] = MappingProxyType({}),
    task_source: str = "task.toml",
) -> Resolved:
    """Return the effective settings.

    Raise UsageError if a source has an unknown name or an invalid value, or may not set this setting.

    Args:
        flags: Maps option names to a text, value or list of texts; None and an empty list mean not given.
        cwd: The user's working directory; absolute.
        task: Maps option names to values; None means not set.
        task_source: The file with the task's settings; texts are converted unless it is ``task.toml``.
    """
    home = environ.get("HOME", "")
    project = project_file(cwd, home)
    path = user_path(environ)
    own = user_file(path, cwd, home) if path else None
    layers = (
        _from_flags(flags, cwd, home),
        _from_variables(environ, cwd, home),
        _from_file(project, "project", home),
        _from_file(own, "user", home),
        _from_task(task, cwd, home, task_source),
    )
    by_name: dict[str, Value] = {}
    for layer in layers:
        for value in list(layer):
            by_name.setdefault(value.name, value)
    values = tuple(
        by_name.get(name) or Value(name, option.default, "default", "default") for name, option in OPTIONS.items()
    )
    return Resolved(Settings(**{value.name: value.value for value in values}), values)


def _from_flags(flags: Mapping[str, object], cwd: Path, home: str) -> Iterator[Value]:
    for name, raw in flags.items():
        if name not in OPTIONS:
            raise UsageError(f"no setting {name!a}; {suggestion(name, OPTIONS)}")
        if raw is None or raw in ([], ()):
            continue
        option = OPTIONS[name]
        yield Value(name, read_value(option, raw, ValuePlace(option.flag, folder=cwd, home=home)), option.flag, "flag")


def _from_variables(environ: Mapping[str, str], cwd: Path, home: str) -> Iterator[Value]:
    by_variable = {option.variable: option for option in OPTIONS.values()}
    for variable, raw in environ.items():
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable not in by_variable:
            raise UsageError(
                f"unknown variable {variable[:60]!a}; unset it, or rename it ({suggestion(variable, by_variable)})"
            )
        option = by_variable[variable]
        origin = ValuePlace(variable, folder=cwd, home=home, split=option.separator)
        yield Value(option.name, read_value(option, raw, origin), variable, "variable")


def _from_file(file: SettingsFile | None, layer: Literal["project", "user"], home: str) -> Iterator[Value]:
    if file is None:
        return
    for key, raw in file.values.items():
        source = file.location_of(key)
        origin = ValuePlace(source, folder=file.path.parent, home=home, key=key, textual=False)
        yield Value(key, read_value(OPTIONS[key], raw, origin), source, layer)


def _from_task(task: Mapping[str, object], cwd: Path, home: str, source: str) -> Iterator[Value]:
    for name, raw in task.items():
        if name not in TASK_OPTIONS:
            raise UsageError(f"{source}: {name[:60]!a} cannot be set by a task; {suggestion(name, TASK_OPTIONS)}")
        if raw is not None:
            origin = ValuePlace(source, folder=cwd, home=home, key=name, textual=source != "task.toml")
            yield Value(name, read_value(OPTIONS[name], raw, origin), source, "task")
