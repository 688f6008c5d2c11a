"""Plug-ins, as packages that are installed beside stackmem."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.house.sources import ROOT

BRIEF = '''\
"""``brief``: as ``full``, under another name and another prompt."""

from msgspec import Struct

import stackmem
from stackmem.memory.full import Full


class Brief(Full, frozen=True):
    name: str = "brief"
    prompt: str = "brief_package:prompt.md"


def brief(parameters):
    return Brief()


def echo(wanted):
    raise stackmem.UsageError(f"echo says {wanted.rest}")


plugin = stackmem.Plugin(strategies={"brief": brief}, models={"echo/": echo})
'''
SCRIPT = "replies:\n  - {call: pop_frame, args: {result: Done.}, expect: {contains: Be brief.}}\n"


class Installed:
    """An environment of its own, with stackmem in it and whatever else is put there."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        library = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        self.packages = folder / "venv" / library
        others = sysconfig.get_path("purelib")
        (self.packages / "stackmem-of-the-tests.pth").write_text(f"{ROOT}\n{others}\n", "utf-8")

    def put(self, name: str, module: str, *, at: Path | None = None, points: str = "") -> None:
        package = (at or self.packages) / f"{name}_package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(module, "utf-8")
        (package / "prompt.md").write_text("Be brief.\n", "utf-8")
        facts = package.with_name(f"{name}-1.0.dist-info")
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        text = points or f"{name} = {name}_package:plugin"
        (facts / "entry_points.txt").write_text(f"[stackmem.plugins]\n{text}\n", "utf-8")

    def run(self, *words: str, cwd: Path | None = None, module: str = "stackmem") -> subprocess.CompletedProcess[str]:
        command = [str(self.python), "-m", module, *words]
        return subprocess.run(command, cwd=cwd or self.folder, capture_output=True, text=True, check=False)


@pytest.fixture
def installed(tmp_path: Path, home: Path) -> Installed:
    return Installed(tmp_path)


def test_a_plug_in_brings_a_strategy_with_its_prompt_that_runs_and_replays(installed: Installed):
    installed.put("brief", BRIEF)
    listed = installed.run("strategies")
    assert "\nbrief                      as `full`" in listed.stdout, listed.stderr
    (installed.folder / "script.yaml").write_text(SCRIPT, "utf-8")
    hers = installed.folder / "hers"
    hers.mkdir()
    model = f"script:{installed.folder / 'script.yaml'}"
    solved = installed.run("solve", "hers", "-t", "Go.", "--strategy", "brief", "--model", model)
    assert solved.returncode == 0, solved.stderr
    assert "strategy brief" in solved.stderr
    replayed = installed.run("replay", "last")
    assert "1 prompts are equal" in replayed.stdout, replayed.stderr


@pytest.mark.parametrize("command", ["solve", "fork"])
def test_a_plug_in_whose_strategy_is_none_is_one_sentence_and_leaves_nothing(installed: Installed, command: str):
    module = "import stackmem\n\nclass Blind:\n    name = prompt = 'full'\n    tools = ()\n    prefix_stable = True\n"
    installed.put("blind", f"{module}\nplugin = stackmem.Plugin(strategies={{'blind': lambda parameters: Blind()}})\n")
    runs = ("--runs-dir", "runs")
    if command == "fork":
        assert installed.run("solve", "calculator", "--model", "demo", *runs, "--max-steps", "1").returncode == 3
    words = ("fork", "last", "--at", "0") if command == "fork" else ("solve", "calculator", "--model", "demo")
    before = sorted(installed.folder.rglob("trace.jsonl"))
    ran = installed.run(*words, "--strategy", "blind", *runs)
    says = "the strategy 'blind' has no render and no upkeep; mend or uninstall the package that brings it"
    assert (ran.returncode, ran.stderr) == (2, f"stackmem: {says}\n")
    assert sorted(installed.folder.rglob("trace.jsonl")) == before


