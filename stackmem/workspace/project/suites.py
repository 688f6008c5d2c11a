"""Finds the test commands and lock files of a project by reading its files, without running anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from .installations import is_file, read_small

LOCKS = (
    "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "requirements.lock",
    "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "Cargo.lock", "go.sum",
)  # fmt: skip
_PYTHON_LOCKS = 6  # number of Python lock files at the start of ``LOCKS``
_NODE_RUNNERS = {"pnpm-lock.yaml": "pnpm test", "yarn.lock": "yarn test", "bun.lock": "bun run test"}
_PYTEST_SIGNS = (
    ("pyproject.toml", r"^\[tool\.pytest\b"), ("pytest.ini", r"^\[pytest\]"), ("setup.cfg", r"^\[tool:pytest\]"),
    ("tox.ini", r"^\[pytest\]"), ("conftest.py", r""), ("tests/conftest.py", r""),
)  # fmt: skip
_MAX_ENTRIES = 500  # entries of a folder that are inspected
_MAX_READ = 50  # test files that are read


class SuiteCommand(Struct, frozen=True):
    """A command that runs a project's tests, and the file that suggests it."""

    command: str
    reason: str


def lock_files(folder: Path) -> tuple[str, ...]:
    return tuple(name for name in LOCKS if is_file(folder / name))


def find_suites(
    folder: Path, environment: str, has: Callable[[str], bool] = lambda _: True
) -> tuple[SuiteCommand, ...]:
    """Return all test commands that the folder's files suggest, most likely first.

    A test command that the project defines comes before the defaults of Cargo and Go, because their files may belong to
    a part of the project only. ``has`` returns whether commands find a program. ``environment`` is the Python
    environment, relative to the folder; empty if it does not exist.
    """
    return tuple(
        suite
        for suites in (_python(folder, environment), _node(folder, has), _make(folder), _cargo(folder), _go(folder))
        for suite in suites
    )


def missing_program(suites: tuple[SuiteCommand, ...], has: Callable[[str], bool]) -> Iterator[str]:
    """Yield a message if commands do not find the program of the first test command."""
    for suite in suites[:1]:
        program = suite.command.partition(" ")[0]
        if program != "python" and not has(program):
            yield (
                f"the tests need {program} ({suite.reason}), and commands do not find it; install it system-wide, "
                "grant it with a mount in a profile (--profile FILE), or pass another --check COMMAND"
            )


def _python(folder: Path, environment: str) -> Iterator[SuiteCommand]:
    reason = next(
        (name for name, sign in _PYTEST_SIGNS if (text := read_small(folder / name)) and re.search(sign, text, re.M)),
        "",
    )
    if not reason:
        reason = next((name for name in ("tests", "test", ".") if _has_tests(folder / name)), "")
    if not reason:
        return
    tests = next((name for name in ("tests", "test") if _has_tests(folder / name)), "")
    # unittest passes if it finds no tests, so suggest it only if there are unittest tests.
    if _has_pytest(folder, environment) or not _uses_unittest(folder / tests):
        yield SuiteCommand("python -m pytest -q", reason)
        return
    # From the project root, unittest only searches packages.
    beneath = f" {tests}" if tests and not is_file(folder / tests / "__init__.py") else ""
    yield SuiteCommand(f"python -m unittest discover{beneath}", reason)


def _has_pytest(folder: Path, environment: str) -> bool:
    """Return whether pytest is available. Without a project environment, commands use a Python that has it."""
    return not environment or any((folder / environment).glob("lib/python3*/site-packages/pytest/__init__.py"))


def _has_tests(folder: Path) -> bool:
    return any(_test_files(folder))


def _uses_unittest(folder: Path) -> bool:
    texts = (read_small(path) for path in islice(_test_files(folder), _MAX_READ))
    return any(re.search(r"^\s*(import|from) +unittest\b", text, re.M) for text in texts)


def _test_files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        for path in islice(folder.iterdir(), _MAX_ENTRIES) if folder.is_dir() else ():
            if re.fullmatch(r"test_.*\.py|.*_test\.py", path.name):
                yield path


def uninstalled(folder: Path, root: Path, environment: str) -> Iterator[str]:
    """Yield messages about dependencies that the tests may need and the folder lacks.

    ``root`` is the project that contains the folder. ``environment`` is the Python environment, even if it does not
    work; empty if it does not exist.
    """
    python = next((name for name in lock_files(folder) if name in LOCKS[:_PYTHON_LOCKS]), "")
    if not python and is_file(folder / "pyproject.toml") and (folder / "src").is_dir():
        python = "pyproject.toml"
    needs = [(python, ".venv")] if python and not environment else []
    package = _package(folder)
    installed = any((path / "node_modules").exists() for path in (folder, root))
    if (package.get("dependencies") or package.get("devDependencies")) and not installed:
        needs.append(("package.json", "node_modules"))
    for name, needed in needs:
        yield f"{name} exists but {needed} does not; if the tests need these packages, install them before the run"
    if any("pytest" in suite.command for suite in _python(folder, environment)) and not _has_pytest(
        folder, environment
    ):
        yield f"the tests need pytest and {environment} lacks it; install it there before the run"


def _package(folder: Path) -> dict[str, object]:
    text = read_small(folder / "package.json")
    try:
        package = msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}  # npm reports what is wrong with it
    return package if isinstance(package, dict) else {}


def _node(folder: Path, has: Callable[[str], bool]) -> Iterator[SuiteCommand]:
    package = _package(folder)
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if isinstance(script, str) and "no test specified" not in script:
        manager = str(package.get("packageManager", "")).partition("@")[0]
        preferred = (command for command in _NODE_RUNNERS.values() if command.partition(" ")[0] == manager)
        locked = (command for name, command in _NODE_RUNNERS.items() if is_file(folder / name))
        runner = next(preferred, None) or next(locked, "npm test")
        program = runner.partition(" ")[0]
        if program != "npm" and not has(program) and has("npm"):  # npm runs the same script
            yield SuiteCommand("npm test", f"package.json (commands do not find {program})")
        else:
            yield SuiteCommand(runner, "package.json")


def _cargo(folder: Path) -> Iterator[SuiteCommand]:
    if is_file(folder / "Cargo.toml"):
        yield SuiteCommand("cargo test --offline", "Cargo.toml")


def _go(folder: Path) -> Iterator[SuiteCommand]:
    if is_file(folder / "go.mod"):
        yield SuiteCommand("go test ./...", "go.mod")


def _make(folder: Path) -> Iterator[SuiteCommand]:
    if re.search(r"^test\s*:(?!=)", read_small(folder / "Makefile"), re.M):
        yield SuiteCommand("make test", "Makefile")
