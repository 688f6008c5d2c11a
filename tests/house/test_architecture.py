"""What the layers are, checked: imports go down only, and the pure packages touch nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT, files, name

PURE = ("core", "memory", "languages", "measure")
WORLD = {
    "time", "datetime", "random", "uuid", "os", "pathlib", "subprocess", "socket", "threading", "asyncio", "logging",
}  # fmt: skip


def worldly_imports(source: str) -> list[str]:
    """Imports, at any depth of the code, that could make two foldings of one trace differ."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                found.append(module)
            case ast.Call(func=ast.Name(id="__import__" | "open" | "input" as called)):
                found.append(called)
    return [one for one in found if one.split(".")[0] in WORLD | {"importlib", "io", "__import__", "open", "input"}]


def pure_modules() -> list[Path]:
    return [path for package in PURE for path in files("*.py", ROOT / "stackmem" / package)]


@pytest.mark.parametrize("path", pure_modules(), ids=name)
def test_a_pure_module_touches_nothing(path):
    assert worldly_imports(path.read_text(encoding="utf-8")) == []


def test_the_pure_packages_are_there():
    assert {path.relative_to(ROOT / "stackmem").parts[0] for path in pure_modules()} >= {"core", "memory"}


@pytest.mark.parametrize(
    "breach",
    ["import os", "import os.path as p", "from datetime import UTC", "def f():\n    import random", "open('x')"],
)
def test_a_planted_breach_of_purity_is_seen(breach):
    assert worldly_imports(breach)


def test_a_word_that_only_resembles_the_world_is_no_breach():
    assert worldly_imports("from .time import steps\nimport oslo\nopener = 1") == []


def lint_imports(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--no-cache", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_imports_go_down_only():
    checked = lint_imports()
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_planted_import_that_goes_up_is_seen(tmp_path):
    for module, text in {"core": "", "cli": "", "core/up": "import stackmem.cli"}.items():
        path = tmp_path / "stackmem" / (f"{module}/__init__.py" if "/" not in module else f"{module}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "stackmem" / "__init__.py").write_text("")
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.importlinter]")[1]
    only_there = contract.split("layers = [")[0] + 'layers = ["cli", "core"]\n'
    (tmp_path / "pyproject.toml").write_text("[tool.importlinter]" + only_there)
    assert "stackmem.core.up" in lint_imports(cwd=tmp_path).stdout


def test_the_public_names_are_sorted_and_complete():
    import stackmem

    public = list(stackmem.__all__)
    # The linter's order: CONSTANTS, then Classes, then functions, each by the alphabet.
    assert public == sorted(set(public), key=lambda one: (not one.isupper(), one[0].islower(), one))
    assert [one for one in public if not hasattr(stackmem, one)] == []
    ours = {one for one, value in vars(stackmem).items() if getattr(value, "__module__", "").startswith("stackmem.")}
    assert {one for one in ours if not one.startswith("_")} <= set(public)
