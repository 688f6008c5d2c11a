"""Plug-ins as packages installed next to stackmem."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.run.plugins.installed import Installed

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
    assert "1 prompts equal" in replayed.stdout, replayed.stderr


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
    says = "the strategy 'blind' has no render and no upkeep; fix or uninstall the package that provides it"
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


def test_entry_points_that_are_no_text_of_their_kind_are_a_sentence_too(installed: Installed):
    installed.put("odd", "", points="= nothing\nodd\n")
    ran = installed.run("strategies")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)
    assert "odd" in ran.stderr


def test_files_in_the_current_folder_are_not_plug_ins(installed: Installed):
    cloned = installed.folder / "cloned"
    installed.put("brief", BRIEF.replace("brief", "planted"), at=cloned)
    ran = installed.run("strategies", cwd=cloned)
    assert ran.returncode == 0, ran.stderr
    assert "planted" not in ran.stdout + ran.stderr


def test_in_a_program_a_plug_in_that_cannot_be_used_is_an_error_to_catch(installed: Installed):
    installed.put("broken", "import no_such_thing")
    (installed.folder / "program.py").write_text(
        "import stackmem\ntry:\n    stackmem.replay('last')\nexcept stackmem.UsageError as error:\n    print(error)\n",
        "utf-8",
    )
    ran = subprocess.run(
        [str(installed.python), "program.py"], cwd=installed.folder, env=os.environ, capture_output=True, text=True
    )
    assert ran.stdout.startswith("the plug-in broken of broken 1.0 cannot be used (ModuleNotFoundError"), ran.stderr


def test_the_example_of_a_strategy_is_a_plug_in(installed: Installed):
    installed.put("masked", (ROOT / "docs" / "examples" / "04_strategy.py").read_text("utf-8"))
    listed = installed.run("strategies", "masked")
    assert "tools: read_file, write_file" in listed.stdout, listed.stderr


def test_a_plug_in_whose_import_starts_a_run_is_named_with_the_fix(installed: Installed):
    installed.put("eager", "import stackmem\nstackmem.replay('last')\n")
    ran = installed.run("strategies")
    assert (ran.returncode, ran.stderr.count("cannot be used")) == (2, 1), ran.stderr
    assert "(its import starts a run; move that code below if __name__ == '__main__')" in ran.stderr


SOLVE = ("solve", "calculator", "--model", "demo", "--strategy", "brief")


@pytest.mark.parametrize(("words", "code"), [(("resume", "last"), 7), (SOLVE, 2)])
def test_a_plug_in_on_the_path_of_python_is_named_if_its_strategy_is_missing(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
):
    installed.put("brief", BRIEF)
    runs = ("--runs-dir", "runs")
    assert installed.run(*SOLVE, "--max-steps", "1", *runs).returncode == 3
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in [*installed.packages.glob("brief_*"), *installed.packages.glob("brief-*")]:
        path.rename(elsewhere / path.name)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    refused = installed.run(*words, *runs)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (code, 1)
    assert "no strategy 'brief'" in refused.stderr
    assert f"not used: brief 1.0 in {elsewhere}" in refused.stderr
    assert f"only if it is installed in {installed.packages}" in refused.stderr


def test_another_error_does_not_speak_of_plug_ins(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    installed.put("brief", BRIEF, at=tmp_path / "elsewhere")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    assert "brief" not in installed.run("report", "nowhere").stderr
    assert "brief" not in installed.run("strategies").stdout
