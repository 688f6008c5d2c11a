"""Plug-ins: installed packages that bring strategies, models, levels, worlds, metrics, exporters, commands or tools.

Rule 1: only what is installed where this interpreter keeps its packages; never what lies in the folder one stands in.
Rule 2: a plug-in adds; it replaces nothing that is there.
Rule 3: one that cannot be used stops whatever loads plug-ins, with a sentence that names its package; so nobody takes
    a run without it for one with it. Only ``doctor`` and ``config`` go on, and say it.
Rule 4: where its code raises something, the sentence names the plug-in and the line (``blame``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import Distribution, EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import StackmemError, UsageError
from stackmem.memory import STRATEGIES
from stackmem.models.registry import MODELS, Model, ModelRequest
from stackmem.neighbors import neighbor
from stackmem.settings.options import OPTIONS
from stackmem.workspace.isolation.launch import Level
from stackmem.workspace.isolation.levels import WORKSPACES
from stackmem.workspace.memory import MemoryWorkspace

from .own_tools import from_function, register
from .plugin_places import GROUP, places

_WAY_OUT = "mend or uninstall that package"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MODEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}[/:]?")
_COLUMN_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Plugin(Struct, frozen=True):
    """What a package brings; each member fills the dict of the same kind.

    Attributes:
        strategies: Name to maker, as in ``STRATEGIES``.
        models: Whole name, or prefix that ends with ``/`` or ``:``, to maker, as in ``MODELS``.
        workspaces: Choice of ``--isolation`` to the makers of its level, as in ``WORKSPACES``; ``auto`` never takes it.
        worlds: Name of a family to its ``WorldFamily``, as in ``WORLDS``.
        metrics: Name of a column to its ``Metric``, as in ``METRICS``.
        exporters: Choice of ``export --format`` to a fold over the records, as in ``EXPORTS``.
        commands: Word after ``stackmem`` to a function or an app, as typer takes them.
        tools: Functions that agents and programs may call; one that ``stackmem.tool`` decorates is there already.
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
    """A dict that plug-ins fill.

    Attributes:
        what: One of its values, in a word or two.
        table: Name to value.
        wrong: What is wrong with a value, in words that follow its name; empty where nothing is.
        taken: Names that are refused beside those in the table.
    """

    what: str
    table: dict[str, Any]
    wrong: Callable[[Any], str]
    form: re.Pattern[str] = _NAME
    taken: Callable[[str], bool] = lambda _: False


def no_function(value: Any) -> str:
    """What is wrong with what shall be called; empty where nothing is."""
    return "" if callable(value) else f"is of the type {type(value).__name__}, and something to call is wanted"


def _makers(value: Any) -> str:
    made = isinstance(value, tuple) and value and all(callable(one) for one in value)
    return "" if made else "is no tuple of makers"


def _metrics() -> PluginTable:
    from stackmem.measure.metrics import METRICS, Metric

    return PluginTable("metric", METRICS, fits(Metric, "begin"), _COLUMN_NAME)


def _exports() -> PluginTable:
    return PluginTable(
        "exporter", neighbor("formats: exporters"), no_function, taken={"inspect", "swebench"}.__contains__
    )


def fits(kind: type, member: str) -> Callable[[Any], str]:
    """Refuses what is not of the kind, or has nothing to call under the member's name; texts must be texts."""

    def wrong(value: Any) -> str:
        if not isinstance(value, kind):
            return f"is of the type {type(value).__name__}, and {kind.__module__}.{kind.__name__} is wanted"
        texts = [name for name in ("unit", "tells") if not isinstance(getattr(value, name, ""), str)]
        return f"has a {texts[0]} that is no text" if texts else no_function(getattr(value, member))

    return wrong


_TABLES: dict[str, Callable[[], PluginTable]] = {
    "strategies": lambda: PluginTable("strategy", STRATEGIES, no_function),
    "models": lambda: PluginTable("model", MODELS, no_function, _MODEL_NAME, lambda name: name.startswith("claude-")),
    "workspaces": lambda: PluginTable(
        "isolation level", WORKSPACES, _makers, taken={"auto", MemoryWorkspace.level}.__contains__
    ),
    "metrics": _metrics,
    "exporters": _exports,
}
"""Member of a plug-in to what it fills; rooms above this one add theirs, by ``open_table``."""


def open_table(member: str, table: PluginTable) -> None:
    """Let plug-ins fill a dict of a room above this one, from the next ``load_plugins`` on."""
    _TABLES[member] = lambda: table


