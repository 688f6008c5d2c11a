"""One package packs and unpacks archives; archive modules and programs are refused everywhere else."""

import ast
from pathlib import Path

import pytest

from tests.house.sources import ROOT, files, name

ROOM = ROOT / "stackmem" / "foreign"
MODULES = {"tarfile", "zipfile", "zipimport", "zipapp"}
CALLS = {"unpack_archive", "make_archive"}
PROGRAMS = {"tar", "bsdtar", "gtar", "unzip", "zip", "7z", "cpio", "ar"}


def archive_uses(module: ast.Module) -> list[str]:
    """Return imports of archive modules, calls of shutil's archive functions, and commands of archive programs."""
    found = []
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                found += [alias.name for alias in names if alias.name.split(".")[0] in MODULES]
            case ast.ImportFrom(module=str(origin), names=names, level=0):
                found += [origin] if origin.split(".")[0] in MODULES else []
                found += [alias.name for alias in names if origin == "shutil" and alias.name in CALLS]
            case ast.Attribute(value=ast.Name(id="shutil"), attr=called) if called in CALLS:
                found.append(called)
            case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"), args=[first, *_]):
                found += [str(first.value)] if isinstance(first, ast.Constant) and first.value in MODULES else []
            case (
                ast.List(elts=[ast.Constant(value=str(word)), _, *_])
                | ast.Tuple(elts=[ast.Constant(value=str(word)), _, *_])
            ):
                found += [word] if word.rsplit("/", 1)[-1] in PROGRAMS else []
            case ast.Call(args=[ast.Constant(value=str(word)), *_]):
                found += [word] if word.split(" ")[0].rsplit("/", 1)[-1] in PROGRAMS else []
    return found


def elsewhere() -> list[Path]:
    return [path for path in files("*.py", ROOT / "stackmem") if not path.is_relative_to(ROOM)]


def test_archives_are_handled_in_one_room():
    used = {name(path): archive_uses(ast.parse(path.read_text(encoding="utf-8"))) for path in elsewhere()}
    assert {path: uses for path, uses in used.items() if uses} == {}


def test_that_room_handles_them():
    assert any(archive_uses(ast.parse(path.read_text(encoding="utf-8"))) for path in files("*.py", ROOM))


@pytest.mark.parametrize(
    "breach",
    [
        "import tarfile",
        "import zipfile as z",
        "from tarfile import open",
        "def f():\n    from zipfile import ZipFile",
        "from shutil import unpack_archive",
        "import shutil\nshutil.unpack_archive('a', 'b')",
        "run(['tar', '-x'])",
        "words = ('/usr/bin/tar', '--extract')",
        "_run('unzip', 'x.zip')",
        "os.system('tar -xf x.tar')",
        "importlib.import_module('tarfile')",
    ],
)
def test_a_planted_breach_is_seen(breach):
    assert archive_uses(ast.parse(breach))


def test_words_similar_to_archive_programs_are_allowed():
    assert archive_uses(ast.parse("import tarfiles\nrun(['target', 'x'])\nfrom .zipfile import a\nx = 'tar'")) == []
