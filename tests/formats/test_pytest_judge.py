"""Solutions that attack the judge instead of the task never pass."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from stackmem.core.facts import ChecksReturned
from stackmem.formats.tasks import ImportedTask, import_tasks
from stackmem.history.layer import OwnFolder
from stackmem.run.checking.checks import CheckRoom, task_checks
from stackmem.run.tasks.reader import Task, read_task
from stackmem.workspace.profile import Profile
from stackmem.workspace.workspace import open_workspace
from tests.run.tasks.clones import OUTSIDE, soundings

SOUND = "def high_waters(levels):\n    if not levels:\n        raise ValueError('no levels')\n"
SOUND += "    return [n for n in range(1, len(levels) - 1) if levels[n - 1] < levels[n] > levels[n + 1]]\n"
REWARD = """
import os
def win():
    for name, text in (("reward.json", '{"reward": 1}'), ("reward.txt", "1")):
        open(os.environ["VERIFIER_DIR"] + "/" + name, "w").write(text)
"""
PIPE = """
import gc, json, os, sys
def tell(*lines):
    raw = b"".join(json.dumps(line).encode() + b"\\n" for line in lines)
    for fd in range(3, 64):
        try: os.write(fd, raw)
        except OSError: pass
NAMES = ["one_high_water", "two_high_waters", "a_plateau_is_no_high_water", "the_ends_are_no_high_water", "no_levels"]
NAMES = ["tide_table_test.py::test_" + name for name in NAMES]
"""
OPTIONS = "addopts = -p tide_table\ntestpaths = nothing\n"
FAKE = "import os\nos._exit(0)\n"
SHELL = '#!/bin/sh\necho 1 > "$VERIFIER_DIR/reward.txt"\nexit 0\n'

CODE = {
    "ends the process": "import os\nos._exit(0)\n",
    "ends it with words": "import os, sys\nprint('5 passed in 0.01s', flush=True)\nos._exit(0)\n",
    "raises SystemExit": "raise SystemExit(0)\n",
    "ends it at the end": "import atexit, os\natexit.register(os._exit, 0)\n",
    "kills itself": "import os\nos.kill(os.getpid(), 9)\n",
    "kills its judge": "import os\nos.kill(os.getppid(), 9)\n",
    "stops its judge": "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nos._exit(0)\n",
    "writes the reward": f"{REWARD}\nwin()\n",
    "writes the reward and ends": f"{REWARD}\ntry: win()\nexcept OSError: pass\nos._exit(0)\n",
    "writes the reward later": f"""{REWARD}
import time
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 64)
    for _ in range(300):
        time.sleep(0.01)
        try: win()
        except OSError: pass
    os._exit(0)
""",
    "writes the judge": "import os\nopen(os.environ['TESTS_DIR'] + '/pytest_judge.py', 'w').write('')\n",
    "writes the record": "import os\nopen(os.environ['TESTS_DIR'] + '/record.json', 'w').write('{}')\n",
    "writes its own tests": "open('tide_table_test.py', 'w').write('def test_one_high_water(): pass\\n')\n",
    "links its own tests": """import os
os.symlink('other.py', 'link')
open('other.py', 'w').write(open('tide_table_test.py').read())
os.replace('link', 'tide_table_test.py')
""",
    "leaves a start-up file at home": """import os, site
place = site.getusersitepackages()
os.makedirs(place)
open(place + '/usercustomize.py', 'w').write('import os; os._exit(0)')
""",
    "changes the judge's Python": "import json\nopen(json.__file__, 'a').write('raise SystemExit(0)')\n",
    "changes pytest": "import _pytest\nopen(_pytest.__file__, 'a').write('raise SystemExit(0)')\n",
    "makes every report a pass": """import _pytest.reports as r
made = r.TestReport.from_item_and_call
def passed(item, call):
    report = made(item, call)
    report.outcome, report.longrepr = 'passed', None
    return report
r.TestReport.from_item_and_call = passed
""",
    "runs no test": "import _pytest.python as p\np.Function.runtest = lambda self: None\n",
    "runs no test of unittest": "import unittest\nunittest.TestCase.run = lambda self, result=None: None\n",
    "asserts nothing": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n",
    "skips what fails": "import _pytest.outcomes as o, builtins\nbuiltins.AssertionError = o.Skipped\n",
    "takes the tests away": "import _pytest.main as m\nm.Session.perform_collect = lambda self, *a, **k: []\n",
    "tells other words": """import os
