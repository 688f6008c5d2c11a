"""The wheel contains everything a run needs, and no development files."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.house.sources import ROOT, files

NOT_CODE = [path for path in files("*", ROOT / "stackmem") if path.suffix not in (".py", ".pyc")]


def build(tree: Path, out: Path, **more: Any) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(out)]
    built = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, **more)
    assert built.returncode == 0, built.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build(ROOT, tmp_path_factory.mktemp("wheel")))


def test_the_wheel_contains_every_module_and_data_file(wheel):
    code = files("*.py", ROOT / "stackmem") + files("*.py", ROOT / "tiktoken_ext")
    wanted = {str(path.relative_to(ROOT)) for path in code + NOT_CODE}
    assert wanted - set(wheel.namelist()) == set()


@pytest.mark.parametrize("folder", ["tasks", "examples", "docs"])
def test_every_task_every_example_and_every_document_is_in_it(wheel, folder):
    wanted = {f"stackmem/_{folder}/{path.relative_to(ROOT / folder)}" for path in files("*", ROOT / folder)}
    assert len(wanted) > 10
    assert wanted - set(wheel.namelist()) == set()


def test_the_licence_is_in_it_and_nothing_of_the_checkout_is(wheel):
    tops = {entry.split("/")[0] for entry in wheel.namelist() if ".dist-info/" not in entry}
    assert tops <= {"stackmem", "tiktoken_ext"}
    assert [entry for entry in wheel.namelist() if entry.endswith("licenses/LICENSE")]
    assert [entry for entry in wheel.namelist() if "__pycache__" in entry or entry.endswith(".pyc")] == []


def test_unpacked_elsewhere_it_knows_its_commands_and_its_tasks(wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "site")}

    def stackmem(*arguments: str) -> str:
        command = [sys.executable, "-m", "stackmem", *arguments]
        ran = subprocess.run(command, cwd=elsewhere, env=environ, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "solve" in stackmem("--help")
    assert "calculator" in stackmem("tasks", "list")
    assert stackmem("docs", "chat") == (ROOT / "docs" / "chat.md").read_text("utf-8")
    assert "run it: stackmem run poll --model script:poll/script.yaml" in stackmem("examples", "loop/poll")
    assert (elsewhere / "poll" / "job.sh").is_file()


def test_built_elsewhere_at_another_time_under_another_mask_it_is_the_same_bytes(wheel, tmp_path):
    tree = tmp_path / "another" / "place"
    for path in ("stackmem", "tiktoken_ext", "tasks", "examples", "docs"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / path, tree / path, ignore=left_out, copy_function=shutil.copy)
    for path in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / path, tree / path)
    again = build(tree, tmp_path / "dist", umask=0o077, env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"})
    assert again.read_bytes() == Path(str(wheel.filename)).read_bytes()
