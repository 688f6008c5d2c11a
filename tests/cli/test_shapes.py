"""Repositories of common shapes: an edit fixes a bug, the repository's own tests decide, and the patch is applied."""

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Struct

from stackmem.core.facts import ToolReturned
from tests.history.folders import Content, folder, repository, run_git
from tests.stage import ROOT, Reply, Stage, call, command, events, mounted, pop

VERSION = ".".join(map(str, sys.version_info[:3]))
SUITE = """import unittest
from adder import add
class Test(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 2), 4)
"""
WRONG, RIGHT = "a - b", "a + b"
ADDER = "def add(a, b):\n    return a - b\n"
UNITTEST = "python -m unittest discover tests"
SHELL: dict[str, Content] = {"add.sh": "echo $(($1 - $2))\n", "Makefile": 'test:\n\ttest "$$(sh add.sh 2 2)" = 4\n'}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "4d7a" * 16 + "\nsize 12345\n"


class Shape(Struct):
    """A repository with a bug.

    Attributes:
        place: The folder to work in.
        path: The file with the bug, in which ``old`` is to become ``new``.
        test: The command that runs its tests.
        check: How the user names that command.
        flags: Further options of the user.
        replies: The agent's actions in addition to the edit.
        changed: Further files that the patch changes.
    """

    place: Path
    path: str
    test: str
    old: str = WRONG
    new: str = RIGHT
    check: str = "auto"
    flags: tuple[str, ...] = ()
    replies: tuple[Reply, ...] = ()
    changed: tuple[str, ...] = ()


def python_with_venv(root: Path) -> Shape:
    """The tests' dependencies are installed only in the project's own environment."""
    files = {"adder.py": ADDER, "tests/test_adder.py": "import theirs\n" + SUITE, ".gitignore": ".venv/\n"}
    place = repository(root, dict(files))
    venv.create(place / ".venv", symlinks=True)
    (site,) = (place / ".venv").glob("lib/python3*/site-packages")
    (site / "theirs.py").write_text("", encoding="utf-8")
    return Shape(place, "adder.py", UNITTEST)


def python_with_uv(root: Path) -> Shape:
    """As ``uv sync`` leaves it: no pip, the project installed as editable, the interpreter outside."""
    place = repository(root, {
        "src/adder/__init__.py": ADDER, "tests/test_adder.py": SUITE, "uv.lock": "version = 1\n",
        ".gitignore": ".venv\n", "pyproject.toml": '[project]\nname = "adder"\nversion = "1"\n',
    })  # fmt: skip
    interpreter = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
    site = f"lib/python3.{sys.version_info.minor}/site-packages"
    folder(place / ".venv", {
        "pyvenv.cfg": f"home = {interpreter.parent}\nimplementation = CPython\nuv = 0.9.8\nversion_info = {VERSION}\n",
        "bin/python": f"->{interpreter}", "bin/python3": "->python", f"{site}/_adder.pth": f"{place}/src\n",
        ".gitignore": "*",
    })  # fmt: skip
    return Shape(place, "src/adder/__init__.py", UNITTEST)


def node(root: Path) -> Shape:
    """The test runner is a program from a dependency."""
    prove = '#!/usr/bin/env node\nrequire(process.cwd() + "/" + process.argv[2]); console.log("proved")\n'
    place = repository(root, {
        "add.js": "module.exports = (a, b) => a - b\n", ".gitignore": "node_modules/\n", "package-lock.json": "{}\n",
        "test.js": 'require("node:assert").equal(require("./add.js")(2, 2), require("four"))\n',
        "package.json": '{"name": "adder", "scripts": {"test": "prove test.js"}}\n',
    })  # fmt: skip
    folder(place / "node_modules", {
        "four/index.js": "module.exports = 4\n", "prove/cli.js": prove, ".bin/prove": "->../prove/cli.js",
    })  # fmt: skip
    return Shape(place, "add.js", "npm test")


