"""Classifies files that influence a check without being named by it, by name and content.

Rule 1: Files that Python, node or a shell's PATH use automatically are always restored: no check tests them.
Rule 2: Settings of test runners are restored if there were tests initially. Otherwise the run created the tests and
    their settings. In a file with other content, only changes to these settings count.
Rule 3: Tests are restored if the user requests it; tests added by the run stay.
"""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from .objects import LINK

SteeringKind = Literal["start", "settings", "tests"]
KINDS: tuple[SteeringKind, ...] = ("start", "settings", "tests")
InitialFile = tuple[str, bytes]
"""A file's git mode and content."""

_START = re.compile(
    r"(.*/)?(sitecustomize|usercustomize|pytest|pluggy|unittest)(\.py|/.*)|(.*/)?_pytest/.*|.*\.pth"
    r"|(.*/)?[^/]+\.(dist|egg)-info(/entry_points\.txt)?|(.*/)?\.(npmrc|yarnrc(\.yml)?|pnpmfile\.cjs|pnp\.c?js)"
    r"|(.*/)?\.cargo/config(\.toml)?|(.*/)?\.?venv(/bin(/.*)?)?|(.*/)?pyvenv\.cfg|(.*/)?node_modules(/\.bin(/.*)?)?"
)
_SETTINGS = re.compile(
    r"(.*/)?(conftest\.py|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml|noxfile\.py|\.coveragerc"
    r"|(nose|nose2|unittest)\.cfg|\.?behave(rc|\.ini)|\.stestr\.conf"
    r"|(gnu)?makefile|[^/]+\.(mk|mak|make)|\.?justfile|rakefile|\.?taskfile\.ya?ml|\.?mise\.toml|package\.json|deno\.jsonc?"
    r"|(vite|jest|vitest|ava|karma|playwright|cypress|wdio|nightwatch|protractor|web-test-runner|testcafe)[.-]"
    r"(config|conf|workspace)\.[^/]+|(cypress|jasmine)\.json|bunfig\.toml|\.(tap|testcafe)rc[^/]*"
    r"|\.mocharc\.[^/]+|\.(jest|nyc|c8)rc[^/]*|phpunit\.(dist\.)?xml[^/]*|(codeception|behat|cucumber)(\.dist)?\.ya?ml"
    r"|\.rspec(-local)?|\.simplecov|nextest\.toml|\.mvn/[^/]+|junit-platform\.properties|testng[^/]*\.xml|[^/]+\.runsettings"
    r"|xunit\.runner\.json|directory\.build\.(props|targets)|ctest(testfile|custom)\.cmake|dart_test\.yaml|\.bazelrc|pants\.toml)"
)
_TEST_PACKAGE = re.compile(r"(.*/)?(tests?|specs?)/(.*/)?__init__\.py")
_TESTS = re.compile(
    r"(.*/)?(tests?|__tests__|specs?)/.*|(.*/)?(test_[^/]*|tests)\.py|(.*/)?[^/]*_test\.[a-z]+|(.*/)?[^/]*\.(test|spec)\.[a-z]+"
)
_RUNNERS = ("scripts", "tasks", "test", "jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "wireit", "workspaces")


def steers(path: bytes) -> SteeringKind | None:
    """Return the kind of file by its path in the workspace, or None."""
    name = os.fsdecode(path).lower()
    if _START.fullmatch(name):
        return "start"
    if _SETTINGS.fullmatch(name) or _TEST_PACKAGE.fullmatch(name):
        return "settings"
    return "tests" if _TESTS.fullmatch(name) else None


def same_settings(path: bytes, before: InitialFile | None, now: InitialFile | None) -> bool:
    """Return whether two versions of a file with mixed content have the same test settings."""
    name = path.rpartition(b"/")[2].decode("ascii", "replace").lower()
    if name == "__init__.py" and not _TEST_PACKAGE.fullmatch(os.fsdecode(path).lower()):
        return False
    if name not in _PARTS or any(each is not None and each[0] == LINK for each in (before, now)):
        return False
    try:
        old, new = (None if each is None else _PARTS[name](each[1].decode("utf-8")) for each in (before, now))
    except (ValueError, SyntaxError, MemoryError, configparser.Error, RecursionError, AttributeError):
        return False
    return (old or None) == (new or None)


def runs_something(init: bytes) -> bool:
    """Return whether a package's ``__init__.py`` executes more than a docstring."""
    try:
        return bool(_of_init(init.decode("utf-8")))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return True


def _of_pyproject(text: str) -> Any:
    return {
        name: part
        for name, part in tomllib.loads(text).get("tool", {}).items()
        if name in ("pytest", "tox", "coverage")
    }


def _of_setup(text: str) -> Any:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return {
        name: dict(parser.items(name)) for name in parser.sections() if name.startswith(("tool:", "coverage:", "tox:"))
    }


def _of_package(text: str) -> Any:
    return {name: part for name, part in json.loads(text).items() if name in _RUNNERS}


def _of_init(text: str) -> Any:
    """Return the statements of a module, without docstrings."""
    body = ast.parse(text).body
    statements = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return [ast.dump(each) for each in statements]


def _of_entry_points(text: str) -> Any:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    return dict(parser.items("pytest11")) if parser.has_section("pytest11") else {}


_PARTS: Mapping[str, Callable[[str], Any]] = {
    "pyproject.toml": _of_pyproject, "setup.cfg": _of_setup, "package.json": _of_package, "deno.json": _of_package,
    "entry_points.txt": _of_entry_points, "__init__.py": _of_init,
}  # fmt: skip
