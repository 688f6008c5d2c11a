"""Folders of a layer are renamed as in any other folder, and a supervised rename gives a command no new rights."""

import contextlib
import os
from collections import Counter
from pathlib import Path

from stackmem.workspace.family import children
from stackmem.workspace.renames import supervisor
from tests.workspace.sandboxes import LAYERED, hostile, outside, sh, soon

MOOT = ("namespaces", "landlock", "none")
RENAME = """
import ctypes, errno, os, sys
def rename(old, new, flags=0):
    done = ctypes.CDLL(None, use_errno=True).renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags)
    return errno.errorcode[ctypes.get_errno()] if done else "done"
"""


def lower(place: Path) -> Path:
    """A user's folder with a folder ``d`` in it."""
    below = place / "ws" / "d" / "below"
    below.mkdir(parents=True)
    (below / "deep").write_text("deep")
    (below.parent / "file").write_text("kept")
    (below.parent / "file").chmod(0o640)
    (below.parent / "link").symlink_to("file")
    below.chmod(0o555)
    os.utime(below.parent, (1, 2))
    return below.parent


def program(place: Path, text: str) -> None:
    (place / "ws" / "try.py").write_text(RENAME + text)


@hostile(LAYERED, moot=MOOT)
def test_a_folder_of_the_user_is_renamed_with_all_that_is_in_it(place, level, opened):
    """Regression test: rename(2) and git mv failed with EXDEV."""
    lower(place)
    program(place, "os.rename('d', 'e')\nos.mkdir('x')\nos.rename('e', 'x')\nos.rename('x/', 'y')")
    with opened(place, level) as workspace:
        told = sh(workspace, "python try.py && ls -A && stat -c '%a %n' y/below y/file && stat -c %Y y && cat y/*/deep")
        assert told.text == "try.py\ny\n555 y/below\n640 y/file\n2\ndeep\n[exit 0]"
        assert sh(workspace, "mkdir d && ls -A d && rmdir d && mv y d && ls d").text == "below\nfile\nlink\n[exit 0]"
    assert sorted(os.listdir(place / "ws")) == ["d", "try.py"]
    assert (place / "ws" / "d" / "below" / "deep").read_text() == "deep"


@hostile(LAYERED, moot=MOOT)
def test_git_mv_renames_a_folder_of_the_user(place, level, opened):
    lower(place)
    program(place, "print(rename('.git', 'g'))")
    with opened(place, level) as workspace:
        begun = sh(workspace, "git init -q && git add -A && git commit -qm start")
        assert not begun.failed, begun.text
        told = sh(workspace, "git mv d e && git status --short && ls e")
        assert told.text == (
            "R  d/below/deep -> e/below/deep\nR  d/file -> e/file\nR  d/link -> e/link\nbelow\nfile\nlink\n[exit 0]"
        )
        assert sh(workspace, "python -c \"import os; os.rename('.git', 'g')\" 2>&1 | tail -1").text.startswith(
            "OSError"
        )
        assert sh(workspace, "git log --oneline | wc -l").text == "1\n[exit 0]"


@hostile(LAYERED, moot=MOOT)
def test_renames_that_are_refused_elsewhere_are_refused_alike(place, level, opened):
    lower(place)
    (place / "ws" / "full").mkdir()
    (place / "ws" / "full" / "file").write_text("full")
    (place / "ws" / "plain").write_text("plain")
    (place / "ws" / "hollow").mkdir()
    program(
        place,
        "for old, new, flags in [('d', 'full', 0), ('d', 'plain', 0), ('d', 'd/below/x', 0), ('d', 'hollow', 1),"
        " ('none', 'x', 0), ('d', 'no/x', 0), ('d', 'full', 2), ('d', '/tmp/d', 0), ('d', 'hollow', 0)]:\n"
        "    print(rename(old, new, flags))",
    )
    with opened(place, level) as workspace:
        told = sh(workspace, "python try.py; ls -A; ls hollow").text.split()
    errors = ["ENOTEMPTY", "ENOTDIR", "EINVAL", "EEXIST", "ENOENT", "ENOENT", "EXDEV", "EXDEV", "done"]
    assert told == [*errors, "full", "hollow", "plain", "try.py", "below", "file", "link", "[exit", "0]"]


@hostile(LAYERED, moot=MOOT)
def test_a_supervised_rename_reaches_nothing_outside(place, level, opened):
    lower(place)
    secret = outside(place)
    (secret / "d").mkdir()
    (place / "ws" / "out").symlink_to(secret)
    (place / "ws" / "up").symlink_to("../outside")
    program(
        place,
        f"out = {str(secret)!r}\n"
        "for old, new in [('out/d', 'x'), ('up/d', 'x'), (out + '/d', 'x'), ('d', 'out/x'), ('d', out + '/x'),"
        " ('../outside/d', 'x'), ('d', '../outside/x'), ('/proc/1/root' + out + '/d', 'x'), ('d', '/usr/x')]:\n"
        "    print(rename(old, new))",
    )
    with opened(place, level) as workspace:
        told = sh(workspace, "python try.py").text.split("\n")
        assert "done" not in told
        assert set(told[:-1]) <= {"ENOENT", "EXDEV", "EACCES", "EROFS"}, told
        assert sh(workspace, "ls d").text == "below\nfile\nlink\n[exit 0]"
    assert sorted(os.listdir(secret)) == ["d", "file"]


@hostile(LAYERED, moot=MOOT)
def test_a_rename_that_is_killed_leaves_one_whole_folder(place, level, opened):
    many = place / "ws" / "d"
    for number in range(20):
        (many / f"{number}").mkdir(parents=True)
        for file in range(25):
            (many / f"{number}" / f"{file}").write_text("kept")
    program(place, "os.rename('d', 'e')")
    with opened(place, level) as workspace:
        sh(workspace, "python try.py", 0.2)
        left = set(os.listdir(workspace.root)) - {"try.py"}
        assert left <= {"d", "e"}, left
        found = sh(workspace, "for each in [de]; do find $each -type f | wc -l; done").text.split("\n")[:-1]
        assert "500" in found


@hostile(LAYERED, moot=MOOT)
def test_without_a_supervisor_the_kernel_renames(place, level, opened, monkeypatch):
    lower(place)
    monkeypatch.setattr(supervisor, "_listen", lambda _: -1)
    program(place, "print(rename('try.py', 'other.py'), rename('d', 'e'))\nos.rename('d', 'e')")
    with opened(place, level) as workspace:
        told = sh(workspace, "python try.py").text.splitlines()
        assert told[0] == "done EXDEV"
        assert told[-2] == "(this folder cannot be renamed in one step; mv, or cp -r and rm -r, work)"


@hostile(LAYERED, moot=MOOT)
def test_a_supervisor_leaves_no_process_thread_or_descriptor(place, level, opened):
    lower(place)
    program(place, "os.rename('d', 'e'); os.rename('e', 'd')")
    with opened(place, level) as workspace:
        before = open_descriptors()
        sh(workspace, "python try.py")
        assert soon(lambda: open_descriptors() <= before), open_descriptors() - before
        assert all(b"renameat2" not in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children(os.getpid()))


def open_descriptors() -> Counter[str]:
    """Count what this process has open, except the folder that is listed for that."""
    found = Counter()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[str(Path(f"/proc/self/fd/{name}").readlink()).partition("[")[0]] += 1
    return found