def rust(root: Path) -> Shape:
    """A profile grants access to the toolchain."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # the test user's is empty, and rustup looks there
    asked = subprocess.run(
        ["rustc", "--print", "sysroot"], env={**os.environ, "HOME": home}, capture_output=True, text=True, check=True
    )
    sysroot = asked.stdout.strip()
    profile = folder(root.parent / "profiles", {
        "rust.toml": f'path = ["/opt/rust/bin"]\n[[mounts]]\nhost = "{sysroot}"\ninside = "/opt/rust"\n'
    }) / "rust.toml"  # fmt: skip
    test = "#[test]\nfn adds() {\n    assert_eq!(add(2, 2), 4);\n}\n"
    place = repository(root, {
        "Cargo.toml": '[package]\nname = "adder"\nversion = "0.1.0"\nedition = "2021"\n', ".gitignore": "target\n",
        "src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n" + test,
    })  # fmt: skip
    return Shape(
        place, "src/lib.rs", "cargo test --offline", flags=("--profile", str(profile)), changed=("Cargo.lock",)
    )


def go(root: Path) -> Shape:
    test = (
        'package adder\nimport "testing"\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Fail()\n\t}\n}\n'
    )
    place = repository(root, {
        "go.mod": "module adder\n\ngo 1.20\n", "adder_test.go": test,
        "adder.go": "package adder\n\nfunc Add(a, b int) int { return a - b }\n",
    })  # fmt: skip
    return Shape(place, "adder.go", "go test ./...")


def monorepo(root: Path) -> Shape:
    """Packages in two languages below one Makefile."""
    place = repository(root, {
        "Makefile": "test:\n\tcd packages/sums && python -m unittest discover\n\t$(MAKE) -C packages/shell test\n",
        "packages/sums/adder.py": ADDER, "packages/sums/test_adder.py": SUITE,
        "packages/shell/good.sh": "exit 0\n", "packages/shell/Makefile": "test:\n\tsh good.sh\n",
    })  # fmt: skip
    return Shape(place, "packages/sums/adder.py", "make test")


def sub_folder(root: Path) -> Shape:
    """The run starts in a subfolder of the work tree, whose tests read files next to it."""
    repository(root, {
        "packages/sums/adder.py": ADDER, "shared/four.py": "FOUR = 4\n",
        "packages/sums/test_adder.py": SUITE.replace("4)", "FOUR)").replace(
            "from adder", "import sys\nsys.path.append('../../shared')\nfrom four import FOUR\nfrom adder"
        ),
    })  # fmt: skip
    return Shape(root / "packages/sums", "adder.py", "python -m pytest -q")


def work_tree(root: Path) -> Shape:
    """A work tree whose ``.git`` is a file that points elsewhere."""
    main = repository(root.parent / "main", dict(SHELL))
    run_git(main, "worktree", "add", "-q", "-b", "fix", str(root))
    return Shape(root, "add.sh", "make test", "$1 - $2", "$1 + $2")


def submodules(root: Path) -> Shape:
    """The tests read a file of a submodule, which stays unchanged."""
    library = repository(root.parent / "library", {"four": "4\n"})
    place = repository(root, {**SHELL, "Makefile": 'test:\n\ttest "$$(sh add.sh 2 2)" = "$$(cat library/four)"\n'})
    run_git(place, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "library")
    run_git(place, "commit", "-qm", "a library")
    return Shape(place, "add.sh", "make test", "$1 - $2", "$1 + $2")


def lfs_pointers(root: Path) -> Shape:
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    return Shape(
        repository(root, {**SHELL, ".gitattributes": attributes, "data/large.bin": POINTER}),
        "add.sh", "make test", "$1 - $2", "$1 + $2",
    )  # fmt: skip


def crlf(root: Path) -> Shape:
    """Git keeps line ends as they are, and so does the edit."""
    files = {"adder.py": ADDER.replace("\n", "\r\n"), "test_adder.py": SUITE.replace("\n", "\r\n")}
    return Shape(repository(root, {**files, ".gitattributes": "* -text\n"}), "adder.py", "python -m pytest -q")


def name_in_latin_1(root: Path) -> Shape:
    """A file name that is not UTF-8 is kept, changed and patched as it is."""
    name = os.fsdecode(b"caf\xe9.txt")
    place = repository(root, {**SHELL, name: "closed\n"})
    return Shape(
        place, "add.sh", "make test", "$1 - $2", "$1 + $2", replies=(command("echo open > caf*"),),
        changed=("caf\\xe9.txt",),
    )  # fmt: skip


def readme(root: Path) -> Shape:
    """The README's first command for a repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^stackmem (solve \. -t .*--check .*)$", text.partition("## Your own repository")[2], re.M)[
        :1
    ]
    words = shlex.split(line)
    check = words[words.index("--check") + 1]
    return Shape(repository(root, {"adder.py": ADDER, "test_adder.py": SUITE}), "adder.py", check, check=check)


SHAPES: dict[str, Callable[[Path], Shape]] = {
    maker.__name__: maker
    for maker in (
        python_with_venv, python_with_uv, node, rust, go, monorepo, work_tree, submodules, lfs_pointers, crlf,
        sub_folder, name_in_latin_1, readme,
    )
}  # fmt: skip
TOOLCHAINS = {"rust": "cargo", "go": "go", "node": "npm"}


def parameter(name: str):
    program = TOOLCHAINS.get(name)
    absent = program is not None and shutil.which(program) is None
    marks = [pytest.mark.skipif(absent, reason=f"{program} is not installed")]
    return pytest.param(name, marks=[*marks, mounted] if name == "python_with_uv" else marks)  # .venv names the folder


@pytest.mark.parametrize("name", [parameter(name) for name in SHAPES])
def test_a_bug_is_fixed_its_own_tests_say_so_and_the_patch_is_taken(stage: Stage, name: str):
    shape = SHAPES[name](stage.root / "hers")
    whole = Path(run_git(shape.place, "rev-parse", "--show-toplevel").strip())
    path = str((shape.place / shape.path).relative_to(whole))
    before = run_git(shape.place, "status", "--porcelain")
    edit = call("edit_file", path=shape.path, old_string=shape.old, new_string=shape.new)
    model = stage.script(command(shape.test), edit, *shape.replies, pop())
    ran = stage.call(
        "solve", ".", "-t", "fix the failing test", "--check", shape.check, "--model", model, "--json", *shape.flags,
        cwd=shape.place,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    result = json.loads(ran.stdout)
    failed, edited, *_ = events(result["run_dir"], ToolReturned)
    assert not failed.text.endswith("[exit 0]"), failed.text
    assert edited.text.startswith("replaced 1 place")
    assert (result["outcome"], sorted(result["changed"])) == ("solved", sorted([path, *shape.changed]))
    assert shape.check != "auto" or f"the check is `{shape.test}`" in ran.stderr
    assert stage.call("replay", "last").returncode == 0
    assert run_git(shape.place, "status", "--porcelain") == before
    run_git(whole, "apply", "--check", str(Path(result["run_dir"]) / "changes.patch"))
    applied = stage.call("apply", "last", cwd=shape.place)
    assert applied.returncode == 0, applied.stderr
    assert run_git(shape.place, "diff", "--numstat", "--", shape.path) == f"1\t1\t{path}\n"
