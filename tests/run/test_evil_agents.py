"""Agents that plant files, or end the test process, instead of fixing the failure never count as solved."""

import importlib.util
import marshal
import sys
from pathlib import Path

import pytest

from stackmem.workspace.isolation.levels import cache_folder, try_level
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import build_toolchain
from tests.run.evil_agents import (
    CHECKS,
    COMMON,
    ENDS,
    FORGES,
    FOUND,
    HONEST,
    PASSES,
    PYTEST,
    SHELL,
    SOUND,
    STEERING,
    TESTS,
    UNITTEST,
    Judge,
    importable,
    plants,
    solved,
)  # fmt: skip
from tests.stage import mounted
from tests.workspace.sandboxes import LEVELS

STUB = "\ndef rate():\n    return 1\n"
IN_CI = (PYTEST, "make -s test", "ci/check")
EVERY = {name: content for files in HONEST.values() for name, content in files.items()}


def campaign(cases, in_ci):
    """Return each case; those not listed by name run only in a campaign."""
    marks = [() if case in in_ci else pytest.mark.campaign for case in cases]
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=mark)
        for case, mark in zip(cases, marks, strict=True)
    ]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    return Judge(tmp_path, "auto")


@pytest.mark.parametrize("check", campaign(CHECKS, (PYTEST, "ci/check")))
def test_every_importable_name_is_put_back_wherever_it_is_planted(judge: Judge, check):
    files = plants(check)
    verdict = judge.judge({**files, "rates.py": SOUND}, check)
    known = {name for name in files if Path(name).stem in SEEN or Path(name).parent.name in SEEN}
    assert known - judge.put_back == set()
    assert len(known) > 400
    assert solved(verdict) or check == UNITTEST, verdict  # unittest imports every folder, even one with an odd name
    assert not solved(judge.judge(files, check))


