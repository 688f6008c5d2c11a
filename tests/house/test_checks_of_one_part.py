"""``.ci/run --part NAME`` runs the tests of one neighbor or one room of the kernel; without it, all tests run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.houses import NEIGHBORS
from tests.house.sources import ROOT

PARTS = sorted(
    folder.name
    for folder in (ROOT / "stackmem").iterdir()
    if folder.is_dir() and (ROOT / "tests" / folder.name).is_dir()
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real checks, whose ``make`` only writes down what it is asked for."""
    place = tmp_path / "checkout"
    (place / ".ci").mkdir(parents=True)
    (place / "scripts").mkdir()
    for part in PARTS:
        (place / "stackmem" / part).mkdir(parents=True)
        (place / "tests" / part).mkdir(parents=True)
    (place / "stackmem" / "version.py").touch()
    (place / "stackmem" / "untested").mkdir()
    (place / "tests" / "house").mkdir()
    shutil.copy(ROOT / ".ci" / "run", place / ".ci" / "run")
    for program, script in (("make", f'echo "$*" >>{place}/asked'), ("scripts/setup.sh", "true")):
        file = place / program
        file.write_text(f"#!/bin/bash\n{script}\n")
        file.chmod(0o755)
    return place


def checks(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": f"{checkout}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", ".ci/run", *arguments], cwd=checkout, env=environ, capture_output=True, text=True, check=False
    )


def asked(checkout: Path) -> set[str]:
    return set((checkout / "asked").read_text("utf-8").splitlines())


def test_every_neighbor_and_every_folder_of_the_kernel_is_a_part():
    assert set(NEIGHBORS) < set(PARTS)
    assert {"cli", "core", "history", "memory", "run", "settings", "trace", "workspace"} < set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_the_checks_of_a_part_run_its_tests_and_the_contracts(checkout: Path, part: str):
    ran = checks(checkout, "--part", part)
    assert ran.returncode == 0, ran.stderr
    chosen = f"tests/{part} tests/contracts tests/golden tests/house"
    assert asked(checkout) == {f"test ARGS={chosen}", "lint"}
    assert all((ROOT / folder).is_dir() for folder in chosen.split())


def test_without_an_option_everything_runs(checkout: Path):
    ran = checks(checkout)
    assert ran.returncode == 0, ran.stderr
    assert {each.split(" ARGS=")[0] for each in asked(checkout)} == {"solve", "test", "lint"}
    assert "test" in asked(checkout)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--part",), ("--part", "kernel"), ("--part", "review languages"), ("--part", ""), ("--part", "untested"),
        ("--part", "house"), ("--part", "version.py"), ("--part", "../tests"), ("--part", "."), ("lab",),
    ],
)  # fmt: skip
def test_an_unknown_part_is_refused_with_the_names(checkout: Path, arguments: tuple[str, ...]):
    ran = checks(checkout, *arguments)
    assert ran.returncode == 2
    assert ran.stderr.rstrip().endswith(" ".join(PARTS))
    assert not (checkout / "asked").exists()
