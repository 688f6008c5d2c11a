"""Plug-ins: installed packages that bring memory strategies, models or isolation levels.

Rule 1: only what is installed where this interpreter keeps its packages; never what lies in the folder one stands in.
Rule 2: a plug-in adds; it replaces nothing that is there.
Rule 3: one that cannot be used adds nothing and is one warning; the others, and the run, go on.
"""

from __future__ import annotations

import re
import site
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, distributions
from typing import Any

from msgspec import Struct, field

from stackmem.core.strategy import MemoryStrategy
from stackmem.errors import UsageError
from stackmem.memory import STRATEGIES
from stackmem.models.registry import MODELS, Model, ModelRequest
from stackmem.settings.options import OPTIONS
from stackmem.workspace.isolation.launch import Level
from stackmem.workspace.isolation.levels import WORKSPACES
from stackmem.workspace.memory import MemoryWorkspace

from .own_tools import from_function, register

GROUP = "stackmem.plugins"
"""The group of entry points; each names a ``Plugin``."""

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_MODEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}[/:]?")


class Plugin(Struct, frozen=True):
    """What a package brings; each member fills the dict of the same kind.

    Attributes:
        strategies: Name to maker, as in ``STRATEGIES``.
        models: Whole name, or prefix that ends with ``/`` or ``:``, to maker, as in ``MODELS``.
        workspaces: Choice of ``--isolation`` to the makers of its level, as in ``WORKSPACES``; ``auto`` never takes it.
        tools: Functions that agents and programs may call; one that ``stackmem.tool`` decorates is there already.
    """

    strategies: Mapping[str, Callable[[str], MemoryStrategy]] = field(default_factory=dict)
    models: Mapping[str, Callable[[ModelRequest], Model]] = field(default_factory=dict)
    workspaces: Mapping[str, tuple[Callable[[], Level], ...]] = field(default_factory=dict)
    tools: tuple[Callable[..., Any], ...] = ()


def load_plugins() -> tuple[str, ...]:
    """Fill the dicts from every installed plug-in, once in a process; a sentence for each that is left out."""
    users = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    return _load((*site.getsitepackages(), *([users] if users else [])))


@cache
def _load(places: tuple[str, ...]) -> tuple[str, ...]:
    """As ``load_plugins``, from the packages in ``places``."""
    packages: dict[str, Distribution] = {}
    for package in distributions(path=list(places)):
        with suppress(UnicodeDecodeError):
            if GROUP in (package.read_text("entry_points.txt") or ""):  # to parse all that is installed takes long
                packages.setdefault(str(package.metadata["Name"]), package)  # the first is the one that imports find
    return tuple(warning for _, package in sorted(packages.items()) for warning in _load_package(package))


def _load_package(package: Distribution) -> Iterator[str]:
    """Add what a package brings; a sentence for each of its plug-ins that is left out."""
    name = _one_line(f"{package.metadata['Name']} {package.version}")
    try:
        points = sorted(package.entry_points.select(group=GROUP), key=lambda each: each.name)
    except Exception as error:  # noqa: BLE001 - it was never parsed before, and may raise whatever the parser does
        yield f"the entry points of {name} cannot be read ({_reason(error)}); mend or uninstall that package"
        return
    for point in points:
        try:
            _add(point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module may raise whatever it likes
            plugin = f"the plug-in {_one_line(point.name)} of {name}"
            yield f"{plugin} is left out ({_reason(error)}); mend or uninstall that package"


def _add(plugin: object) -> None:
    """All that the plug-in brings, or nothing.

    Raises:
        UsageError: It is no plug-in, or a name in it is taken or none.
    """
    if not isinstance(plugin, Plugin):
        raise UsageError(f"it is of the type {type(plugin).__name__}, and stackmem.Plugin is wanted")
    for what, brought, known, form in (
        ("strategy", plugin.strategies, STRATEGIES, _NAME),
        ("model", plugin.models, MODELS, _MODEL_NAME),
        ("isolation level", plugin.workspaces, (*WORKSPACES, "auto", MemoryWorkspace.level), _NAME),
    ):
        for name in brought:
            if not isinstance(name, str) or not form.fullmatch(name):
                raise UsageError(f"{name!r} is no name of a {what}; it looks like {form.pattern}")
            if name in known or (what == "model" and name.startswith("claude-")):
                raise UsageError(f"the {what} {name} is there already")
    register(
        from_function(function, name=None, description=None, parallel=False, idempotent=False)
        for function in plugin.tools
    )
    STRATEGIES.update(plugin.strategies)
    MODELS.update(plugin.models)
    WORKSPACES.update(plugin.workspaces)
    choices = OPTIONS["isolation"].choices
    OPTIONS["isolation"] = OPTIONS["isolation"]._replace(choices=(*choices, *plugin.workspaces))


def _reason(error: BaseException) -> str:
    return _one_line(str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}")


def _one_line(text: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    short = " ".join(plain.split())
    return short if len(short) <= 300 else f"{short[:299]}…"
