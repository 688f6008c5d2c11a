"""`stackmem --help` starts fast, and importing touches neither the network nor any file except modules."""

import ast
import json
import resource
import subprocess
import sys

import pytest

from tests.conftest import FEW_AND_LONG
from tests.house.sources import ROOT, files, name

HEAVY = {
    "anthropic", "openai", "pydantic", "tiktoken", "jinja2", "rich", "msgspec", "ruamel", "pytest", "numpy",
    "scipy", "distributed", "dask", "inspect_ai", "mcp", "sqlite3", "asyncio", "multiprocessing",
}  # fmt: skip
HELP_NEEDS = {
    "stackmem", "stackmem.__main__", "stackmem.cli", "stackmem.cli.catalog", "stackmem.cli.main",
    "stackmem.cli.root_help", "stackmem.core", "stackmem.core.errors", "stackmem.core.version", "stackmem.foreign",
    "stackmem.foreign.files", "stackmem.run", "stackmem.run.plugins", "stackmem.run.plugins.places",
}  # fmt: skip
SLOW = HEAVY | {"dataclasses", "difflib", "hashlib", "inspect", "json", "pathlib", "subprocess", "typer"}
# 120 ms if a bare interpreter starts in 15 to 20; the ratio was 3.1 on a busy machine.
HELP_IN_BARE_STARTS = 6


# Libraries that take half a second or more to load and that only a few tests need.
FOR_FEW_TESTS = {"agents", "anthropic", "dask", "distributed", "inspect_ai", "mcp", "openai"}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran


def spent(*arguments: str) -> float:
    """Return the processor time of a Python process with these arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_imports_only_what_it_needs(flag: str):
    timed = python("-X", "importtime", "-m", "stackmem", flag)
    imported = {line.rpartition("|")[2].strip() for line in timed.stderr.splitlines()}
    assert {each for each in imported if each.split(".")[0] == "stackmem"} <= HELP_NEEDS
    assert {each.split(".")[0] for each in imported} & SLOW == set()
    assert "stackmem.cli.main" in imported


def test_a_command_whose_flags_are_texts_does_without_the_library_that_reads_numbers(tmp_path):
    ran = python("-X", "importtime", "-m", "stackmem", "runs", "--runs-dir", str(tmp_path))
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in ran.stderr.splitlines()}
    assert "pydantic" not in imported


def test_test_files_do_not_import_rarely_used_libraries_at_the_top():
    """Every worker imports every test file."""
    loaded: dict[str, set[str]] = {}
    for path in files("test_*.py", ROOT / "tests"):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if heavy := {found.partition(".")[0] for found in names} & FOR_FEW_TESTS:
                loaded.setdefault(name(path), set()).update(heavy)
    assert loaded == {}


def test_every_file_that_the_workers_begin_with_is_there():
    assert [name(path) for path in FEW_AND_LONG if not path.is_file()] == []


def test_help_takes_at_most_a_few_bare_interpreter_starts():
    python("-m", "stackmem", "--help")  # compiles modules without bytecode
    bare = answered = float("inf")
    # The minimum of 5 runs, or more if other processes took the time, because noise only adds time.
    for attempt in range(40):
        bare = min(bare, spent("-c", "pass"))
        answered = min(answered, spent("-m", "stackmem", "--help"))
        if attempt >= 4 and answered <= HELP_IN_BARE_STARTS * bare:
            break
    assert answered <= HELP_IN_BARE_STARTS * bare


WATCH = """
import json, sys
events = []
def watch(event, args):
    touched = event == "open" and not str(args[0]).endswith((".py", ".so"))
    acted = event.startswith(("socket.", "subprocess.", "os.mkdir", "os.remove", "os.rename", "os.exec", "os.system"))
    if (touched or acted) and not any(word in repr(args) for word in (".pyc", "__pycache__")):
        events.append([event, repr(args)])
sys.addaudithook(watch)
"""


def watched(code: str) -> list[list[str]]:
    return json.loads(python("-c", f"{WATCH}\n{code}\nprint(json.dumps(events))").stdout.splitlines()[-1])


def test_importing_stackmem_does_no_input_or_output():
    assert watched("import stackmem") == []


def test_importing_any_module_reaches_for_no_network_and_starts_no_process():
    everything = """
import importlib, pkgutil, stackmem
for module in pkgutil.walk_packages(stackmem.__path__, "stackmem."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
    # Libraries probe for IPv6 by binding a socket at import, which sends no packet.
    harmless = ("socket.__new__", "socket.bind")
    seen = [event for event in watched(everything) if event[0] != "open" and event[0] not in harmless]
    assert seen == []


@pytest.mark.parametrize("code", ["open('/etc/hostname')", "import socket; socket.getaddrinfo('127.0.0.1', 1)"])
def test_the_watch_sees_what_it_watches_for(code):
    assert watched(code)
