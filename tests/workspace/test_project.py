"""A folder's tools: detected automatically, and granted only if they are genuine."""

import os
from pathlib import Path

import pytest

from stackmem.workspace.profile import Profile
from stackmem.workspace.project.installations import find_program, runnable
from stackmem.workspace.project.project import Project, find_project
from stackmem.workspace.python import Toolchain


def made(root: Path, *names: str, **texts: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts.get(path.name.replace(".", "_"), ""), encoding="utf-8")
    return root


def environment(folder: Path, python: Path, name: str = ".venv") -> Path:
    made(folder, f"{name}/pyvenv.cfg", pyvenv_cfg=f"home = {python.parent}\nversion = 3.12.4\n")
    (folder / name / "bin").mkdir()
    (folder / name / "bin" / "python3").symlink_to(python)
    (folder / name / "bin" / "python").symlink_to("python3")
    return folder


def installation(place: Path) -> Path:
    """A Python installation, as far as its files show."""
    made(place, "lib/python3.12/os.py", "bin/python3.12")
    program = place / "bin" / "python3.12"
    program.chmod(0o755)
    return program


def test_an_interpreter_outside_is_granted_at_every_path_that_leads_to_it(tmp_path: Path):
    program = installation(tmp_path / "cpython-3.12.4")
    (tmp_path / "cpython-3.12").symlink_to("cpython-3.12.4")
    project = find_project(environment(tmp_path / "hers", tmp_path / "cpython-3.12" / "bin" / "python3.12"))
    assert project.installations == (str(tmp_path / "cpython-3.12"), str(program.parent.parent))
    assert (project.environment, project.version, project.missing) == (".venv", "3.12.4", ())
    assert project.path("/w") == ("/w/.venv/bin",)
    assert project.variables("/w") == {"VIRTUAL_ENV": "/w/.venv"}
    own = Toolchain(prefix=str(tmp_path / "cpython-3.12.4"), environment="/e")
    assert [mount.host for mount in project.mounts(Profile(), own)] == [str(tmp_path / "cpython-3.12")]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("home", "contains more than programs"),
        ("home/.local", "contains more than programs"),
        ("home/.ssh", "contains more than programs"),
        ("", "contains more than programs"),
        ("keys", "is not a Python installation"),
    ],
)
def test_a_folder_cannot_expose_a_fake_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, says: str
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    program = installation(tmp_path / where)
    if where == "keys":
        (tmp_path / "keys" / "lib" / "python3.12" / "os.py").unlink()
    project = find_project(environment(tmp_path / "home" / "code" / "hers", program))
    assert (project.installations, project.environment, project.text) == ((), "", "")
    (sentence,) = project.missing
    assert says in sentence
    assert "--profile FILE" in sentence


def test_an_environment_that_leads_nowhere_or_out_is_named(tmp_path: Path):
    gone = find_project(environment(tmp_path / "a", tmp_path / "nowhere" / "bin" / "python3"))
    assert gone.missing == (f".venv/bin/python leads to {tmp_path}/nowhere/bin/python3, which is not a program; "
                            "create the environment again",)  # fmt: skip
    environment(tmp_path / "central", installation(tmp_path / "py"), "env")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".venv").symlink_to(tmp_path / "central" / "env")
    out = find_project(tmp_path / "b")
    assert (out.environment, out.installations) == ("", ())
    assert out.missing[0].startswith(".venv leads out of the folder; grant it")


def test_an_editable_installation_outside_is_named_unless_it_is_granted(tmp_path: Path):
    folder = environment(tmp_path / "hers", installation(tmp_path / "py"), "env")
    (folder / "env/lib/python3.12/site-packages").mkdir(parents=True)
    inner, outer = folder / "src", tmp_path / "library" / "src"
    (folder / "env/lib/python3.12/site-packages/x.pth").write_text(f"import os\n{inner}\n{outer}\n", encoding="utf-8")
    assert find_project(folder) == Project()  # an ignored folder of that name is copied if it is included
    assert [str(outer) in text for text in find_project(folder, ("env/",)).missing] == [True]
    assert find_project(folder, ("env",), granted=(str(tmp_path / "library"),)).missing == ()