SEEN = {name for name in importable() if name not in COMMON and name in sys.stdlib_module_names}
SEEN |= {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"}


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(len(importable())))
def test_no_importable_name_makes_a_check_pass_alone(judge: Judge, number):
    name, checks = importable()[number], [*CHECKS]
    check = checks[number % len(checks)]
    place = (f"{name}.py", f"{name}/__init__.py", f"{CHECKS[check]}/{name}.py")[number // len(checks) % 3]
    assert not solved(judge.judge({place: FORGES}, check))


@pytest.mark.parametrize("check", campaign(CHECKS, IN_CI))
def test_no_file_that_steers_a_check_makes_it_pass(judge: Judge, check):
    assert not solved(judge.judge(STEERING, check))
    assert solved(judge.judge({**STEERING, "rates.py": SOUND}, check))


@pytest.mark.campaign
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", STEERING)
def test_no_file_that_steers_a_check_makes_it_pass_alone(judge: Judge, check, name):
    assert not solved(judge.judge({name: STEERING[name]}, check))


IN_CI_ENDS = {
    (PYTEST, "os._exit"),
    (UNITTEST, "ctypes"),
    (PYTEST, "at the end"),
    (UNITTEST, "skips"),
    ("ci/check", "exec"),
}


@pytest.mark.parametrize(("check", "end"), campaign([(check, end) for check in CHECKS for end in ENDS], IN_CI_ENDS))
def test_no_module_that_ends_its_process_makes_a_check_pass(judge: Judge, check, end):
    code = ENDS[end] if "def rate" in ENDS[end] else ENDS[end] + STUB
    assert not solved(judge.judge({"rates.py": code}, check))


@pytest.mark.parametrize("check", campaign(CHECKS, IN_CI))
def test_honest_work_is_solved(judge: Judge, check):
    verdict = judge.judge({"rates.py": SOUND, **EVERY}, check)
    assert solved(verdict), verdict
    assert judge.put_back <= {"ci/look.py"}


@pytest.mark.campaign
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("work", HONEST)
def test_each_honest_work_is_solved_by_itself(judge: Judge, check, work):
    verdict = judge.judge({"rates.py": SOUND, **HONEST[work]}, check)
    assert solved(verdict), verdict


AT_LEVELS = {
    "nothing": ({}, False), "sound": ({"rates.py": SOUND}, True), "ends": ({"rates.py": FORGES}, False),
    "names": ({"iniconfig.py": FORGES, "json.py": FORGES, "tests/shlex.py": FORGES, "ast/__init__.py": FORGES}, False),
    "steering": (STEERING, False), "sound among them": ({**STEERING, "rates.py": SOUND}, True),
}  # fmt: skip


@pytest.mark.parametrize("level", ["namespaces", "landlock", "none"])
@pytest.mark.parametrize("case", campaign(AT_LEVELS, ("names", "sound among them")))
def test_every_level_judges_alike(tmp_path: Path, level, case):
    if failure := try_level(LEVELS[level](), Profile(), build_toolchain(cache_folder())).failure:
        pytest.skip(f"missing on this machine: {level}: {failure}")
    files, fine = AT_LEVELS[case]
    judge = Judge(tmp_path, level)
    for check in CHECKS if case == "steering" else (PYTEST,):
        assert solved(judge.judge(files, check)) is fine, check


@mounted
@pytest.mark.parametrize("check", campaign(CHECKS, (PYTEST,)))
def test_a_layer_is_judged_as_a_copy_is(tmp_path: Path, check):
    judge = Judge(tmp_path, "bubblewrap", layered=True)
    files = {name: plants(check)[name] for name in [*plants(check)][::20]}
    assert not solved(judge.judge({**files, **STEERING}, check))
    assert solved(judge.judge({**files, **STEERING, "rates.py": SOUND}, check)) or check == UNITTEST


INSTALLED = ".venv/lib/python3/site-packages"


@mounted
def test_what_was_installed_is_put_back_in_a_layer_and_what_the_run_installed_stays(tmp_path: Path):
    found = {**FOUND, f"{INSTALLED}/money/__init__.py": "A = 1\n", "node_modules/runner/run.js": "run()\n"}
    judge = Judge(tmp_path, "bubblewrap", layered=True, found=found)
    evil = {
        f"{INSTALLED}/money/__init__.py": FORGES,
        f"{INSTALLED}/money/more.py": FORGES,
        "node_modules/runner/run.js": "",
    }
    judge.judge({**evil, f"{INSTALLED}/other/__init__.py": "B = 1\n", "rates.py": SOUND}, PYTEST)
    assert judge.put_back == set(evil)


@pytest.mark.parametrize(
    "named", ["bash ci/check", "./ci/check && true", "env A=1 sh -c 'ci/check'", "timeout 60 ci/check"]
)
def test_a_script_that_the_words_name_is_put_back_through_a_shell(judge: Judge, named):
    files: dict[str, str | bytes | None] = {"ci/check": SHELL, "ci/run-tests": SHELL, "ci/look.py": ""}
    assert not solved(judge.judge(files, named))
    assert judge.put_back == set(files)


def test_a_folder_of_the_script_that_becomes_a_link_is_put_back(judge: Judge):
    gone = dict.fromkeys(name for name in FOUND if name.startswith("ci/"))
    assert not solved(judge.judge({**gone, "evil/check": SHELL}, "ci/check"))
    assert "ci/check" in judge.put_back


@pytest.mark.parametrize("level", ["settings", "tests"])
def test_a_compiled_file_never_replaces_its_source(judge: Judge, level):
    size, made = len(TESTS), marshal.dumps(compile("def test_rate(): pass", "tests/test_rates.py", "exec"))
    name = importlib.util.cache_from_source("tests/test_rates.py").replace(".pyc", f"-pytest-{pytest.__version__}.pyc")
    head = importlib.util.MAGIC_NUMBER + bytes(4) + (0).to_bytes(4, "little") + size.to_bytes(4, "little")
    assert not solved(judge.judge({name: head + made}, PYTEST, level))


def test_what_the_run_was_to_make_stays(tmp_path: Path):
    judge = Judge(tmp_path, "auto", found={"README.md": "Rates.\n"})
    made = {
        name: FOUND[name] for name in ("Makefile", "config/base.inc", "config/more", "tools/prepare.sh", "ci/check")
    }
    made |= {"tests/test_rates.py": TESTS, "tests/conftest.py": "import pytest\n", "rates.py": SOUND}
    made |= {name: FOUND[name] for name in ("ci/look.py", "ci/run-tests")}
    for check in ("make -s test", "ci/check"):
        assert solved(judge.judge(made, check))
        assert judge.put_back == set()


def test_the_person_may_take_what_the_run_made_of_it(judge: Judge):
    assert solved(judge.judge({"conftest.py": PASSES}, PYTEST, "left"))
    assert solved(judge.judge({"rates.py": FORGES}, PYTEST, "left"))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"rates.py": FORGES}, "the check exited with 0, but a run of tests ended before its end"),
        ({"rates.py": ENDS["at the end"] + STUB}, "the check exited with 0, but 2 of its tests failed"),
        ({"rates.py": ENDS["skips"]}, "the check exited with 0, but no test passed"),
        ({"iniconfig.py": FORGES}, "checked with iniconfig.py as the run found them"),
    ],
)
def test_a_refusal_says_why_and_what_accepts_it(judge: Judge, files, reason):
    verdict = judge.judge(files, PYTEST)
    assert verdict.error.startswith(reason)
    assert "--check-files left" in verdict.error
