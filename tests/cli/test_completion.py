"""Tests for Tab completion: what bash receives, what is never suggested, and that it loads no command modules."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.stage import Stage, pop

TABS_IN_STARTS = 3  # times the start-up of the commands with typer; 1.2 to 2.0 measured


def tab(typed: str, cwd: Path = ROOT, shell: str = "bash", **environ: str) -> subprocess.CompletedProcess[str]:
    """Complete ``typed`` using the variables that the shell's script sets."""
    asks = {
        "_STACKMEM_COMPLETE": f"complete_{shell}", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from stackmem.cli.main import main; main()"],
        cwd=cwd, env=os.environ | asks | environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("stackmem so", ["solve"]),
        ("stackmem runs p", ["prune"]),
        ("stackmem solve --mod", ["--model"]),
        ("stackmem solve --no-ap", ["--no-apply"]),
        ("stackmem solve calc", ["calculator"]),
        ("stackmem solve calculator --strategy stackheap_", ["stackheap_fork", "stackheap_lossless"]),
        ("stackmem bench calculator --strategies full,rag,wi", ["full,rag,window"]),
        ("stackmem solve calculator --model claude-haiku-5", ["claude-haiku-5-5"]),
        ("stackmem solve calculator --network h", ["host"]),
        ("stackmem lint main --language s", ["sexp"]),
        ("stackmem completion z", ["zsh"]),
        ("stackmem nothing s", ["solve", "strategies"]),
    ],
)
def test_a_tab_completes_commands_flags_and_names(typed: str, told: list[str]):
    ran = tab(typed)
    assert (ran.returncode, ran.stdout.split()) == (0, told), ran.stderr[-2000:]


def test_a_tab_completes_runs_and_never_a_name_that_a_shell_could_act_on(stage: Stage):
    for name in ("20261123T090000Z-one", "20261123T090001Z-$(touch owned)", "2026`x`", "2026 two", "2026*"):
        (stage.runs / name).mkdir(parents=True)
        (stage.runs / name / "trace.jsonl").touch()
    ran = tab(f"stackmem replay --runs-dir {stage.runs} 2")
    assert ran.stdout.split() == ["20261123T090000Z-one"]
    assert tab("stackmem diff last 2", STACKMEM_RUNS_DIR=str(stage.runs)).stdout.split() == ["20261123T090000Z-one"]
    assert tab(f"stackmem replay --runs-dir {stage.root / 'nowhere'} l").stdout.split() == ["last"]


def test_a_tab_completes_the_tasks_beside(stage: Stage):
    (stage.root / "tasks").mkdir()
    stage.task(pop()).rename(stage.root / "tasks" / "small")
    assert tab("stackmem solve s", cwd=stage.root).stdout.split() == ["small", "split_config"]


@pytest.mark.parametrize(("shell", "told"), [("zsh", "_arguments '*: :((\"host\"))'"), ("fish", "host")])
def test_other_shells_get_completions_in_their_own_format(shell: str, told: str):
    assert tab("stackmem solve --network h", shell=shell).stdout.rstrip("\n") == told


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_by_the_variable(stage: Stage, shell: str):
    ran = stage.call("completion", shell)
    assert ran.returncode == 0, ran.stderr
    assert f"_STACKMEM_COMPLETE=complete_{shell}" in ran.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=ran.stdout, text=True, check=True)


def test_the_script_makes_bash_complete(stage: Stage, tmp_path: Path):
    (tmp_path / "stackmem").write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m stackmem "$@"\n')
    (tmp_path / "stackmem").chmod(0o755)
    presses = 'COMP_WORDS=(stackmem sol); COMP_CWORD=1; _stackmem_completion stackmem; echo "${COMPREPLY[@]}"'
    ran = subprocess.run(
        ["bash", "--norc", "-c", f"{stage.call('completion', 'bash').stdout}\n{presses}"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "solve\n"


def test_there_is_no_script_for_another_shell(stage: Stage):
    ran = stage.call("completion", "tcsh")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "bash, zsh, fish" in ran.stderr


@pytest.mark.parametrize("typed", ["stackmem ", "stackmem solve --m", "stackmem solve --model c"])
def test_a_tab_loads_no_command_and_no_heavy_library(typed: str):
    ran = tab(typed)
    loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    assert ran.stdout
    assert "stackmem.cli.completion" in loaded
    assert not [name for name in loaded if name.startswith("stackmem.cli.commands.")]
    assert loaded & {"pydantic", "rich", "msgspec", "anthropic", "stackmem.memory", "stackmem.cli.options"} == set()


def test_a_tab_takes_at_most_a_few_start_ups():
    def spent(ask: bool) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if ask:
            tab("stackmem solve --m")
        else:
            subprocess.run([sys.executable, "-c", "import stackmem.cli.app"], cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    started = answered = float("inf")
    for attempt in range(20):  # the minimum of several, because noise only adds time
        started, answered = min(started, spent(False)), min(answered, spent(True))
        if attempt >= 2 and answered <= TABS_IN_STARTS * started:
            break
    assert answered <= TABS_IN_STARTS * started