@pytest.mark.parametrize(
    ("names", "texts", "commands", "locks"),
    [
        (("README.md",), {}, [], []),
        (("pyproject.toml",), {"pyproject_toml": "[project]\n"}, [], []),
        (("pyproject.toml", "uv.lock"), {"pyproject_toml": "[tool.pytest.ini_options]\n"}, ["python -m pytest -q"],
         ["uv.lock"]),
        (("tests/test_a.py",), {}, ["python -m pytest -q"], []),
        ((".venv/pyvenv.cfg", ".venv/bin/python", "tests/test_a.py"),
         {"pyvenv_cfg": "home = /usr/bin", "test_a_py": "import unittest"}, ["python -m unittest discover tests"], []),
        ((".venv/pyvenv.cfg", ".venv/bin/python", "tests/test_a.py", "tests/__init__.py"),
         {"pyvenv_cfg": "home = /usr/bin", "test_a_py": "from unittest import TestCase"},
         ["python -m unittest discover"], []),
        ((".venv/pyvenv.cfg", ".venv/bin/python", "tests/test_a.py"),
         {"pyvenv_cfg": "home = /usr/bin", "test_a_py": "def test_a(): pass"}, ["python -m pytest -q"], []),
        (("package.json",), {"package_json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, [], []),
        (("package.json", "pnpm-lock.yaml"), {"package_json": '{"scripts": {"test": "vitest"}}'}, ["pnpm test"],
         ["pnpm-lock.yaml"]),
        (("package.json",), {"package_json": "[" * 100_000}, [], []),
        (("package.json",), {"package_json": '{"scripts": ["test"]}'}, [], []),
        (("Cargo.toml", "go.mod", "Makefile"), {"Makefile": "test: all\n\tx\n"},
         ["make test", "cargo test --offline", "go test ./..."], []),
        (("Cargo.toml", "package.json"),
         {"package_json": '{"scripts": {"test": "jest"}, "packageManager": "yarn@4.1"}'},
         ["yarn test", "cargo test --offline"], []),
        (("Makefile",), {"Makefile": "test := 3\n"}, [], []),
    ],
)  # fmt: skip
def test_test_commands_and_locks_are_what_the_files_say(tmp_path: Path, names, texts, commands, locks):
    folder = made(tmp_path, *names, **texts)
    if (python := folder / ".venv/bin/python").exists():
        python.chmod(0o755)
    project = find_project(folder)
    assert [suite.command for suite in project.suites] == commands
    assert list(project.locks) == locks


@pytest.mark.parametrize(
    ("there", "commands", "message"),
    [
        (("pnpm", "npm"), ["pnpm test", "cargo test --offline"], ""),
        (("npm",), ["npm test", "cargo test --offline"], ""),
        ((), ["pnpm test", "cargo test --offline"], "the tests need pnpm (package.json), and commands do not find it"),
    ],
)
def test_a_missing_program_of_the_tests_is_named(tmp_path: Path, monkeypatch, there, commands, message):
    """The Cargo.toml of a native part is not the project's test command, even if pnpm is missing."""
    system = made(tmp_path / "system", *there)
    system.mkdir(exist_ok=True)
    monkeypatch.setattr("stackmem.workspace.project.project.SYSTEM_PATH", (str(system),))
    texts = {"package_json": '{"scripts": {"test": "vitest"}}'}
    folder = made(tmp_path / "p", "package.json", "pnpm-lock.yaml", "Cargo.toml", **texts)
    project = find_project(folder, search="/usr/bin")
    assert [suite.command for suite in project.suites] == commands
    named = [one for one in project.missing if one.startswith("the tests need")]
    assert [one.startswith(message) for one in named] == ([True] if message else [])
    assert there != ("npm",) or project.suites[0].reason == "package.json (commands do not find pnpm)"


def test_tests_that_only_pytest_finds_are_not_given_to_unittest_which_would_pass(tmp_path: Path):
    folder = made(
        tmp_path, ".venv/pyvenv.cfg", ".venv/bin/python", "test_a.py", pyvenv_cfg="home = /usr/bin",
        test_a_py="def test_a(): pass",
    )  # fmt: skip
    (folder / ".venv/bin/python").chmod(0o755)
    assert "the tests need pytest and .venv lacks it; install it there before the run" in find_project(folder).missing
    made(folder, ".venv/lib/python3.12/site-packages/pytest/__init__.py")
    assert not any("pytest" in text for text in find_project(folder).missing)


def test_a_file_that_would_block_its_reader_is_passed_over(tmp_path: Path):
    os.mkfifo(tmp_path / "pyproject.toml")
    os.mkfifo(tmp_path / "package.json")
    assert find_project(tmp_path) == Project()


def test_node_is_taken_from_her_own_path_and_only_where_it_is_needed(tmp_path: Path):
    place = tmp_path / "versions" / "v22"
    made(place, "bin/node", "lib/node_modules/npm/x")
    made(tmp_path / "shims", "node")
    folder = made(tmp_path / "hers", "node_modules/.bin/vitest")
    assert find_project(folder, search=f"relative:{place}/bin").installations == ()
    made(folder, "package.json", package_json="{}")
    project = find_project(folder, search=f"relative:{place}/bin")
    assert project.installations == (str(place),)
    assert project.path("/w") == ("/w/node_modules/.bin", f"{place}/bin")
    assert "not a separate installation" in find_project(folder, search=f"{tmp_path}/shims:{place}/bin").missing[0]
    assert "no node on your PATH" in find_project(folder).missing[0]


def test_a_second_view_of_the_system_or_of_a_home_is_no_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "her-home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "her-home"))
    installation(tmp_path / "system" / "usr")
    for name in ("bin", "lib"):  # as on current systems
        (tmp_path / "system" / name).symlink_to(f"usr/{name}")
    project = find_project(environment(tmp_path / "hers", tmp_path / "system" / "bin" / "python3.12"))
    assert str(tmp_path / "system") not in project.installations
    assert "contains more than programs" in project.missing[0]


def test_what_names_another_folder_to_each_process_is_not_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    installation(tmp_path / "hers" / "py")
    monkeypatch.chdir(tmp_path / "hers")
    folder = environment(tmp_path / "hers", Path("/proc/self/cwd/py/bin/python3.12"))
    project = find_project(folder)
    assert project.installations == ()
    assert "contains more than programs" in project.missing[0]


def test_node_in_a_home_shows_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = made(tmp_path / "home", "bin/node", "lib/node_modules/npm/package.json", ".ssh/id")
    (home / "bin" / "node").chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    project = find_project(made(tmp_path / "hers", "package.json"), search=str(home / "bin"))
    assert project.installations == ()
    assert "contains more than programs" in project.missing[0]


@pytest.mark.parametrize(
    ("names", "sentences"),
    [
        (("uv.lock",), ["uv.lock exists but .venv does not; if the tests need these packages, install them"]),
        (("pyproject.toml", "src/a.py"), ["pyproject.toml exists but .venv does not; "]),
        (("pyproject.toml", "a.py"), []),
        (("package.json",), ["package.json exists but node_modules does not; "]),
        (("package.json", "node_modules/a/index.js"), []),
        (("Cargo.lock",), []),
    ],
)  # fmt: skip
def test_what_the_tests_may_need_and_is_not_installed_is_named(tmp_path: Path, names, sentences):
    folder = made(tmp_path, *names, package_json='{"devDependencies": {"uvu": "1"}}')
    missing = [one for one in find_project(folder).missing if "no node on your PATH" not in one]
    assert len(missing) == len(sentences)
    assert all(map(str.startswith, missing, sentences))


def test_a_program_of_an_environment_is_run_from_there_and_sees_it_and_its_python(tmp_path: Path):
    program = installation(tmp_path / "cpython-3.12")
    place = environment(tmp_path / "tools", program) / ".venv"
    made(place, "bin/agent")
    (tmp_path / "on-path").symlink_to(place / "bin" / "agent")
    assert runnable(tmp_path / "on-path") == place / "bin" / "agent"
    assert find_program(place / "bin" / "agent") == (str(place), str(program.parent.parent))
    checkout = made(tmp_path / "work", "agent/__init__.py", "secrets.txt")
    link = "lib/python3.12/site-packages/agent-1.0.dist-info/direct_url.json"
    made(place, link, direct_url_json=f'{{"dir_info": {{"editable": true}}, "url": "file://{checkout}"}}')
    assert find_program(place / "bin" / "agent")[2:] == (str(checkout / "agent"),)


@pytest.mark.parametrize(
    ("files", "seen"),
    [
        (("bin/node", "lib/node_modules/agent/cli.js"), ""),
        (("lib/node_modules/agent/cli.js",), "lib/node_modules"),
        (("lib/node_modules/agent/cli.js", "lib/node_modules/agent/node_modules/dep/index.js"), "lib/node_modules"),
        (("lib/node_modules/@maker/agent/cli.js",), "lib/node_modules"),
    ],
)
def test_a_program_of_node_sees_the_modules_that_it_is_among(tmp_path: Path, files: tuple[str, ...], seen: str):
    place = made(tmp_path / "node", *files)
    (tmp_path / "agent").symlink_to(place / files[-1])
    assert runnable(tmp_path / "agent") == place / files[-1]
    assert find_program(place / files[-1]) == (str(place / seen),)


def test_a_program_by_itself_sees_itself_and_one_of_the_system_nothing_more(tmp_path: Path):
    made(tmp_path, "agent")
    assert find_program(tmp_path / "agent") == (str(tmp_path / "agent"),)
    assert find_program(Path("/usr/bin/env")) == ()
