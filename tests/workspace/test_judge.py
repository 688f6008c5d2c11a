"""Judged code tries to reach its judge through files that programs read at start, and when it is called."""

from pathlib import Path
from unittest.mock import patch

from stackmem.core.facts import ChecksReturned
from stackmem.run.checking.checks import CheckRoom, TaskChecks
from stackmem.workspace.isolation import confine
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import Workspace, open_workspace
from tests.stage import TASKS
from tests.workspace.sandboxes import ALL, hostile

EXPECTED = "what only the judge knows"
HIDDEN = """
import os, shlex, subprocess, sys
from pathlib import Path

HERE = Path(__file__).parent


def test_answer():
    apart = shlex.split(os.environ["APART"])
    done = subprocess.run(
        [*apart, sys.executable, "-P", "-B", str(HERE / "probe.py"), os.environ["WORKSPACE"]],
        capture_output=True, text=True, cwd=os.environ["WORKSPACE"], check=False,
    )
    print(done.stdout, done.stderr)
    assert done.stdout == (HERE / "expected.txt").read_text()
"""
PROBE = "import sys\nsys.path.insert(0, sys.argv[1])\nimport made\nprint(made.answer(), end='')\n"

# Each file writes its own reward if anything except the tested code runs it.
PYTHON = """import os
with open(os.environ["VERIFIER_DIR"] + "/reward.json", "w") as file:
    file.write('{"reward": 1}')
os._exit(0)
"""
SHELL = '#!/bin/sh\necho \'{"reward": 1}\' > "$VERIFIER_DIR/reward.json"\nexit 0\n'
OPTIONS = "addopts = -p made\ntestpaths = .\n"
START_UP = {
    "sitecustomize.py": PYTHON, "usercustomize.py": PYTHON, "conftest.py": PYTHON, "pytest.py": PYTHON,
    "_pytest/__init__.py": PYTHON, "os.py": PYTHON, "made.pth": "import made\n", ".venv/bin/python": SHELL,
    "pytest.ini": f"[pytest]\n{OPTIONS}", "tox.ini": f"[pytest]\n{OPTIONS}", "setup.cfg": f"[tool:pytest]\n{OPTIONS}",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p made"\n', "python": SHELL, "sh": SHELL, "bash": SHELL,
    "mkdir": SHELL, "tail": SHELL, "node_modules/.bin/python": SHELL, ".bashrc": SHELL, ".profile": SHELL,
    ".bash_profile": SHELL, "made-1.dist-info/entry_points.txt": "[pytest11]\nmade = made\n",
    "package.json": '{"scripts": {"preinstall": "./sh", "test": "./sh", "prepare": "./sh"}}',
    ".env": "LD_PRELOAD=./made.so\nBASH_ENV=./sh\nPYTHONPATH=.\nPYTEST_ADDOPTS=-pmade\n",
}  # fmt: skip