def test_a_plug_in_brings_a_model(installed: Installed):
    installed.put("brief", BRIEF)
    assert installed.run("solve", "calculator", "--model", "echo/hello").stderr == "stackmem: echo says hello\n"
    assert "human and echo/NAME" in installed.run("models").stdout


def test_a_plug_in_brings_an_isolation_level_that_must_be_asked_for(installed: Installed):
    installed.put(
        "loose",
        "import stackmem\nfrom stackmem.workspace.isolation.bare import Bare\n\n\n"
        "class Loose(Bare):\n    name = 'loose'\n    isolation = 'loose'\n\n\n"
        "plugin = stackmem.Plugin(workspaces={'loose': (Loose,)})\n",
    )
    (installed.folder / "hers").mkdir()
    (installed.folder / "script.yaml").write_text(SCRIPT.replace(", expect: {contains: Be brief.}", ""), "utf-8")
    model = f"script:{installed.folder / 'script.yaml'}"
    solved = installed.run("solve", "hers", "-t", "Go.", "--isolation", "loose", "--model", model)
    assert (solved.returncode, "isolation loose" in solved.stderr) == (0, True), solved.stderr
    doctor = installed.run("doctor")
    assert "active: loose" not in doctor.stdout
    assert "loose (--isolation loose): works" in doctor.stdout


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit('\\x1b[2Jgone')", "(SystemExit: [2Jgone)"),
        ("", "AttributeError"),
        ("plugin = {}", "it is of the type dict, and stackmem.Plugin is wanted"),
        ("import stackmem\nplugin = stackmem.Plugin(strategies={'full': 1})", "the strategy full is there already"),
        ("import stackmem\nplugin = stackmem.Plugin(models={'demo': 1})", "the model demo is there already"),
        ("import stackmem\nplugin = stackmem.Plugin(models={'claude-x': 1})", "the model claude-x is there already"),
        ("import stackmem\nplugin = stackmem.Plugin(workspaces={'auto': 1})", "isolation level auto is there already"),
        ("import stackmem\nplugin = stackmem.Plugin(workspaces={'memory': 1})", "level memory is there already"),
        ("import stackmem\nplugin = stackmem.Plugin(strategies={'A b': 1})", "'A b' is no name of a strategy"),
        ("import stackmem\nplugin = stackmem.Plugin(strategies=3)", "TypeError"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_one_warning_and_adds_nothing(installed: Installed, module: str, says: str):
    installed.put("broken", module)
    installed.put("brief", BRIEF)
    ran = installed.run("strategies")
    (warning,) = ran.stderr.splitlines()
    assert warning.startswith("the plug-in broken of broken 1.0 is left out (")
    assert says in warning
    assert warning.endswith("); mend or uninstall that package")
    assert ran.returncode == 0
    assert [line for line in ran.stdout.splitlines() if line.startswith("brief ")]


def test_entry_points_that_are_no_text_of_their_kind_are_a_warning_too(installed: Installed):
    installed.put("odd", "", points="= nothing\nodd\n")
    ran = installed.run("strategies")
    assert ran.returncode == 0
    assert "odd" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_what_lies_in_the_folder_she_stands_in_is_no_plug_in(installed: Installed):
    cloned = installed.folder / "cloned"
    installed.put("brief", BRIEF.replace("brief", "planted"), at=cloned)
    ran = installed.run("strategies", cwd=cloned)
    assert ran.returncode == 0, ran.stderr
    assert "planted" not in ran.stdout + ran.stderr


def test_in_a_program_a_warning_points_at_the_line_that_asked(installed: Installed):
    installed.put("broken", "import no_such_thing")
    (installed.folder / "program.py").write_text(
        "import stackmem\n\ntry:\n    stackmem.replay('last')\nexcept stackmem.UsageError:\n    pass\n", "utf-8"
    )
    ran = subprocess.run(
        [str(installed.python), "program.py"], cwd=installed.folder, env=os.environ, capture_output=True, text=True
    )
    assert ran.stderr.startswith(f"{installed.folder}/program.py:4: UserWarning: the plug-in broken"), ran.stderr
