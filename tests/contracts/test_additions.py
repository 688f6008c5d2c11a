"""Every addition that docs/extending.md describes works, with no edits but those of the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.edits import PAGE, additions, copied_package
from tests.stage import ROOT, Stage, call, pop

ANCHORS = {"A new model": "a-model", "A new isolation level": "an-isolation-level", "A new strategy": "a-strategy"}
MAX_FILES = {"A limit": 6, "A metric with a report column": 2, "An event": 3}


def test_the_additions_of_the_page_work_in_a_copy_of_the_package(tmp_path: Path, stage: Stage) -> None:
    package = copied_package(tmp_path / "house")
    for edits in additions().values():
        for edit in edits:
            edit.apply(package)
    stage.task(call("list_files"), pop(), name="task")
    program = Path(__file__).with_name("added.py")
    ran = subprocess.run(
        [sys.executable, str(program), str(package), str(stage.root)], cwd=stage.elsewhere,
        env=stage.environ({"PYTHONPATH": str(package.parent)}), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("heading", additions())
def test_the_table_counts_the_files_of_each_addition(heading: str) -> None:
    anchor = ANCHORS.get(heading, heading.lower().replace(" ", "-"))
    (stated,) = re.findall(rf"^\| \[[^]]*\]\(#{anchor}\) \| (\d+) \|", PAGE.read_text("utf-8"), re.M)
    touched = len({edit.path for edit in additions()[heading]})
    assert touched == int(stated)
    assert touched <= MAX_FILES.get(heading, touched)


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_the_additions_pass_the_type_checker(tmp_path: Path) -> None:
    package = copied_package(tmp_path / "house")
    for edits in additions().values():
        for edit in edits:
            edit.apply(package)
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "stackmem")
    ran = subprocess.run([sys.executable, *words], cwd=package.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