ATTACKS = """
import ctypes, os, subprocess, sys, sysconfig, time

JUDGES, PYTHON = os.path.dirname(os.environ["TMPDIR"]), sysconfig.get_path("purelib")
TESTS, VERIFIER, JUDGE = os.environ["TESTS_DIR"], os.environ["VERIFIER_DIR"], os.getppid()


def stays():
    # A process that outlives the question, and writes again and again.
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 3)  # who asks would wait for them
        for _ in range(2_000):
            try:
                with open(VERIFIER + "/reward.json", "w") as file:
                    file.write('{"reward": 1}')
            except OSError:
                pass
            time.sleep(0.005)
        os._exit(0)
    raise OSError("it is judged by the verdict")


def traces():
    if ctypes.CDLL(None).ptrace(16, JUDGE, None, None) < 0:
        raise OSError("refused")


ATTACKS = {
    "reads the tests": lambda: open(TESTS + "/expected.txt").read(),
    "lists the tests": lambda: os.listdir(TESTS),
    "writes the tests": lambda: open(TESTS + "/hidden_test_answer.py", "a"),
    "links the tests": lambda: os.link(TESTS + "/expected.txt", "mine"),
    "runs a program on the tests": lambda: subprocess.run(["cat", TESTS + "/expected.txt"], check=True),
    "writes the verdict": lambda: open(VERIFIER + "/reward.json", "w"),
    "removes the verdict": lambda: os.rename(VERIFIER + "/pytest.log", VERIFIER + "/old"),
    "reads through the judge's root": lambda: open(f"/proc/{JUDGE}/root{TESTS}/expected.txt").read(),
    "reads the judge's memory": lambda: open(f"/proc/{JUDGE}/mem", "rb+"),
    "writes what the judge writes to": lambda: open(f"/proc/{JUDGE}/fd/1", "w"),
    "leaves a start-up file in the judge's home": lambda: open(f"{JUDGES}/home/.bashrc", "w"),
    "writes the judge's temporary files": lambda: open(f"{JUDGES}/mine", "w"),
    "writes the judge's Python": lambda: open(f"{PYTHON}/mine.pth", "w"),
    "changes pytest": lambda: open(f"{PYTHON}/pytest/__init__.py", "a"),
    "links into what the judge starts with": lambda: os.symlink("/dev/null", f"{JUDGES}/home/.profile"),
    "traces the judge": traces,
    "stays": stays,
}


def answer():
    worked = []
    for name, attack in ATTACKS.items():
        try:
            attack()
        except (OSError, subprocess.CalledProcessError):
            continue
        worked.append(name)
    print(f"{len(ATTACKS)} tried, worked: {worked}", file=sys.stderr)
    return worked
"""


SHIPPED = {name: (TASKS / "calculator" / "tests" / name).read_text() for name in ("test.sh", "pytest.ini")}
HELPER = Path(confine.__file__).read_text()
"""Read at import, because NOBODY may not be able to read a checkout in root's home."""


def judged(workspace: Workspace, place: Path, made: str, hidden: str = HIDDEN) -> ChecksReturned:
    """Return the checks' verdict on a module in a folder full of files that try to run."""
    for name, content in {**START_UP, "made.py": made}.items():
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    tests, scratch = place / "tests", place / "scratch"
    scratch.mkdir()
    tests.mkdir()
    for name, content in (
        *SHIPPED.items(),
        ("hidden_test_answer.py", hidden),
        ("probe.py", PROBE),
        ("expected.txt", EXPECTED),
    ):
        (tests / name).write_text(content)

    def opened(root, mounts, env):
        return open_workspace(
            workspace._level, root, "/workspace", Profile(), mounts, env, toolchain=workspace._seat.toolchain
        )

    room = CheckRoom(workspace.layer, scratch, workspace.place, opened)
    (place / "confine.py").write_text(HELPER)
    with patch.object(confine, "__file__", str(place / "confine.py")):
        return TaskChecks(room, tests, place / "verifier", 60.0, {}).judge()


@hostile(*ALL)
def test_no_attack_on_the_judge_works(place, level, opened):
    with opened(place, level) as workspace:
        verdict = judged(workspace, place, ATTACKS)
    assert verdict.rewards == {"reward": 0.0}, verdict
    assert "17 tried, worked: []" in verdict.text


@hostile("bubblewrap")
def test_the_attacks_work_on_a_judge_that_holds_nothing_apart(place, level, opened):
    kept = (
        "reads the tests",
        "writes the verdict",
        "reads through the judge's root",
    )  # others stop it
    with opened(place, level) as workspace:
        made = f"{ATTACKS}\nATTACKS = {{name: ATTACKS[name] for name in {kept!r}}}\n"
        verdict = judged(workspace, place, made, HIDDEN.replace('os.environ["APART"]', '""'))
    assert all(attack in verdict.text for attack in kept), verdict


@hostile("bubblewrap")
def test_an_honest_module_passes_among_the_same_files(place, level, opened):
    with opened(place, level) as workspace:
        verdict = judged(workspace, place, f"def answer():\n    return {EXPECTED!r}\n")
    assert verdict.rewards == {"reward": 1.0}, verdict