class _Installed:
    """Every plug-in of the packages in some places.

    Attributes:
        plugins: By the words that name it.
        problems: A sentence for each that cannot be used.
        modules: Name of a top module to the words that name its plug-in.
    """

    def __init__(self, found: tuple[Distribution, ...]) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.problems: list[str] = []
        self.modules: dict[str, str] = {}
        self._filled: set[str] = set()
        for package in found:
            self._load(package)
        for whose, plugin in self.plugins.items():
            self._try(whose, partial(_register, plugin))

    def _load(self, package: Distribution) -> None:
        name = _one_line(f"{package.metadata['Name']} {package.version}")
        try:
            points = sorted(package.entry_points.select(group=GROUP), key=lambda each: each.name)
        except Exception as error:  # noqa: BLE001 - it was never parsed before, and may raise whatever the parser does
            self.problems.append(f"the entry points of {name} cannot be read ({_reason(error)}); {_WAY_OUT}")
            return
        for point in points:
            whose = f"the plug-in {_one_line(point.name)} of {name}"
            self.modules[point.value.partition(":")[0].partition(".")[0].strip()] = whose
            self._try(whose, partial(self._take, whose, point))

    def _take(self, whose: str, point: EntryPoint) -> None:
        plugin = point.load()
        if not isinstance(plugin, Plugin):
            raise UsageError(f"it is of the type {type(plugin).__name__}, and stackmem.Plugin is wanted")
        for member in Plugin.__struct_fields__:
            brought, wanted = getattr(plugin, member), tuple if member == "tools" else Mapping
            if not isinstance(brought, wanted):
                kind = "tuple" if member == "tools" else "dict"
                raise UsageError(f"its {member} are of the type {type(brought).__name__}, and a {kind} is wanted")
        self.plugins[whose] = plugin

    def fill(self) -> None:
        """Fill the tables that are open by now."""
        for member in [member for member in _TABLES if member not in self._filled]:
            self._filled.add(member)
            for whose, plugin in self.plugins.items():
                if brought := getattr(plugin, member):
                    self._try(whose, partial(_add, _TABLES[member], brought))

    def _try(self, whose: str, step: Callable[[], None]) -> None:
        try:
            step()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module may raise whatever it likes
            self.problems.append(f"{whose} cannot be used ({_reason(error)}); {_WAY_OUT}")


def _add(opened: Callable[[], PluginTable], brought: Mapping[Any, Any]) -> None:
    """All that a plug-in brings of one kind, or nothing."""
    table = opened()
    for name, value in brought.items():
        if not isinstance(name, str) or not table.form.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a {table.what}; it looks like {table.form.pattern}")
        if name in table.table or table.taken(name):
            raise UsageError(f"the {table.what} {name} is there already")
        if wrong := table.wrong(value):
            raise UsageError(f"the {table.what} {name} {wrong}")
    table.table.update(brought)
    if table.table is WORKSPACES:
        isolation = OPTIONS["isolation"]
        OPTIONS["isolation"] = isolation._replace(choices=(*isolation.choices, *brought))


def _register(plugin: Plugin) -> None:
    for function in plugin.tools:
        if wrong := no_function(function):
            raise UsageError(f"a tool {wrong}")
    register(
        from_function(function, name=None, description=None, parallel=False, idempotent=False)
        for function in plugin.tools
    )


def load_plugins() -> None:
    """Fill the open tables from every installed plug-in.

    Raises:
        UsageError: One cannot be used (named; the others are added).
    """
    if problems := plugin_problems():
        more = f"; and {len(problems) - 1:,} more, which stackmem doctor names" if len(problems) > 1 else ""
        raise UsageError(f"{problems[0]}{more}")


def plugin_problems() -> tuple[str, ...]:
    """As ``load_plugins``, with a sentence for each that cannot be used in the place of an error."""
    installed = _installed(places())
    installed.fill()
    return tuple(installed.problems)


@cache
def _installed(where: tuple[str, ...]) -> _Installed:
    return _Installed(_packages(where))


@cache
def _packages(where: tuple[str, ...]) -> tuple[Distribution, ...]:
    packages: dict[str, Distribution] = {}
    for package in distributions(path=list(where)):
        with suppress(UnicodeDecodeError):
            if GROUP in (package.read_text("entry_points.txt") or ""):  # to parse all that is installed takes long
                packages.setdefault(str(package.metadata["Name"]), package)  # the first is the one that imports find
    return tuple(package for _, package in sorted(packages.items()))


def blame(error: BaseException) -> str:
    """The sentence that names the plug-in whose code the error came through, with its line; empty where none's."""
    modules, told = _installed(places()).modules, ""
    trace = None if isinstance(error, StackmemError) else error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        whose = modules.get(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        if whose is not None:
            line = f"{Path(code.co_filename).name}, line {trace.tb_lineno}"
            told = f"{whose} failed in {line} ({_reason(error)}); {_WAY_OUT}"
        trace = trace.tb_next
    return told


@cache
def plugin_digests() -> dict[str, str]:
    """Package and version of each plug-in to the SHA-256 over the files of its modules, as they lie here."""
    found = {}
    for package in _packages(places()):
        told = sha256()
        for path, name in sorted(_files(package), key=lambda each: each[1]):
            told.update(f"{name} {sha256(path.read_bytes()).hexdigest()}\n".encode())
        found[_one_line(f"{package.metadata['Name']} {package.version}")] = told.hexdigest()
    return found


def refuse_unlike_plugins(there: Mapping[str, str]) -> None:
    """Only the same plug-ins make the same rows.

    Args:
        there: As ``plugin_digests`` told them where something was begun or archived.

    Raises:
        UsageError: One is another here, or is here alone, or is not here (named).
    """
    here = plugin_digests()
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise UsageError(
                f"the plug-in {name} is not the one that this was made with; install that one, or begin anew"
            )


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a plug-in's top modules and their names there; an installed one and one in a checkout are alike."""
    with suppress(Exception):  # one whose points cannot be read is refused elsewhere
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
