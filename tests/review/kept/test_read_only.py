"""Runs on read-only media: commands that only read need no write access and create no folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stackmem.run.fork import ForkChanges, fork
from tests.stage import Stage, command, pop

READERS = (
    "replay {a}",
    "replay {b} --step 1 --json",
    "trace show {a}",
    "trace show {b} --steps",
    "trace stats {a} --simulate claude-haiku-4-5",
    "trace pack {b} -o packed.zip",
    "replay packed.zip",
    "runs",
    "runs --json",
    "diff {a} {b}",
    "view {a}",
    "view {a} {b} -o both.html",
    "whatif {a} --strategies full",
    *(
        f"export {{a}} --format {name} -o {name}"
        for name in ("atif", "otel", "chrome", "sft", "mini", "csv", "swebench")
    ),
)


@pytest.fixture
def medium(stage: Stage) -> Iterator[dict[str, str]]:
    """Two runs, the second forked from the first, in a read-only folder."""
    first = stage.solve(stage.task(command("echo x > made"), pop())).run
    second = fork(stage.runs / first, 1, ForkChanges(), os.environ).result.run
    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "a-w", stage.runs], check=True)
        yield {"a": first, "b": second}
        subprocess.run(["chmod", "-R", "u+w", stage.runs], check=True)
        return
    try:
        for how in (["--bind", str(stage.runs)], ["-o", "remount,bind,ro"]):
            subprocess.run(["mount", *how, stage.runs], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("root may not mount here (as in a container), and file modes do not stop root from writing")
    yield {"a": first, "b": second}
    subprocess.run(["umount", "-l", stage.runs], check=True)


def test_reading_commands_need_no_write_access(stage: Stage, medium: dict[str, str]):
    for line in READERS:
        ran = stage.call(*line.format(**medium).split())
        assert (ran.returncode, ran.stderr) == (0, ""), line
    assert (stage.elsewhere / f"{medium['a']}-view.html").is_file()
    for line in ("resume {a} --max-steps +5", "runs rm {b}", "trace recover {a}", "fork {a} --at 1"):
        ran = stage.call(*line.format(**medium).split())
        assert ran.stderr.count("\n") == 1, line
        assert ran.returncode in (2, 5, 7), (line, ran.stderr)


def test_looking_for_runs_makes_no_folder(stage: Stage):
    ran = stage.call("runs")
    assert (ran.returncode, ran.stdout) == (0, f"no matching runs in {stage.runs}\n")
    for line in (("replay", "last"), ("runs", "--runs-dir", "nowhere"), ("replay", "last", "--runs-dir", "nowhere")):
        assert stage.call(*line).returncode == 2
    assert not stage.runs.exists()
    assert list(stage.elsewhere.iterdir()) == []


@pytest.mark.parametrize("left", [["trace.lock"], ["trace.jsonl", "request.json"]])
def test_a_run_that_never_began_is_named_and_can_be_removed(stage: Stage, left: list[str]):
    whole = Path(stage.solve(stage.task(pop())).run_dir)
    unbegun = stage.runs / "20260101T000000Z-small-stackheap-0a1b2c"
    unbegun.mkdir()
    for name in left:
        (unbegun / name).touch()
    shutil.copytree(whole, stage.runs / "no-name-of-ours")
    (stage.runs / "no-name-of-ours" / "trace.jsonl").unlink()
    ran = stage.call("runs")
    assert f"{unbegun.name}  never began" in ran.stdout
    assert "no-name-of-ours" not in ran.stdout
    assert ran.stderr == f"to remove a run that never started: stackmem runs rm {unbegun.name}\n"
    for line in (("resume", unbegun.name), ("replay", unbegun.name), ("fork", unbegun.name, "--at", "1")):
        ran = stage.call(*line)
        assert (ran.returncode, ran.stderr) == (
            7,
            f"stackmem: the run {unbegun.name} never began and has no records; "
            f"stackmem runs rm {unbegun.name} removes it\n",
        )
    assert stage.call("replay", "last").stdout.startswith(whole.name)
    assert stage.call("runs", "rm", unbegun.name).returncode == 0
    assert not unbegun.exists()
