"""The project's own check, run as CONTRIBUTING.md says on a copy, with the code as it is and with each old cause."""

import os
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict
CAUSES = ["money", "allocation", "statement"]

STATEMENT = """\
Statement of 2026-03
  1013      2026-03-02          348.83         66.28        415.11
  1014      2026-03-05           15.99          3.04         19.03
  1015      2026-03-08           70.62         12.70         83.32
  1016      2026-03-11          222.44         41.67        264.11
  1017      2026-03-14           71.97          5.71         77.68
  1018      2026-03-17           47.03          3.91         50.94
  1019      2026-03-20          221.95         38.36        260.31
  1020      2026-03-23           93.98         10.27        104.25
  1021      2026-03-26          384.50         73.06        457.56
  CN-1007   2026-03-27          -38.43         -3.49        -41.92
  tax     7%                                          12.75
  tax    19%                                         238.76
  net                                              1,438.88
  tax                                                251.51
  gross                                            1,690.39
"""


def check(folder, tests, cause=None):
    """The exit code of tools/check.py with the project's own settings; ``cause`` brings one old module back."""
    shutil.copytree(HERE / "project", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "tests")
    shutil.copytree(tests, folder / "tests", symlinks=True)
    shutil.copytree(WORKSPACE / "src", folder / "src", symlinks=True)
    if cause:
        shutil.copyfile(HERE / "old" / f"{cause}.py.txt", folder / "src" / "ledger" / f"{cause}.py")
    done = subprocess.run(
        [*APART, sys.executable, "-B", "tools/check.py", "-p", "no:cacheprovider", "-x", "--tb=short"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    print(done.stdout[-1500:], done.stderr[-500:])
    return done.returncode


@pytest.fixture(scope="module")
def exit_codes(tmp_path_factory):
    cases = [("as it is", None), *((cause, cause) for cause in CAUSES)]
    tmp_path_factory.getbasetemp()  # is made by the first who asks, which two threads at once may not be
    with ThreadPoolExecutor(2) as pool:
        codes = pool.map(lambda case: check(tmp_path_factory.mktemp("p"), WORKSPACE / "tests", case[1]), cases)
        return dict(zip([name for name, _ in cases], codes, strict=True))


def test_the_projects_check_passes(exit_codes):
    assert exit_codes["as it is"] == 0


@pytest.mark.parametrize("cause", CAUSES)
def test_the_suite_notices_the_old(exit_codes, cause):
    assert exit_codes[cause] in (1, 2)  # a test fails, or a test module cannot even be imported


def test_the_tests_that_were_there_still_pass(tmp_path):
    assert check(tmp_path, HERE / "project" / "tests") == 0


def test_the_statement_of_march_prints_as_before():
    done = subprocess.run(
        [
            *APART,
            sys.executable,
            "-P",
            "-B",
            "-m",
            "ledger",
            "statement",
            str(HERE / "project/data/2026-q1.csv"),
            "2026-03",
        ],
        env={**os.environ, "PYTHONPATH": str(WORKSPACE / "src")},
        cwd=WORKSPACE,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, STATEMENT), done.stderr


def test_the_build_is_that_of_the_source():
    """Only ``tools/check.py`` makes it; nobody edited it instead of the source."""
    for source in sorted((WORKSPACE / "src" / "ledger").glob("*.py")):
        built = WORKSPACE / "build" / "lib" / "ledger" / source.name
        assert built.read_bytes() == source.read_bytes(), f"{source.name} was built before it was last changed"
