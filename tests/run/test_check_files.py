"""Files that control a user's own check are restored to their original state, whatever the run changed."""

from pathlib import Path

import pytest

from stackmem.history.steering import same_settings, steers
from tests.history.folders import folder
from tests.stage import Stage, command, mounted, pop

CHECK = "python -m pytest -q -p no:cacheprovider tests"
FOLDER = {
    "rates.py": "def rate():\n    return 1\n",
    "tests/test_rates.py": "import rates\n\n\ndef test_rate():\n    assert rates.rate() == 2\n",
    "pyproject.toml": '[project]\nname = "rates"\n\n[tool.pytest.ini_options]\naddopts = "-ra"\n',
    "package.json": '{"name": "rates", "scripts": {"test": "false"}}',
    "Makefile": "test:\n\tpython -m pytest -q tests\n",
}
FORGES = "import os\nos._exit(0)\n"
PASSES = "import pytest\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
PASSES += "    report = yield\n    report.outcome = 'passed'\n    return report\n"
SHELL = "#!/bin/sh\nexit 0\n"
TRICKS = {
    "conftest.py": PASSES, "tests/conftest.py": PASSES, "pytest.py": FORGES, "_pytest/__init__.py": FORGES,
    "pytest.ini": "[pytest]\naddopts = --collect-only\n", ".pytest.ini": "[pytest]\naddopts = --collect-only\n",
    "tox.ini": "[pytest]\naddopts = --collect-only\n", "setup.cfg": "[tool:pytest]\naddopts = --collect-only\n",
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--collect-only"\n', "sitecustomize.py": FORGES,
    "usercustomize.py": FORGES, "made.pth": "import os; os._exit(0)\n", "unittest.py": FORGES, "pluggy.py": FORGES,
    "made-1.dist-info/entry_points.txt": "[pytest11]\nmade = conftest\n", "made-1.dist-info/METADATA": "Name: made\n",
    ".venv/bin/python": SHELL, "node_modules/.bin/python": SHELL, ".npmrc": "script-shell=/bin/true\n",
    "package.json": '{"scripts": {"pretest": "true", "test": "true"}}', "Makefile": "test:\n\ttrue\n",
    ".bashrc": SHELL, ".profile": SHELL, "python": SHELL, ".env": "PYTEST_ADDOPTS=--collect-only\n",
}  # fmt: skip


def written(files: dict[str, str]):
    """Commands of an agent that writes files; executables stay executable."""
    made = [f"mkdir -p '{Path(name).parent}' && cat >'{name}' <<'END'\n{text}END" for name, text in files.items()]
    return [command("\n".join([*made, *(f"chmod +x '{name}'" for name, text in files.items() if text == SHELL)]))]


def solved_with(stage: Stage, files: dict[str, str], *more, check: str = CHECK, found=FOLDER, **flags):
    place = folder(stage.root / f"mine-{len(list(stage.root.iterdir()))}", dict(found))
    model = stage.script(*written(files), *more, pop())
    return stage.solve(place, text="Make the tests pass.", model=model, check=check, **flags)


@pytest.mark.parametrize("layer", [pytest.param("overlay", marks=mounted), "copy"])
def test_no_file_that_steers_the_check_makes_it_pass(stage: Stage, layer):
    done = solved_with(stage, TRICKS, layer=layer)
    assert done.outcome == "unsolved"
    assert "as the run found them" in done.check_error


@pytest.mark.parametrize("layer", [pytest.param("overlay", marks=mounted), "copy"])
def test_work_that_is_sound_is_solved_among_them(stage: Stage, layer):
    done = solved_with(stage, {**TRICKS, "rates.py": "def rate():\n    return 2\n"}, layer=layer)
    assert (done.outcome, done.check_error) == ("solved", "")


@pytest.mark.parametrize("name", [name for name in TRICKS if steers(name.encode()) and "venv" not in name])
@pytest.mark.campaign
def test_not_one_of_them_makes_it_pass_alone(stage: Stage, name):
    check = {"Makefile": "make test", "package.json": "npm test"}.get(name, CHECK)
    assert solved_with(stage, {name: TRICKS[name]}, check=check).outcome == "unsolved"


def test_without_that_a_planted_conftest_passes(stage: Stage):
    assert solved_with(stage, {"conftest.py": PASSES}, check_files="left").outcome == "solved"


@pytest.mark.parametrize("layer", [pytest.param("overlay", marks=mounted), "copy"])
def test_tests_that_are_taken_away_or_changed_are_put_back_where_the_person_says_so(stage: Stage, layer):
    gone = [command("rm -rf tests && mkdir tests && echo 'def test_none(): pass' > tests/test_none.py")]
    assert solved_with(stage, {}, *gone, layer=layer).outcome == "solved"
    done = solved_with(stage, {}, *gone, layer=layer, check_files="tests")
    assert (done.outcome, "tests/test_rates.py" in done.check_error) == ("unsolved", True)


def test_settings_stand_where_the_run_found_no_tests(stage: Stage):
    made = {
        "src/rates.py": "def rate():\n    return 2\n", "tests/test_rates.py": FOLDER["tests/test_rates.py"],
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    }  # fmt: skip
    assert solved_with(stage, made, found={"README.md": "Rates.\n"}).outcome == "solved"


def test_a_link_or_a_folder_in_the_place_of_such_a_file_is_replaced(stage: Stage):
    tricks = [command("rm -f Makefile pyproject.toml && ln -s /dev/null Makefile && mkdir -p pyproject.toml/x tox.ini")]
    done = solved_with(stage, {}, *tricks, check="make test")
    assert (done.outcome, "Makefile" in done.check_error) == ("unsolved", True)


def test_which_files_control_a_check():
    for name in ("a/conftest.py", "PyProject.toml", ".venv/bin/sh", "x.egg-info/entry_points.txt", "jest.config.mjs"):
        assert steers(name.encode()) in ("start", "settings"), name
    for name in ("src/rates.py", "package-lock.json", "docs/conftest.md", "latest.py", "contest.py"):
        assert steers(name.encode()) is None, name
    assert {steers(name) for name in (b"tests/a.txt", b"a/test_b.py", b"b_test.go", b"c.spec.ts")} == {"tests"}


def test_a_file_that_holds_other_things_counts_by_its_settings_alone():
    def same(name: bytes, before: bytes, now: bytes) -> bool:
        return same_settings(name, ("100644", before), ("100644", now))

    assert same(b"pyproject.toml", b'[project]\nname = "a"\n', b'[project]\nname = "b"\n')
    assert not same(b"pyproject.toml", b"", b'[tool.pytest.ini_options]\naddopts = "-x"\n')
    assert same(
        b"package.json", b'{"scripts": {"test": "a"}}', b'{"scripts": {"test": "a"}, "dependencies": {"b": "1"}}'
    )
    assert not same(b"package.json", b"{}", b'{"scripts": {"pretest": "a"}}')
    for broken in (b"[", b"\xff", b"[" * 50_000, b"[]", b"1"):
        assert not same(b"package.json", b"{}", broken)
        assert not same(b"pyproject.toml", b"", broken) or broken in (b"[]",)
    assert not same_settings(b"pyproject.toml", ("120000", b"x"), ("120000", b"y"))
    assert same_settings(b"setup.cfg", None, ("100644", b"[metadata]\nname = a\n"))
    assert not same_settings(b"Makefile", None, ("100644", b""))
