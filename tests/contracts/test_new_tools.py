"""A lookup tool and a writing tool, added to a copy of the package by following docs/extending.md, work completely."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import json

from stackmem.core.facts import CallAnswered, RunEnded, RunStarted, ToolReturned
from tests.contracts.edits import PAGE, copied_package
from tests.run.killed import SOLVE
from tests.stage import ROOT, Stage, call, command, events, pop

SEES = """
import sys, stackmem
events = (record.event for record in stackmem.TraceReader(__import__("pathlib").Path(sys.argv[1], "trace.jsonl")))
print(*stackmem.fold(events).popped[-1].frame.turns)
"""
REPLIES = (
    call("add_note", text="one thing"),
    command("echo first > log"),
    call("append_line", path="log", line="second"),
    call("count_notes"),
    command("cat log"),
    pop("All done."),
)


def blocks() -> dict[str, str]:
    """Return the page's code by the file it belongs to."""
    found: dict[str, str] = {}
    for block in PAGE.read_text("utf-8").split("## A tool\n")[1].split("\n## ")[0].split("```")[1::2]:
        for part in block.removeprefix("text\n").split("# ")[1:]:
            where, _, code = part.partition("\n")
            place = where.split(";")[0].split(",")[0].strip()
            found[place] = found.get(place, "") + code.rstrip() + "\n\n\n"
    return found


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Create a copy of the package with both tools, offered by the strategy ``notes``."""
    copy = copied_package(tmp_path / "house").parent
    code = blocks()
    edit(copy, "core/tools.py", "WorkspaceCall = ", code["core/tools.py"] + "WorkspaceCall = ")
    edit(copy, "core/tools.py", "WorkspaceCall = RunCommand", "WorkspaceCall = AppendLine | RunCommand")
    edit(copy, "core/tools.py", "LookupCall = HeapList", "LookupCall = CountNotes | HeapList")
    first, case = "        case HeapList():\n            return LookupAnswer(", code["core/memory_tools.py"].rstrip()
    edit(copy, "core/memory_tools.py", first, f"{case}\n{first}")
    edit(copy, "core/memory_tools.py", "from .tools import (", "from .tools import (CountNotes,")
    first, case = "        case ReadFile():\n            return read_file", code["run/perform.py"].rstrip()
    edit(copy, "run/perform.py", first, f"{case}\n{first}")
    edit(copy, "run/perform.py", "import EditFile,", "import AppendLine, EditFile,")
    edit(copy, "run/perform.py", "import random\n", "import random\nimport shlex\n")
    edit(copy, "memory/full.py", "AddNote, ONE_FRAME", "AddNote, CountNotes, AppendLine, ONE_FRAME")
    edit(copy, "memory/full.py", "import AddNote, Tool", "import AddNote, AppendLine, CountNotes, Tool")
    return copy


def edit(copy: Path, name: str, old: str, new: str) -> None:
    path = copy / "stackmem" / name
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    path.write_text(text.replace(old, new), encoding="utf-8")


def python(house: Path, stage: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=stage.elsewhere, env=stage.environ({"PYTHONPATH": str(house)}),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, timeout=100,
    )  # fmt: skip


def test_the_prompt_lists_them_a_snapshot_follows_and_the_run_replays(house: Path, stage: Stage) -> None:
    task = stage.task(*REPLIES)
    solved = python(house, stage, "-m", "stackmem", "solve", str(task), "--model", "demo", "--strategy", "notes")
    assert solved.returncode == 0, solved.stdout + solved.stderr
    run = stage.only_run()
    told = {tool.name: tool for tool in events(run, RunStarted)[0].tools}
    assert told["count_notes"].description == "Count the notes on the scratchpad."
    assert json.decode(told["append_line"].schema)["required"] == ["path", "line"]
    trees = [event.tree for event in events(run, ToolReturned)]
    assert len(set(trees)) == 2  # the echo and the new tool; `cat` changes no files, so its snapshot is the same
    assert trees[1] == trees[2] != ""
    assert events(run, CallAnswered)[-1] == CallAnswered("count_notes", len("1 notes"))
    assert "1 notes" in python(house, stage, "-c", SEES, str(run)).stdout
    for words in (("replay", str(run)), ("replay", str(run), "--tools", "live")):
        replayed = python(house, stage, "-m", "stackmem", *words)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_a_killed_call_is_made_again_on_the_files_as_they_were(house: Path, stage: Stage) -> None:
    task = stage.task(*REPLIES)
    python(house, stage, "-c", SOLVE, "6", str(task), "strategy=notes")  # the sixth fact requests append_line
    run = stage.only_run()
    (log,) = stage.work.glob("*/workspace/log")
    log.write_text("first\nhalf of it", encoding="utf-8")
    resumed = python(house, stage, "-m", "stackmem", "resume", str(run))
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert events(run, ToolReturned)[-1].text == "first\nsecond\n[exit 0]"
    assert events(run, RunEnded)[-1].ending == "popped"


@pytest.mark.campaign
@pytest.mark.timeout(900)
def test_mypy_names_each_match_that_misses_one_of_them_and_nothing_else(house: Path) -> None:
    edit(house, "core/memory_tools.py", "        case CountNotes():\n", "        case HeapList():\n")
    edit(house, "run/perform.py", "        case AppendLine():\n", "        case RunCommand() as call:\n")
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "stackmem/run/perform.py")
    ran = subprocess.run([sys.executable, *words], cwd=house, capture_output=True, text=True, check=False)
    named = {line.split(":")[0] for line in ran.stdout.splitlines() if ': error: Argument 1 to "assert_never"' in line}
    assert named == {"stackmem/core/memory_tools.py", "stackmem/run/perform.py"}, ran.stdout + ran.stderr