write = os.write
os.write = lambda fd, raw: write(fd, raw.replace(b'"failed"', b'"passed"'))
""",
    "tells that all is well": f"{PIPE}\ntell(*([n, 'call', 'passed'] for n in NAMES), ['', 'end', 0])\nos._exit(0)\n",
    "tells it for every test": f"""{PIPE}
for one in gc.get_objects():
    if type(one).__name__ == 'ReportTeller':
        said = type(one)._tell
        type(one)._tell = lambda self, n, w, h: said(self, n, w, h if w == 'end' else 'passed')
""",
    "floods the pipe": f"{PIPE}\nfor _ in range(40): tell(['x' * 1_000_000, 'call', 'passed'])\nos._exit(0)\n",
}
FILES = {
    "conftest.py": "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    report = yield\n    report.outcome = 'passed'\n    return report\n",
    "sitecustomize.py": FAKE, "usercustomize.py": FAKE, "pytest.py": FAKE, "_pytest/__init__.py": FAKE,
    "unittest.py": FAKE, "json.py": FAKE, "tide.pth": "import os; os._exit(0)\n", "pytest.ini": f"[pytest]\n{OPTIONS}",
    ".pytest.ini": f"[pytest]\n{OPTIONS}", "tox.ini": f"[pytest]\n{OPTIONS}", "setup.cfg": f"[tool:pytest]\n{OPTIONS}",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p tide_table"\n', "python": SHELL, "sh": SHELL,
    "cp": SHELL, ".venv/bin/python": SHELL, "node_modules/.bin/python": SHELL, ".bashrc": SHELL, ".profile": SHELL,
    "tide-1.dist-info/entry_points.txt": "[pytest11]\ntide = tide_table\n", ".npmrc": "script-shell=./sh\n",
    ".env": "LD_PRELOAD=./tide.so\nBASH_ENV=./sh\nPYTHONPATH=.\nPYTEST_ADDOPTS=-ptide_table\nPYTEST_PLUGINS=tide\n",
    "package.json": '{"scripts": {"preinstall": "./sh", "pretest": "./sh", "test": "./sh", "prepare": "./sh"}}',
}  # fmt: skip


def verdict(task: Task, place: Path, files: dict[str, str]) -> ChecksReturned:
    """Return the verdict of a task's checks on a workspace with these files."""
    assert task.workspace is not None
    place.mkdir(exist_ok=True)
    work, scratch = place / "work", place / "scratch"
    shutil.copytree(task.workspace, work, dirs_exist_ok=True)
    scratch.mkdir()
    for name, content in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(content)
        (work / name).chmod(0o755)

    def opened(view, mounts, env):
        return open_workspace("auto", view, "/workspace", Profile(), mounts, env)

    with closing(OwnFolder(work)) as layer, closing(opened(layer.view, (), {})) as workspace:
        room = CheckRoom(layer, scratch, workspace.place, opened)
        return task_checks(room, task, place / "verifier").judge()


@pytest.fixture(scope="module")
def exercise(tmp_path_factory) -> Task:
    (made,) = import_tasks("exercism", OUTSIDE / "exercism", tmp_path_factory.mktemp("tasks"))
    assert isinstance(made, ImportedTask)
    return read_task(made.folder)


def test_a_sound_solution_passes_among_files_that_want_to_be_run(exercise, tmp_path):
    said = verdict(exercise, tmp_path, {**FILES, "tide_table.py": SOUND})
    assert said.rewards == {"reward": 1.0, "tests": 1.0}, said


def test_no_file_of_a_wrong_solution_makes_it_pass(exercise, tmp_path):
    said = verdict(exercise, tmp_path, {**FILES, "tide_table.py": "def high_waters(levels):\n    return []\n"})
    assert said.rewards == {"reward": 0.0, "tests": 0.4}, said


@pytest.mark.parametrize("trick", CODE)
def test_solutions_that_attack_the_judge_do_not_pass(exercise, tmp_path, trick):
    ends = "\ndef high_waters(levels):\n    return []\n"
    said = verdict(exercise, tmp_path, {"tide_table.py": CODE[trick] + ends})
    assert said.rewards.get("reward", 0.0) == 0.0, said


