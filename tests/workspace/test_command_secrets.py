"""A sandbox contains no secret of the user's environment and nothing of the harness."""

import contextlib
import os

from stackmem.workspace.profile import Profile
from tests.workspace.sandboxes import ALL, BUBBLEWRAP, CONFINED, MOUNTED, bystander, hostile, layered_too, py, sh

CANARY = "canary-1f0e7a"
SECRETS = ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGPASSWORD", "GOOGLE_APPLICATION_CREDENTIALS")
AGENTS = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
          "DOCKER_HOST", "GIT_ASKPASS", "NPM_CONFIG__AUTH", "PIP_INDEX_URL",
          "LD_PRELOAD_X", "PYTHONSTARTUP", "HTTP_PROXY", "BASH_ENV", "ENV", "XDG_RUNTIME_DIR")  # fmt: skip


@contextlib.contextmanager
def environment(**values: str):
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@hostile(*ALL)
def test_nothing_of_the_callers_environment_is_inherited(place, level, opened):
    with environment(**dict.fromkeys((*SECRETS, *AGENTS), CANARY)), opened(place, level) as workspace:
        done = sh(workspace, "env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert CANARY not in done.text
    assert not done.text.count("stackmem-tests")


@hostile(*CONFINED, documented=("none",))
def test_no_environment_of_any_process_holds_a_secret(place, level, opened):
    with bystander({"ANTHROPIC_API_KEY": CANARY}), opened(place, level) as workspace:
        done = sh(workspace, "cat /proc/[0-9]*/environ /proc/[0-9]*/task/*/environ /proc/1/environ | tr '\\0' '\\n'")
    assert CANARY not in done.text


@hostile(*MOUNTED, documented=("namespaces", "landlock", "none"))
def test_no_command_line_shows_a_path_of_the_host(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(workspace, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; pwd; env")
    assert str(place) not in done.text
    assert "stackmem-" not in done.text


@hostile(*layered_too(ALL))
def test_only_the_three_standard_descriptors_are_open(place, level, opened):
    program = """
import os
for fd in range(3, 1024):
    try:
        os.fstat(fd)
        print(fd)
    except OSError:
        pass
"""
    kept, _ = os.pipe()
    os.set_inheritable(kept, True)
    with opened(place, level) as workspace:
        # The script itself is one of the interpreter's descriptors only while it is read.
        assert py(workspace, program).text == "[exit 0]"
        assert sh(workspace, "read x; echo $?").text == "1\n[exit 0]"


@hostile(*ALL)
def test_a_name_that_is_granted_arrives_and_its_neighbours_do_not(place, level, opened):
    with environment(GRANTED="yes", NEIGHBOUR="no"), opened(place, level, granted=("GRANTED",)) as workspace:
        assert sh(workspace, "echo $GRANTED-$NEIGHBOUR").text == "yes-\n[exit 0]"


@hostile(*ALL)
def test_variables_of_a_task_reach_its_commands(place, level, opened):
    with opened(place, level, env={"TESTS_DIR": "/tests"}) as workspace:
        assert sh(workspace, "echo $TESTS_DIR").text == "/tests\n[exit 0]"


@hostile(*ALL)
def test_the_packages_of_the_harness_cannot_be_imported_and_pytest_can(place, level, opened):
    program = "import importlib\nfor name in ('anthropic', 'msgspec', 'stackmem', 'httpx', 'typer', 'pytest'):\n"
    program += "    try:\n        importlib.import_module(name); print(name)\n    except ImportError: pass"
    with opened(place, level) as workspace:
        assert py(workspace, program).text == "pytest\n[exit 0]"


@hostile(*BUBBLEWRAP, "namespaces", "landlock")
def test_pytest_runs_as_a_program_and_as_a_module_beside_a_path_of_the_task(place, level, opened):
    with opened(place, level) as workspace:
        (workspace.root / "src").mkdir()
        (workspace.root / "src/calc.py").write_text("one = 1\n")
        (workspace.root / "test_calc.py").write_text("import calc\n\ndef test_it():\n    assert calc.one == 1\n")
        for call in ("pytest -q", "python3 -m pytest -q"):
            done = sh(workspace, f"PYTHONPATH=src {call}")
            assert "1 passed" in done.text, done.text


def test_defaults_grant_nothing_of_the_person():
    profile = Profile()
    assert (profile.env, profile.mounts, profile.path, profile.network) == ((), (), (), "none")
