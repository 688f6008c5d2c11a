"""Checks the layers: imports only go down, and the pure packages perform no I/O."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT, files, name

PURE = ("core", "memory", "lab/strategies", "languages", "review/measure")
# Modules that start and display programs, and those that run in the sandbox, in the process of a Python program.
IMPURE = ("languages/commands/", "languages/running/", "languages/python/inside/")
# It imports the modules of its table by name, and reads no data.
TABLE_OF_MODULES = {"stackmem/core/neighbors.py": ["importlib"]}
WORLD = {
    "time", "datetime", "random", "uuid", "os", "pathlib", "subprocess", "socket", "threading", "asyncio", "logging",
}  # fmt: skip


def worldly_imports(module: ast.Module) -> list[str]:
    """Return imports, at any depth of the code, that could make two folds of one trace differ."""
    found = []
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case ast.ImportFrom(module=str(origin), level=0):
                found.append(origin)
            case ast.Call(func=ast.Name(id="__import__" | "open" | "input" as called)):
                found.append(called)
    return [one for one in found if one.split(".")[0] in WORLD | {"importlib", "io", "__import__", "open", "input"}]


def pure_modules() -> list[Path]:
    found = [path for package in PURE for path in files("*.py", ROOT / "stackmem" / package)]
    return [path for path in found if not str(path.relative_to(ROOT / "stackmem")).startswith(IMPURE)]


def test_the_pure_modules_touch_nothing():
    found = [name(path) for path in pure_modules()]
    assert [room for room in PURE if not any(path.startswith(f"stackmem/{room}/") for path in found)] == []
    touched = {name(path): worldly_imports(ast.parse(path.read_text(encoding="utf-8"))) for path in pure_modules()}
    assert {path: imports for path, imports in touched.items() if imports} == TABLE_OF_MODULES


@pytest.mark.parametrize(
    "breach",
    ["import os", "import os.path as p", "from datetime import UTC", "def f():\n    import random", "open('x')"],
)
def test_a_planted_breach_of_purity_is_seen(breach):
    assert worldly_imports(ast.parse(breach))


def test_words_similar_to_io_modules_are_allowed():
    assert worldly_imports(ast.parse("from .time import steps\nimport oslo\nopener = 1")) == []


def test_a_planted_import_that_goes_up_is_seen(tmp_path):
    """`make lint` checks the package with the same contract."""
    for module, text in {"core": "", "cli": "", "core/up": "import stackmem.cli"}.items():
        path = tmp_path / "stackmem" / (f"{module}/__init__.py" if "/" not in module else f"{module}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "stackmem" / "__init__.py").write_text("")
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.importlinter]")[1]
    only_there = contract.split("layers = [")[0] + 'layers = ["cli", "core"]\n'
    (tmp_path / "pyproject.toml").write_text("[tool.importlinter]" + only_there)
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache"]
    linted = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "stackmem.core.up" in linted.stdout


def test_the_public_names_are_sorted_and_complete():
    import stackmem

    public = list(stackmem.__all__)
    # The linter's order: CONSTANTS, then Classes, then functions, each alphabetical.
    assert public == sorted(set(public), key=lambda one: (not one.isupper(), one[0].islower(), one))
    assert [one for one in public if not hasattr(stackmem, one)] == []
    ours = {one for one, value in vars(stackmem).items() if getattr(value, "__module__", "").startswith("stackmem.")}
    assert {one for one in ours if not one.startswith("_")} <= set(public)


def test_no_public_name_is_taken_by_a_package():
    """Importing ``stackmem.NAME`` as a submodule would replace the public object of that name."""
    import stackmem

    taken = {module.name for module in pkgutil.iter_modules(stackmem.__path__)} & set(stackmem.__all__)
    assert taken == set()