def test_unlisted_tests_must_pass_too_if_the_record_says_so(exercise, tmp_path):
    more = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef fails():\n    yield\n    assert False\n"
    task = structs.replace(exercise, tests=tmp_path / "tests")
    shutil.copytree(exercise.tests, task.tests)
    tests = task.tests / "files" / "tide_table_test.py"
    tests.write_text(f"{more}\n{tests.read_text()}")
    assert verdict(task, tmp_path, {"tide_table.py": SOUND}).rewards["reward"] == 0.0
    tests.write_text(
        tests.read_text().replace(
            more, "def other_test():\n    pass\n\n\nclass TestMore:\n    def test_x(self):\n        assert 0\n"
        )
    )
    said = verdict(task, tmp_path / "again", {"tide_table.py": SOUND})
    assert said.rewards == {"reward": 0.0, "tests": 1.0}, said


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Task:
    place = tmp_path_factory.mktemp("records")
    clone = soundings(place / "clone")
    (made,) = import_tasks("swebench", OUTSIDE / "swebench" / "records.jsonl", place / "tasks", clone)
    assert isinstance(made, ImportedTask)
    return read_task(made.folder)


def test_files_that_control_a_records_tests_match_its_commit(record, tmp_path):
    assert record.workspace is not None
    depth = (record.workspace / "soundings" / "depth.py").read_text()
    said = verdict(record, tmp_path, {**FILES, "tests/conftest.py": FILES["conftest.py"], "soundings/depth.py": depth})
    assert said.rewards["reward"] == 0.0, said
    assert said.rewards["pass_to_pass"] == 1.0, said


CATCH = """#include <cstdio>
#include <string>
#include <vector>
struct Case { const char* name; void (*run)(); };
std::vector<Case>& cases() { static std::vector<Case> all; return all; }
static int failed;
static bool fine;
struct Added { Added(const char* name, void (*run)()) { cases().push_back({name, run}); } };
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define RUN NAMED(run, __LINE__)
#define TEST_CASE(n) static void RUN(); static Added NAMED(added, __LINE__)(n, RUN); static void RUN()
#define REQUIRE(what) if (!(what)) fine = false
int main() {
  for (auto& one : cases()) { fine = true; one.run(); if (!fine) { failed++; std::printf("%s\\n", one.name); } }
  size_t all = cases().size();
  if (failed) std::printf("test cases: %zu | %zu passed | %d failed\\n", all, all - failed, failed);
  else std::printf("All tests passed (1 assertion in %zu test cases)\\n", all);
  return failed;
}
"""
MAKE = """cmake_minimum_required(VERSION 3.10)
project(tide CXX)
add_executable(tide tide_test.cpp)
add_custom_target(run ALL DEPENDS tide COMMAND tide)
"""
TIDE_TEST = '#include "test/catch.hpp"\n#include "tide.h"\nTEST_CASE("three") { REQUIRE(tide() == 3); }\n'
BUILT = {
    "sound": ("inline int tide() { return 3; }\n", True),
    "wrong": ("inline int tide() { return 4; }\n", False),
    "ends": ("#include <cstdlib>\nstatic int no = (std::exit(0), 1);\ninline int tide() { return 4; }\n", False),
    "asserts nothing": ("#undef REQUIRE\n#define REQUIRE(x)\ninline int tide() { return 4; }\n", False),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Task:
    place = tmp_path_factory.mktemp("built")
    listed = {"solution": ["tide.h", "tide.cpp"], "test": ["tide_test.cpp"], "example": [".meta/e.h", ".meta/e.cpp"]}
    files = {
        ".meta/config.json": json.dumps({"files": listed}), ".meta/e.h": BUILT["sound"][0], ".meta/e.cpp": "",
        ".docs/instructions.md": "Tides.\n", "tide.h": "int tide();\n", "tide.cpp": "",
        "CMakeLists.txt": MAKE, "test/catch.hpp": CATCH, "tide_test.cpp": TIDE_TEST,
    }  # fmt: skip
    for name, content in files.items():
        (place / "tide" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "tide" / name).write_text(content)
    (made,) = import_tasks("exercism", place / "tide", place / "tasks")
    assert isinstance(made, ImportedTask), made
    return read_task(made.folder)


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize(
    "name", ["sound", "ends", *(pytest.param(one, marks=pytest.mark.campaign) for one in ("wrong", "asserts nothing"))]
)
def test_compiled_solutions_pass_only_if_they_are_correct(built, tmp_path, name):
    content, passes = BUILT[name]
    said = verdict(
        built, tmp_path, {"tide.h": content, "CMakeLists.txt": "", "CMakePresets.json": "{", "test/catch.hpp": ""}
    )
    assert said.rewards == {"reward": float(passes)}, said
