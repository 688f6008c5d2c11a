"""How a level is chosen or refused, and that no weaker one is used silently."""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.review.doctor.isolation_probe import survey
from stackmem.workspace import python
from stackmem.workspace.isolation.bubblewrap import Bubblewrap, find_bwrap
from stackmem.workspace.isolation.landlock import Landlock
from stackmem.workspace.isolation.levels import WORKSPACES, choose, forget, try_level
from stackmem.workspace.isolation.seccomp import AF_UNIX, build_filter
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.python import PythonInstallation, build_toolchain, running_interpreter
from stackmem.workspace.workspace import open_workspace
from tests.stage import with_bubblewrap
from tests.workspace.sandboxes import ALL, BUBBLEWRAP, CONFINED, LAYERED, MOUNTED, hostile, outside, sh

CHECKOUT = Path(__file__).parents[2]
BWRAP = shutil.which("bwrap") or ""
CHOOSE = """
import sys
from stackmem.core.errors import WorkspaceError
from stackmem.workspace.isolation.levels import choose
from stackmem.workspace.profile import Profile
try:
    print("took", choose(sys.argv[1], Profile()).name)
except WorkspaceError as error:
    print("exit", error.exit_code, error)
"""


def test_the_level_in_force_is_the_one_that_is_expected(toolchains):
    expected = os.environ.get("STACKMEM_EXPECT_LEVEL")
    forget()
    taken = choose("auto", Profile(), toolchains[False])
    assert taken.isolation == (expected or taken.isolation)
    assert choose("auto", Profile(), toolchains[False]) is taken


@pytest.mark.parametrize("name", ["", "bwrap", "Bubblewrap", "memory?"])
def test_an_unknown_level_is_named_with_those_that_are_known(name):
    with pytest.raises(UsageError, match="known: auto, bubblewrap, namespaces, landlock, none"):
        choose(name, Profile())


def _choose_under(isolation: str, *before: str) -> str:
    """Return the level that a process chooses after these shell commands in its own user namespace."""
    script = "; ".join((*before, 'exec "$@"'))
    call = ["unshare", "-Urm", "sh", "-ec", script, "sh", sys.executable, "-c", CHOOSE, isolation]
    done = subprocess.run(call, capture_output=True, text=True, timeout=100, cwd=CHECKOUT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_user_namespaces_no_level_is_taken_and_the_fix_is_printed():
    said = _choose_under("auto", "echo 0 > /proc/sys/user/max_user_namespaces")
    assert said.startswith("exit 5 no isolation level works here (bubblewrap: ")
    assert "namespaces: " in said
    assert "use a weaker level with --isolation landlock" in said


def test_without_user_namespaces_landlock_can_be_asked_for():
    assert _choose_under("landlock", "echo 0 > /proc/sys/user/max_user_namespaces") == "took landlock\n"


@with_bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="bwrap belongs to root, and only root can map root into a namespace")
def test_where_proc_is_masked_bubblewrap_does_without():
    # To the kernel any other visible /proc, for instance in a chroot, would count too.
    mask = "for p in $(awk '/ - proc /{print $5}' /proc/self/mountinfo); do mount -t tmpfs none $p/irq; done"
    script = f'{mask}; exec unshare -Um --map-root-user "$@"'
    call = ["unshare", "-Urmp", "--fork", "--mount-proc", "sh", "-ec", script, "sh", sys.executable, "-c", CHOOSE]
    done = subprocess.run([*call, "auto"], capture_output=True, text=True, timeout=100, cwd=CHECKOUT, check=False)
    assert done.stdout == "took bubblewrap (no /proc)\n", done.stderr


