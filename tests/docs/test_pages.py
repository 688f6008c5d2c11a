"""The pages match the program: tables are current, every flag has an example, the README's commands run."""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from stackmem.core import facts as events
from stackmem.core import machine
from stackmem.memory import STRATEGIES
from stackmem.run.result import RunResult
from tests.house.sources import ROOT, files
from tests.house.test_docs import commands, read, unknown_words

DOCS = ROOT / "docs"
README = ROOT / "README.md"
RUNS = re.compile(r"<!-- runs -->\n```sh\n(.*?)```", re.S)
RECORDED = re.compile(r"<!-- recorded -->\n```text\n(.*?)```", re.S)

SCRIPT = """\
replies:
  - {call: run_command, args: {command: python -m pytest -q}}
  - {call: write_file, args: {path: double.py, content: "def double(x):\\n    return 2 * x\\n"}}
  - {call: pop_frame, args: {result: double doubles.}}
"""


def test_the_generated_tables_are_current():
    command = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"]
    ran = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def spans(command: str) -> list[str]:
    """Return the command lines in docs/cli.md that call this command, from shell blocks and table cells."""
    page = read(DOCS / "cli.md")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.S)).splitlines()
    cells = re.findall(r"`(stackmem [^`]+)`", page)
    lines = [line.split(" #")[0].strip() for line in (*blocks, *cells)]
    return [line for line in lines if re.match(rf"stackmem {command}(\s|$)", line)]


@pytest.mark.parametrize("command", [command for command in commands() if command not in ("", "tasks")])
def test_every_flag_of_a_command_has_an_example(command):
    text = " ".join(spans(command))
    page = read(DOCS / "cli.md")
    for other in re.findall(rf"`stackmem {command}` takes the flags of `stackmem (\w+)`", page):
        text += " ".join(spans(other))
    known = commands()[command] - {"--help", "--no-apply", "--no-yes"}
    assert [flag for flag in sorted(known) if not re.search(rf"{flag}(\s|=|$)", text)] == []


def test_the_examples_in_tables_name_only_what_exists():
    cells = re.findall(r"`(stackmem [^`]+)`", read(DOCS / "cli.md"))
    lines = [line for line in cells if not re.search(r"\b(RUN|DIR|TASK)\b", line)]
    assert {line: words for line in lines if (words := unknown_words(line))} == {}


def test_every_field_of_the_result_is_named():
    page = read(DOCS / "cli.md")
    assert [name for name in RunResult.__struct_fields__ if f"`{name}`" not in page] == []


def refusal_codes() -> set[str]:
    """Return the first argument of every refusal in the machine's source."""
    core = "\n".join(path.read_text("utf-8") for path in files("*.py", Path(machine.__file__).parent))
    return set(re.findall(r'(?:CallRejected|Refusal)\(\s*"(\w+)"', core))


def test_every_code_of_a_refusal_is_explained():
    codes = refusal_codes()
    assert {"unknown_tool", "bad_arguments", "heap_refused", "several_calls"} <= codes
    page = read(DOCS / "machine.md")
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []


@pytest.mark.parametrize("words", [events.Ending, events.FailureKind], ids=["endings", "failures"])
def test_every_ending_and_every_kind_of_failure_is_explained(words):
    page = read(DOCS / "machine.md")
    assert [word for word in words.__args__ if f"`{word}`" not in page] == []


def test_every_strategy_and_every_place_of_the_index_is_described():
    page = read(DOCS / "strategies.md")
    assert [name for name in STRATEGIES if f"`{name}`" not in page] == []
    from stackmem.memory.stackheap import PLACES

    assert [place for place in PLACES if f"| `{place}`" not in page] == []


def test_the_strategy_shown_is_the_one_that_runs():
    shown = re.search(r"( {4}def render.*?)```", read(DOCS / "extending.md"), re.S)
    assert shown
    assert shown[1] in read(DOCS / "examples" / "04_strategy.py")


def environ(home: Path) -> dict[str, str]:
    """Return a reader's shell variables, with `stackmem` from this checkout."""
    place = home / "bin"
    place.mkdir()
    program = place / "stackmem"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m stackmem "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return os.environ | {"PATH": f"{place}:{os.environ['PATH']}"}


def shell(lines: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run lines as a reader would, stopping at the first failure."""
    command = ["bash", "-e", "-c", lines]
    return subprocess.run(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_the_first_command_of_the_readme_does_what_was_recorded(tmp_path, home):
    (tmp_path / "tasks").symlink_to(ROOT / "tasks")
    ran = shell(RUNS.findall(read(README))[0], tmp_path, environ(home))
    assert ran.returncode == 0, ran.stderr
    recorded = RECORDED.findall(read(README))[0].splitlines()
    said = ran.stderr.splitlines()
    assert [line for line in recorded[1:-1] if line not in said] == []
    outcome = recorded[-1].partition(" tokens")[0].rpartition(", ")[0]  # tokens and time vary a little
    assert outcome in ran.stdout


def test_the_readmes_lines_for_a_repository_solve_replay_and_apply(tmp_path, home):
    script, folder = tmp_path / "script.yaml", tmp_path / "project"
    script.write_text(SCRIPT)
    folder.mkdir()
    (folder / "double.py").write_text("def double(x):\n    return x + 1\n")
    (folder / "test_double.py").write_text("from double import double\n\n\ndef test_it():\n    assert double(3) == 6\n")
    git = shutil.which("git") or "git"
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([git, *words], cwd=folder, check=True)
    ran = shell(RUNS.findall(read(README))[1], folder, environ(home) | {"STACKMEM_MODEL": f"script:{script}"})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (folder / "double.py").read_text() == "def double(x):\n    return 2 * x\n"
