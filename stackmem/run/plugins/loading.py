"""Plug-ins: installed packages that add strategies, models, isolation levels, worlds, metrics, exporters, commands or
tools.

Rule 1: Only packages in this interpreter's package folders count, never files in the working directory.
Rule 2: A plug-in adds; it never replaces anything.
Rule 3: An unusable plug-in is an error that names its package, so that a run without it is never mistaken for a run
    with it. Only ``doctor`` and ``config`` continue and report it.
Rule 4: If a plug-in's code raises an exception, the message names the plug-in and the line (``blame``).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.neighbors import neighbor
from stackmem.core.strategy import MemoryStrategy
from stackmem.memory import STRATEGIES
from stackmem.models.registry import MODELS, Model, ModelRequest
from stackmem.settings.options import OPTIONS
from stackmem.settings.tools.own_tools import TOOLS, from_function, register
from stackmem.workspace.isolation.launch import Level
from stackmem.workspace.isolation.levels import WORKSPACES
from stackmem.workspace.memory import MemoryWorkspace

from .places import GROUP, any_plugin, ignored_plugins, places

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint  # its import takes longer than that of this module

_WAY_OUT = "fix or uninstall that package"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MODEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}[/:]?")
_COLUMN_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Plugin(Struct, frozen=True):
    """Contents of a plug-in package; each member extends the dict of the same kind.

    Attributes:
        strategies: Maps names to factories, as in ``STRATEGIES``.
        models: Maps full names, or prefixes ending in ``/`` or ``:``, to factories, as in ``MODELS``.
        workspaces: Maps values of ``--isolation`` to factories of the level, as in ``WORKSPACES``; ``auto`` never uses
            them.
        worlds: Maps family names to a ``WorldFamily``, as in ``WORLDS``.
        metrics: Maps column names to a ``Metric``, as in ``METRICS``.
        exporters: Maps values of ``export --format`` to a fold over the records, as in ``EXPORTS``.
        commands: Maps words after ``stackmem`` to a function or an app, as in typer.
        tools: Functions that agents and programs may call. Functions decorated with ``stackmem.tool`` are registered
            anyway.
    """

    strategies: Mapping[str, Callable[[str], MemoryStrategy]] = field(default_factory=dict)
    models: Mapping[str, Callable[[ModelRequest], Model]] = field(default_factory=dict)
    workspaces: Mapping[str, tuple[Callable[[], Level], ...]] = field(default_factory=dict)
    worlds: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    exporters: Mapping[str, Callable[..., Iterator[str]]] = field(default_factory=dict)
    commands: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tools: tuple[Callable[..., Any], ...] = ()


class PluginTable(Struct, frozen=True):
    """A dict that plug-ins extend.

    Attributes:
        noun: Term for one value, in messages.
        table: Maps names to values.
        wrong: Returns what is wrong with a value, as a predicate that follows its name, or an empty string.
        form: Pattern for names.
        is_reserved: Returns whether a name is reserved, in addition to those in the table.
    """

    noun: str
    table: dict[str, Any]
    wrong: Callable[[Any], str]
    form: re.Pattern[str] = _NAME
    is_reserved: Callable[[str], bool] = lambda _: False


def no_function(value: Any) -> str:
    """Return what is wrong with a value that must be callable, or an empty string."""
    return "" if callable(value) else f"is of type {type(value).__name__}, but must be callable"


def _makers(value: Any) -> str:
    valid = isinstance(value, tuple) and value and all(callable(each) for each in value)
    return "" if valid else "is not a tuple of factories"


def _metrics() -> PluginTable:
    kind = neighbor("review: type of a metric")
    return PluginTable("metric", neighbor("review: metrics"), fits(kind, "begin"), _COLUMN_NAME)


def _exports() -> PluginTable:
    return PluginTable(
        "exporter", neighbor("formats: exporters"), no_function, is_reserved={"inspect", "swebench"}.__contains__
    )


def fits(kind: type, member: str) -> Callable[[Any], str]:
    """Return a check that a value has this type, a callable member of this name, and text in its text fields."""

    def wrong(value: Any) -> str:
        if not isinstance(value, kind):
            return f"is of type {type(value).__name__}, but {kind.__module__}.{kind.__name__} is required"
        texts = [name for name in ("unit", "tells") if not isinstance(getattr(value, name, ""), str)]
        return f"has a {texts[0]} that is not a text" if texts else no_function(getattr(value, member))

    return wrong


_TABLES: dict[str, Callable[[], PluginTable]] = {
    "strategies": lambda: PluginTable("strategy", STRATEGIES, no_function),
    "models": lambda: PluginTable("model", MODELS, no_function, _MODEL_NAME, lambda name: name.startswith("claude-")),
    "workspaces": lambda: PluginTable(
        "isolation level", WORKSPACES, _makers, is_reserved={"auto", MemoryWorkspace.level}.__contains__
    ),
    "metrics": _metrics,
    "exporters": _exports,
}
"""Maps members of ``Plugin`` to the tables they extend. Higher layers add theirs with ``open_table``."""


def open_table(member: str, table: PluginTable) -> None:
    """Register a table of a higher layer, effective from the next ``load_plugins``."""
    _TABLES[member] = lambda: table


class _Installed:
    """All plug-ins of the installed packages.

    Attributes:
        plugins: By description.
        problems: A message for each unusable plug-in.
        modules: Maps names of top-level modules to the description of their plug-in.
    """

    def __init__(self, packages: tuple[Distribution, ...]) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.problems: list[str] = []
        self.modules: dict[str, str] = {}
        self._filled: set[str] = set()
        for package in packages:
            self._load(package)
        for whose, plugin in self.plugins.items():
            self._try(whose, partial(_register, plugin))

    def _load(self, package: Distribution) -> None:
        name = _one_line(f"{package.metadata['Name']} {package.version}")
        try:
            points = sorted(package.entry_points.select(group=GROUP), key=lambda each: each.name)
        except Exception as error:  # noqa: BLE001 - parsed here for the first time; the parser may raise anything
            self.problems.append(f"the entry points of {name} cannot be read ({_reason(error)}); {_WAY_OUT}")
            return
        for point in points:
            whose = f"the plug-in {_one_line(point.name)} of {name}"
            self.modules[point.value.partition(":")[0].partition(".")[0].strip()] = whose
            self._try(whose, partial(self._take, whose, point))

    def _take(self, whose: str, point: EntryPoint) -> None:
        plugin = point.load()
        if not isinstance(plugin, Plugin):
            raise UsageError(f"it is of type {type(plugin).__name__}, but stackmem.Plugin is required")
        for member in Plugin.__struct_fields__:
            value, expected = getattr(plugin, member), tuple if member == "tools" else Mapping
            if not isinstance(value, expected):
                kind = "tuple" if member == "tools" else "dict"
                raise UsageError(f"its {member} are of type {type(value).__name__}, but a {kind} is required")
        self.plugins[whose] = plugin

    def fill(self) -> None:
        """Extend the tables that are registered so far."""
        for member in [member for member in _TABLES if member not in self._filled]:
            self._filled.add(member)
            for whose, plugin in self.plugins.items():
                if entries := getattr(plugin, member):
                    self._try(whose, partial(_add, _TABLES[member], entries))

    def _try(self, whose: str, step: Callable[[], None]) -> None:
        try:
            step()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code may raise anything
            self.problems.append(f"{whose} cannot be used ({_reason(error)}); {_WAY_OUT}")


def _add(opened: Callable[[], PluginTable], entries: Mapping[Any, Any]) -> None:
    """Add everything that a plug-in provides of one kind, or nothing."""
    table = opened()
    for name, value in entries.items():
        if not isinstance(name, str) or not table.form.fullmatch(name):
            raise UsageError(f"{name!r} is not a valid name of a {table.noun}; it must match {table.form.pattern}")
        if name in table.table or table.is_reserved(name):
            raise UsageError(f"the {table.noun} {name} already exists")
        if wrong := table.wrong(value):
            raise UsageError(f"the {table.noun} {name} {wrong}")
    table.table.update(entries)
    if table.table is WORKSPACES:
        isolation = OPTIONS["isolation"]
        OPTIONS["isolation"] = isolation._replace(choices=(*isolation.choices, *entries))


def _register(plugin: Plugin) -> None:
    for function in plugin.tools:
        if wrong := no_function(function):
            raise UsageError(f"a tool {wrong}")
    # a decorated function is a tool since its module was imported
    decorated = [own.function for own in TOOLS.values()]
    register(
        from_function(function, name=None, description=None, parallel=False, idempotent=False)
        for function in plugin.tools
        if not any(function is other for other in decorated)
    )


def load_plugins() -> None:
    """Extend the tables with all installed plug-ins.

    Raises:
        UsageError: A plug-in, named in the message, is unusable; the others are added.
    """
    if problems := plugin_problems():
        more = f"; and {len(problems) - 1:,} more, which stackmem doctor lists" if len(problems) > 1 else ""
        raise UsageError(f"{problems[0]}{more}")


_loading = ContextVar("_loading", default=False)


def plugin_problems() -> tuple[str, ...]:
    """Like ``load_plugins``, but return a message for each unusable plug-in instead of raising.

    Raise UsageError if a plug-in's own import called this function.
    """
    if _loading.get():
        # otherwise the package would be loaded a second time before its first import ends, and fail with a riddle
        raise UsageError("its import starts a run; move that code below if __name__ == '__main__'")
    token = _loading.set(True)
    try:
        installed = _installed(places())
    finally:
        _loading.reset(token)
    installed.fill()
    return tuple(installed.problems)


@cache
def _installed(paths: tuple[str, ...]) -> _Installed:
    return _Installed(_packages(paths))


@cache
def _packages(paths: tuple[str, ...]) -> tuple[Distribution, ...]:
    if not any_plugin():
        return ()
    from importlib.metadata import distributions

    packages: dict[str, Distribution] = {}
    for package in distributions(path=list(paths)):
        with suppress(UnicodeDecodeError):
            # a text search first, because parsing all entry points is slow
            if GROUP in (package.read_text("entry_points.txt") or ""):
                # the first one is the one that imports find
                packages.setdefault(str(package.metadata["Name"]), package)
    return tuple(package for _, package in sorted(packages.items()))


def blame(error: BaseException) -> str:
    """Return a message that names the plug-in whose code raised the error, with its line, or an empty string."""
    modules, message = _installed(places()).modules, ""
    trace = None if isinstance(error, StackmemError) else error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        whose = modules.get(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        if whose is not None:
            line = f"{Path(code.co_filename).name}, line {trace.tb_lineno}"
            message = f"{whose} failed in {line} ({_reason(error)}); {_WAY_OUT}"
        trace = trace.tb_next
    return message


@cache
def plugin_digests() -> dict[str, str]:
    """Return the SHA-256 of each plug-in's module files, by package and version."""
    digests = {}
    for package in _packages(places()):
        digest = sha256()
        for path, name in sorted(_files(package), key=lambda each: each[1]):
            digest.update(f"{name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
        digests[_one_line(f"{package.metadata['Name']} {package.version}")] = digest.hexdigest()
    return digests


def refuse_unlike_plugins(there: Mapping[str, str]) -> None:
    """Require the same plug-ins, because only they give comparable results.

    Args:
        there: The ``plugin_digests`` from where the data was started or archived.

    Raises:
        UsageError: A plug-in, named in the message, differs, is additional or is missing here. The message for a
            missing one names the folder in which it would count, and the one in which it was found.
    """
    here = plugin_digests()
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            if name in here:
                raise UsageError(
                    f"the plug-in {name} is not the one that was used before; install that one, or start again"
                )
            folder = ignored_plugins().get(name)
            hint = f"; the one in {folder} does not count" if folder else ""
            raise UsageError(
                f"the plug-in {name} that was used before is not installed in {places()[0]}{hint}; install it with "
                f"{sys.executable} -m pip install, or start again"
            )


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield the files of a plug-in's top-level modules and their names, equal for installed packages and checkouts."""
    with suppress(Exception):  # unreadable entry points are reported elsewhere
        tops = {each.value.partition(":")[0].partition(".")[0] for each in package.entry_points.select(group=GROUP)}
        for top in sorted(tops):
            spec = find_spec(top)
            for folder in map(Path, spec.submodule_search_locations or () if spec else ()):
                inside = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
                yield from ((path, f"{top}/{path.relative_to(folder).as_posix()}") for path in inside)
            if spec and spec.origin and not spec.submodule_search_locations:
                yield Path(spec.origin), Path(spec.origin).name


def _reason(error: BaseException) -> str:
    return _one_line(str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}")


def _one_line(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    short = " ".join(plain.split())
    return short if len(short) <= 300 else f"{short[:299]}…"