@with_bubblewrap
def test_a_bubblewrap_that_could_be_exchanged_is_refused(tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    cases = {
        "does not exist": tmp_path / "missing",
        "is not an executable program": tmp_path / "plain",
        "is in the workspace": workspace / "bwrap",
        "can be changed by other users": tmp_path / "loose",
        "is too old": tmp_path / "old",
    }
    cases["is not an executable program"].write_text("no")
    for name in ("is in the workspace", "can be changed by other users"):
        shutil.copy(BWRAP, cases[name])
    cases["can be changed by other users"].chmod(0o777)
    cases["is too old"].write_text("#!/bin/sh\necho '--args --bind-fd'\n")
    cases["is too old"].chmod(0o755)
    for said, path in cases.items():
        with pytest.raises(WorkspaceError, match=f"{path.name} {said}"):
            find_bwrap(workspace, (str(path),))
    link = tmp_path / "link"
    link.symlink_to(workspace / "bwrap")
    with pytest.raises(WorkspaceError, match="is in the workspace"):
        find_bwrap(workspace, (str(link),))
    assert find_bwrap(workspace, (str(link), BWRAP)) == BWRAP


def test_a_level_whose_program_is_missing_fails_its_probe_with_the_way_out(toolchains):
    probe = try_level(Bubblewrap(candidates=("/missing/bwrap",)), Profile(), toolchains[False])
    assert probe.failure == ("no usable bubblewrap: /missing/bwrap does not exist; install it (apt install bubblewrap)")


@hostile(*BUBBLEWRAP)
def test_a_sandbox_that_cannot_be_made_is_told_from_a_command_that_fails(place, level, opened):
    with opened(place, level) as workspace:
        assert sh(workspace, "exit 1").text == "[exit 1]"
        assert sh(workspace, "echo bwrap: Cannot mount; exit 1").exit_code == 1
    with opened(place, level, mounts=(Mount(str(place / "missing"), "/data"),)) as workspace:
        with pytest.raises(WorkspaceError, match="before the command ran"):
            sh(workspace, "true")
        assert os.listdir(workspace.root) == []


@hostile(*(level for level in ALL if level != LAYERED))  # which is a mount, and stays
def test_a_missing_workspace_is_refused_before_anything_starts(place, level, opened):
    with pytest.raises(WorkspaceError, match="no folder"):
        open_workspace("none", place / "missing", "/workspace", Profile())
    with opened(place, level) as workspace:
        workspace.root.rmdir()
        with pytest.raises(WorkspaceError, match="was removed"):
            sh(workspace, "true")


@hostile(*MOUNTED, documented=("namespaces", "landlock", "none"))
def test_the_workspace_appears_at_its_given_path(place, level, opened):
    for inside in ("/workspace", "/home/ann/repo", "/tmp/repo", "/opt/a/b/c", str(place / "ws"), "/w", "/var/lib/x"):
        with opened(place, level, inside=inside) as workspace:
            assert (workspace.path, workspace.level) == (inside, level.removesuffix(" on a layer"))
            done = sh(workspace, f"pwd; echo x > {inside}/written; ls -A {Path(inside).parent}/..")
            assert done.text.startswith(f"{inside}\n")
            assert place.name not in done.text or str(place) in inside
            (workspace.root / "written").unlink()


@hostile(*MOUNTED, documented=("namespaces", "landlock", "none"))
def test_no_folder_of_the_host_comes_along_with_the_workspaces_path(place, level, opened):
    outside(place)
    with opened(place, level, inside=str(place / "ws")) as workspace:
        assert sh(workspace, "ls -A ..").text == "ws\n[exit 0]"


@hostile(*MOUNTED, moot=("namespaces", "landlock", "none"))
def test_places_the_sandbox_needs_itself_are_refused_for_the_workspace(place, level, opened):
    for inside in ("/", "/usr", "/etc", "/etc/x", "/proc", "/proc/1/x", "/dev/shm", "/tmp", "/tmp/home", "/bin", "/opt",
                   "/opt/stackmem/python", "/opt/stackmem/python/x", "/sys", "/usr/nowhere/x"):  # fmt: skip
        with opened(place, level, inside=inside) as workspace, pytest.raises(WorkspaceError):
            sh(workspace, "true")


@hostile(*MOUNTED, moot=("namespaces", "landlock", "none"))
def test_mounts_below_what_commands_write_are_refused(place, level, opened):
    data = str(outside(place))
    for mounts in (
        (Mount(data, "/workspace/data"),),
        (Mount(data, "/logs", writable=True), Mount(data, "/logs/in")),
        (Mount(data, "/data"), Mount(data, "/data")),
    ):
        with opened(place, level, mounts=mounts) as workspace, pytest.raises(WorkspaceError, match="mounted inside"):
            sh(workspace, "true")


@hostile(*ALL)
def test_a_mount_is_where_place_says_and_as_writable_as_it_was_granted(place, level, opened):
    data, logs = outside(place), place / "logs"
    logs.mkdir()
    mounts = (Mount(str(data), "/tests"), Mount(str(logs), "/logs/verifier", writable=True))
    with opened(place, level, mounts=mounts) as workspace:
        tests, verifier = (workspace.place(mount) for mount in mounts)
        done = sh(workspace, f"cat {tests}/file; echo 1 > {verifier}/reward; echo x > {tests}/new")
    assert "what nobody may read" in done.text
    assert (logs / "reward").read_text() == "1\n"
    if level in CONFINED:
        assert os.listdir(data) == ["file"]


@hostile(*ALL)
def test_a_toolchain_of_the_profile_is_found_on_path(place, level, opened):
    tool = place / "tool" / "bin"
    tool.mkdir(parents=True)
    (tool / "frob").write_text("#!/bin/sh\necho frobbed\n")
    (tool / "frob").chmod(0o755)
    granted = {"path": ("/opt/frob/bin",)}
    profile = Profile(mounts=(Mount(str(place / "tool"), "/opt/frob"),), **granted)
    with opened(place, level) as workspace:
        toolchain = workspace._seat.toolchain
    one = open_workspace(workspace._level, place / "ws", "/workspace", profile, toolchain=toolchain)
    assert sh(one, "frob").text == "frobbed\n[exit 0]"
    one.close()


@hostile(*ALL)
def test_commands_that_cannot_be_passed_on_are_refused_in_words(place, level, opened):
    with opened(place, level) as workspace:
        for command, said in (
            ("a\0b", "NUL"),
            ("\ud800", "half a character"),
            ("x" * 200_000, "in parts of at most 30,000 bytes"),
        ):
            done = sh(workspace, command)
            assert done.failed
            assert said in done.text
        assert sh(workspace, "").text == "[exit 0]"
        assert sh(workspace, "echo 'ü€😀'").text == "ü€😀\n[exit 0]"


def test_the_survey_tells_of_every_level_what_it_promises(toolchains):
    findings = survey(Profile(), toolchains[False])
    assert list(dict.fromkeys(finding.isolation for finding in findings)) == list(WORKSPACES)
    assert findings[0].level == "bubblewrap"
    for finding in findings:
        assert finding.guarantees
        assert finding.leaks
        assert finding.available == (not finding.failure) == (not finding.remedy)
        own_network = finding.isolation in {"bubblewrap", "namespaces"}
        assert (finding.listed == "") == (finding.available and own_network)
    assert findings[-1].available


def test_landlock_that_is_too_old_would_be_said(toolchains):
    probe = try_level(Landlock(), Profile(), toolchains[False])
    assert probe.failure == "" or "Landlock" in probe.failure


def test_a_toolchain_is_built_once_and_shared(tmp_path):
    first = build_toolchain(tmp_path)
    assert build_toolchain(tmp_path) == first
    (link,) = (path for path in tmp_path.iterdir() if path.is_symlink())
    assert set(tmp_path.iterdir()) == {link, Path(first.environment)}
    assert link.resolve() == Path(first.environment)


def test_a_toolchain_that_is_gone_is_built_again_and_one_of_other_packages_beside_it(tmp_path, monkeypatch):
    first = build_toolchain(tmp_path)
    shutil.rmtree(first.environment)
    assert build_toolchain(tmp_path) == first
    assert (Path(first.environment) / "bin" / "pytest").is_file()
    monkeypatch.setattr(python, "_installed", lambda: ("a folder that has changed",))
    monkeypatch.setattr(python, "_distributions", lambda _: {"pytest": metadata.distribution("pytest")})
    assert build_toolchain(tmp_path) != first


def test_a_cache_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(WorkspaceError, match="XDG_CACHE_HOME"):
        build_toolchain(tmp_path / "cache")


def test_the_interpreter_is_the_installation_below_the_virtual_environment():
    found = running_interpreter()
    assert isinstance(found, PythonInstallation)
    assert found.executable.is_relative_to(found.prefix)
    code = "import sys; print(sys.prefix)"
    said = subprocess.run([found.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert Path(said.strip()).resolve() == found.prefix


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_whole_instructions_with_jumps_that_stay_inside(machine):
    program = build_filter(families=(AF_UNIX,), tracing=False, machine=machine)
    count, rest = divmod(len(program), 8)
    assert rest == 0
    for index in range(count):
        code, yes, no = program[index * 8], program[index * 8 + 2], program[index * 8 + 3]
        if code & 7 == 5:
            assert index + 1 + max(yes, no) < count
    assert program[-8:-6] == b"\x06\x00"


def test_a_machine_without_a_table_is_refused():
    with pytest.raises(WorkspaceError, match="riscv64"):
        build_filter(families=(), tracing=True, machine="riscv64")


@hostile(*CONFINED, moot=("none",))
def test_programs_that_insist_on_the_settings_of_openssl_can_read_them(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(workspace, "test ! -e /etc/ssl/openssl.cnf || head -c 1 /etc/ssl/openssl.cnf >/dev/null")
    assert done.text == "[exit 0]"
