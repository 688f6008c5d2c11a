"""Only one module opens files that somebody else may have written: ``stackmem/foreign/files.py``.

Every other place in the package that opens a file for reading is listed here, with its number of calls and the reason
why they need no limit. To read a user's file in a new place, call ``stackmem.foreign.files``. A new entry here is only
for files written by stackmem, the kernel or the installer.
"""

import ast
from functools import cache

import pytest

from tests.house.sources import modules, name

DOOR = "stackmem/foreign/"
READS = {"read_text", "read_bytes"}
COPIES = {"copy", "copy2", "copyfile", "copytree"}
FOLDER_FLAGS = {"O_PATH", "O_DIRECTORY", "O_TMPFILE", "_FOLDER"}  # flags of os.open that open folders
WRITING_FLAGS = {"O_WRONLY", "O_EXCL"}
SAFE_OPENERS = {"owners", "opener_of_regular"}


def unbounded_reads(module: ast.Module) -> list[str]:
    """Return the calls that read a file without a size limit and without checking its kind."""
    return [spelled for node in ast.walk(module) if isinstance(node, ast.Call) and (spelled := _unbounded(node))]


def _unbounded(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            named = {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
            named |= {each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)}
            return "" if named & (FOLDER_FLAGS | WRITING_FLAGS) else "os.open"
        case ast.Name(id="open"):
            return "open" if _reads(call, 1) and not _safe(call) else ""
        case ast.Attribute(value=ast.Name(id="io"), attr="open"):
            return "io.open"
        case ast.Attribute(attr="open") if len(call.args) <= 1:
            return ".open" if _reads(call, 0) and not _safe(call) else ""
        case ast.Attribute(attr=attr) if attr in READS:
            return f".{attr}"
        case ast.Attribute(value=ast.Name(id="shutil"), attr=attr) if attr in COPIES:
            return f"shutil.{attr}"
        case ast.Attribute(value=ast.Name(id="sqlite3"), attr="connect"):
            return "sqlite3.connect"
    return ""


def _reads(call: ast.Call, place: int) -> bool:
    """Return whether the mode reads; a non-literal mode might. Without a mode, open reads text."""
    modes = [*call.args[place : place + 1], *(word.value for word in call.keywords if word.arg == "mode")]
    if not modes:
        return True
    mode = modes[0].value if isinstance(modes[0], ast.Constant) else None
    if place == 0 and not isinstance(mode, str):
        return False  # ``archive.open(entry)`` and similar: no mode, so not a file system path
    return not isinstance(mode, str) or not set(mode) & set("wax")


def _safe(call: ast.Call) -> bool:
    openers = [word.value for word in call.keywords if word.arg == "opener"]
    named = {each.id for opener in openers for each in ast.walk(opener) if isinstance(each, ast.Name)}
    return bool(named & SAFE_OPENERS)


INSTALLED = "comes with stackmem or another installed package"
KERNEL = "written by the kernel, in /proc or /sys, or the host's own /etc"
IN_SANDBOX = "this program runs in the sandbox, and the reader is the command itself"
MADE = "just created by this process or its child"
WRITES = "opens a new file for writing; its flags are in a variable"
NO_FILE_THERE = "opens no file: a signer, a room, a device that is always there"
OWN: dict[str, tuple[int, str]] = {
    "stackmem/doors/gateway/harbor_agent.py": (4, "Harbor calls it with its own files and folders"),
    "stackmem/doors/gateway/isolation.py": (1, KERNEL),
    "stackmem/lab/bench/provenance.py": (1, INSTALLED),
    "stackmem/lab/bench/results.py": (1, WRITES),
    "stackmem/lab/bench/session.py": (1, "copies a world that this bench made"),
    "stackmem/languages/commands/examples.py": (2, INSTALLED),
    "stackmem/cli/completion.py": (1, INSTALLED),
    "stackmem/cli/main.py": (2, "the null device and the standard streams"),
    "stackmem/core/memory_tools.py": (2, "reads a chunk of the heap"),
    "stackmem/formats/tasks/folder.py": (1, INSTALLED),
    "stackmem/formats/tasks/harbor.py": (2, "copies links; files of a tree pass ``copy_regular``"),
    "stackmem/formats/tasks/pytest_judge.py": (4, IN_SANDBOX),
    "stackmem/history/apply.py": (1, MADE),
    "stackmem/history/durable.py": (1, MADE),
    "stackmem/history/exchange.py": (2, WRITES),
    "stackmem/history/hidden.py": (1, KERNEL),
    "stackmem/history/inner_packs.py": (1, MADE),
    "stackmem/history/objects.py": (1, WRITES),
    "stackmem/history/pack_cache.py": (2, "the cache of packs is this machine's own"),
    "stackmem/history/restore.py": (1, WRITES),
    "stackmem/models/catalog.py": (1, INSTALLED),
    "stackmem/models/tokens.py": (1, INSTALLED),
    "stackmem/run/prompts/__init__.py": (2, INSTALLED),
    "stackmem/lab/comparison/bench_archive.py": (1, MADE),
    "stackmem/cli/documents.py": (4, INSTALLED),
    "stackmem/lab/comparison/evidence_archive.py": (1, MADE),
    "stackmem/review/report/page.py": (1, INSTALLED),
    "stackmem/run/checking/witness/sitecustomize.py": (1, IN_SANDBOX),
    "stackmem/run/ending.py": (1, NO_FILE_THERE),
    "stackmem/run/in_memory.py": (1, INSTALLED),
    "stackmem/languages/running/sources.py": (1, INSTALLED),
    "stackmem/run/programs/tools.py": (1, "a database in memory"),
    "stackmem/doors/acp/agent.py": (1, NO_FILE_THERE),
    "stackmem/settings/directories.py": (1, INSTALLED),
    "stackmem/run/tasks/work.py": (1, IN_SANDBOX),
    "stackmem/run/plugins/loading.py": (2, INSTALLED),
    "stackmem/trace/lock.py": (2, KERNEL),
    "stackmem/trace/signatures.py": (1, NO_FILE_THERE),
    "stackmem/trace/snapshot.py": (1, WRITES),
    "stackmem/workspace/family.py": (1, KERNEL),
    "stackmem/formats/images/build.py": (1, KERNEL),
    "stackmem/formats/images/root.py": (2, INSTALLED),
    "stackmem/formats/images/store.py": (1, "the lock of this machine's own store"),
    "stackmem/workspace/isolation/bubblewrap.py": (1, KERNEL),
    "stackmem/workspace/isolation/namespaces.py": (1, INSTALLED),
    "stackmem/review/doctor/isolation_probe.py": (1, KERNEL),
    "stackmem/workspace/isolation/skeleton.py": (1, KERNEL),
    "stackmem/workspace/overlay/helper.py": (2, KERNEL),
    "stackmem/workspace/renames/mover.py": (1, "opens only folders"),
    "stackmem/workspace/renames/supervisor.py": (4, KERNEL),
    "stackmem/workspace/overlay/mount.py": (2, INSTALLED),
    "stackmem/workspace/python.py": (1, INSTALLED),
    "stackmem/workspace/search/search_program.py": (1, IN_SANDBOX),
    "stackmem/workspace/search/searching.py": (1, INSTALLED),
    "stackmem/workspace/watchdog.py": (4, KERNEL),
    "stackmem/lab/worlds/families/history.py": (1, INSTALLED),
}
"""Module to its number of such calls, and why they read only files of stackmem, the kernel or an installer."""


@cache  # two tests use it
def found() -> dict[str, list[str]]:
    calls = {name(path): unbounded_reads(ast.parse(path.read_text(encoding="utf-8"))) for path in modules()}
    return {path: spelled for path, spelled in calls.items() if spelled and not path.startswith(DOOR)}


def test_foreign_files_are_opened_in_one_module():
    allowed = {path: count for path, (count, _) in OWN.items()}
    assert {path: spelled for path, spelled in found().items() if len(spelled) > allowed.get(path, 0)} == {}


def test_no_entry_allows_more_calls_than_there_are():
    counts = {path: len(spelled) for path, spelled in found().items()}
    assert {path: count for path, (count, _) in OWN.items() if count != counts.get(path)} == {}
    assert all(len(why) >= 15 for _, why in OWN.values())


@pytest.mark.parametrize(
    "breach",
    [
        "Path(name).read_bytes()", "path.read_text('utf-8')", "open(name)", "open(name, 'rb')", "open(name, mode='r+')",
        "path.open('rb')", "path.open()", "path.open(mode='rb')", "io.open(name, 'rb')",
        "os.open(path, os.O_RDONLY | os.O_NONBLOCK)", "os.open(path, flags)", "open(name, mode)",
        "open(name, 'rb', opener=other)", "shutil.copytree(a, b)", "sqlite3.connect(name)",
    ],
)  # fmt: skip
def test_a_planted_read_is_seen(breach):
    assert unbounded_reads(ast.parse(f"def f():\n    return {breach}"))


@pytest.mark.parametrize(
    "honest",
    [
        "open(name, 'xb')", "open(name, 'rb', opener=owners)", "path.open('ab')", "read_regular(path)",
        "os.open(folder, os.O_RDONLY | os.O_DIRECTORY)", "archive.open(entry)", "os.open(path, _FOLDER)",
    ],
)  # fmt: skip
def test_calls_that_read_no_foreign_file_are_not_counted(honest):
    assert unbounded_reads(ast.parse(honest)) == []
