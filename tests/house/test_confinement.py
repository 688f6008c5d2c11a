"""Tests cannot change their machine: a mount namespace prevents it, and sentinels would report it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import sentinels
from tests.confinement import is_read_only
from tests.stage import ROOT, eventually

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot change the machine's files")
PLACES = ["/etc", "/usr", "/usr/bin", "/var/lib", "/opt", str(sentinels.HOME), str(sentinels.HOME / ".ssh")]

INTRUDER = """
from pathlib import Path

def test_harmless(): pass

def test_intruder(): Path({place!r}).write_text("changed")

def test_later(): pass
"""


def run_python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, check=False)


@as_root
@pytest.mark.parametrize("place", [place for place in PLACES if Path(place).is_dir()])
def test_the_machine_is_read_only_for_tests_that_run_as_root(place: str):
    probe = Path(place, f"stackmem-probe-{os.getpid()}")
    with pytest.raises(OSError, match="Read-only file system"):
        probe.mkdir()


def test_the_checkout_and_the_temporary_folder_stay_writable(tmp_path: Path):
    assert not is_read_only(ROOT)
    assert not is_read_only(tmp_path)
    assert not is_read_only(Path("/dev/shm"))


@as_root
def test_a_confined_process_and_its_children_write_only_to_the_folders_given(tmp_path: Path):
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
    (tmp_path / "outside" / "decoy").write_text("untouched")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside" / "decoy")
    code = (
        "import subprocess, sys; from pathlib import Path; from tests.confinement import make_read_only\n"
        "inside, outside = map(Path, sys.argv[1:]); make_read_only([inside])\n"
        "(inside / 'file').write_text('x')\n"
        "for place in (outside / 'decoy', inside / 'link', outside / 'new'):\n"
        "    print(subprocess.run(['sh', '-c', 'echo changed > \"$1\"', '-', place], stderr=2).returncode)\n"
    )
    done = run_python(code, str(tmp_path / "inside"), str(tmp_path / "outside"))
    assert done.stdout.split() == ["2", "2", "2"], done.stderr
    assert done.stderr.count("Read-only file system") == 3
    assert sorted(os.listdir(tmp_path / "outside")) == ["decoy"]
    assert (tmp_path / "outside" / "decoy").read_text() == "untouched"


@as_root
def test_the_files_of_the_tests_are_in_memory_if_there_is_enough(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from tests.confinement import *\n"
        "folder = Path(sys.argv[1]); make_read_only([folder.parent])\n"
        "print(mount_memory(folder, 5 << 30), mount_memory(folder, 6 << 30), folder.is_mount())\n"
        "(folder / 'file').write_text('x'); unmount_at_exit(folder)\n"
    )
    folder = tmp_path / "memory"
    folder.mkdir()
    done = run_python(code, str(folder))
    assert done.stdout.split() == ["False", "True", "True"], done.stderr
    eventually(lambda: not folder.exists())


@as_root
def test_without_the_right_to_change_mounts_tests_run_as_an_unprivileged_user_or_not_at_all():
    words = ["setpriv", "--bounding-set", "-sys_admin", sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n0"]
    done = subprocess.run(
        [*words, "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), "tests/house/test_confinement.py",
         "-k", "stay_writable"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    refused = "Run the tests as an ordinary user, or in a container with CAP_SYS_ADMIN" in done.stderr
    assert refused or done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("how", ["after each test", "at the end of the run"])
def test_a_test_that_writes_outside_fails_the_run_and_is_named(tmp_path: Path, how: str):
    decoy = tmp_path / "machine" / "passwd"
    decoy.parent.mkdir()
    decoy.write_text("root:x:0:0")
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_it.py").write_text(INTRUDER.format(place=str(decoy)))
    watch = {
        "after each test": (
            f"sentinels.BEST_KNOWN = {[str(decoy)]!r}; sentinels.quick.__defaults__ = (sentinels.BEST_KNOWN,)\n"
            "from tests.conftest import _shared, surroundings\n"
        ),
        "at the end of the run": (
            "from pathlib import Path\n"
            "def pytest_configure(config):\n"
            f"    run = sentinels.WholeRun(lambda: sentinels.look([Path({str(decoy.parent)!r})]))\n"
            "    config.pluginmanager.register(run)\n"
        ),
    }
    (project / "conftest.py").write_text(f"from tests import sentinels\n{watch[how]}")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--import-mode=importlib",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*words, str(project)], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout
    assert str(decoy) in done.stdout
    if how == "after each test":
        assert "ERROR test_it.py::test_intruder" in done.stdout
        assert "test_harmless" not in done.stdout
    else:
        assert "passwd changed during the run; under way then" in done.stdout
        assert "test_it.py::test_intruder" in done.stdout


def test_the_comparison_of_the_machine_names_each_file_that_a_command_changed(tmp_path: Path):
    machine = tmp_path / "machine"
    (machine / "etc").mkdir(parents=True)
    (machine / "cache").mkdir()
    for name in ("passwd", "group", "hosts"):
        (machine / "etc" / name).write_text("untouched")
    script = "cd $0; echo changed > etc/passwd; rm etc/group; chmod 600 etc/hosts; echo new > etc/new; echo x > cache/x"
    compare = [
        sys.executable,
        "-m",
        "tests.unchanged",
        "--root",
        str(machine),
        "--except",
        str(machine / "cache"),
        "--",
    ]
    done = subprocess.run(
        [*compare, "sh", "-c", script, str(machine)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    changes = [line.replace(str(machine), "") for line in done.stdout.splitlines()]
    assert changes[:-1] == ["removed /etc/group", "changed /etc/hosts", "added /etc/new", "changed /etc/passwd"]
    assert done.returncode == 1
    quiet = subprocess.run([*compare, "true"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert quiet.returncode == 0, quiet.stdout
