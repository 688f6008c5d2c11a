"""Measure the cost of a folder with many files: python benchmarks/repository.py [--files 200 5000 …]

For each size, a repository of small files is created and committed. Then the following are measured in one run: ``git
status``, ``cp -r``, the time from ``solve`` to the first request, the overhead of a command over its bare sandbox, a
snapshot after one changed file, what a run leaves on the disk, and the peak of memory. Commands are also measured next
to many sleeping processes (``--processes 100 2000``). Prints a table with the goals, without a verdict. Compare figures
within one run only, because other load affects all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks._folder import own_folder
from stackmem.core.facts import Event, ModelReplied, ToolReturned
from stackmem.core.state import State
from stackmem.history.hidden import plan_layer
from stackmem.history.history import History
from stackmem.history.layer import Overlay, make_upper
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.workspace.isolation.levels import cache_folder
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import build_toolchain
from stackmem.workspace.workspace import Workspace, open_workspace

IN_A_FOLDER = 100  # files
SCRIPT = """
replies:
  - call: run_command
    args: {command: "for n in 0 1 2; do echo changed >> f$n.py; done"}
  - call: pop_frame
    args: {result: done}
"""
ROWS = (
    ("git_status_ms", "`git status`, ms", ""),
    ("cp_s", "`cp -r`, s", ""),
    ("first_request_s", "`solve` to the first request, s", "≤ 1.5 at 50,000; ≤ 0.35 at 200"),
    ("first_processor_s", "the same in processor time, s", ""),
    ("first_command_s", "`solve` to the answer of the first command, s", ""),
    ("first_command_processor_s", "the same in processor time, s", ""),
    ("again_s", "`solve` to the first request of the next run, s", "≤ 1.5 at 50,000; ≤ 0.35 at 200"),
    ("again_processor_s", "the same in processor time, s", ""),
    ("bare_ms", "the bare sandbox, ms", ""),
    ("beyond_ms", "`run_command true` minus the bare sandbox, ms", "≤ 4"),
    ("beyond_crowded_ms", "the same next to more processes, ms", "≤ 4"),
    ("snapshot_ms", "snapshot after one changed file, ms", "≤ 5"),
    ("run_kib", "disk usage of a run that changed 3 files, KiB", "≤ 1,024 with its workspace"),
    ("workspace_kib", "its workspace, KiB", ""),
    ("shared_kib", "history shared by the folder's runs, KiB", ""),
    ("peak_mib", "peak memory, MiB", "≤ 150 at 200,000"),
)


def make_folder(place: Path, files: int) -> Path:
    """Create a repository with ``files`` files of 4 KB on average, in one commit."""
    chance = random.Random(files)
    for number in range(files):
        folder = place / f"d{number // 10_000}" / f"e{number // IN_A_FOLDER}" if number > 2 else place
        if number < 3 or number % IN_A_FOLDER == 0 or number == 3:
            folder.mkdir(parents=True, exist_ok=True)
        lines = (f"x{line} = {chance.random()}\n" for line in range(chance.randint(20, 300)))
        (folder / f"f{number}.py").write_text("".join(lines))
    settings = ("user.name=b", "user.email=b@b", "gc.auto=0")  # prevents background packing during the measurements
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        given = (word for setting in settings for word in ("-c", setting))
        subprocess.run(["git", *given, *words], cwd=place, check=True)
    return place


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def median_ms(figures: list[float]) -> float:
    return round(statistics.median(figures) * 1000, 2)


def processor_seconds() -> float:
    """Return the processor time of this process and of the children that it waited for."""
    return sum(os.times()[:4])


def first_steps(folder: Path, place: Path) -> list[float]:
    """Measure the time from ``solve`` to the first reply and to the answer of the first command.

    The model answers immediately. The answer to the command waits for the history.

    Returns:
        For each of the two, the wall time and the processor time in seconds. Other load affects the latter less.
    """
    script = place / "script.yaml"
    script.write_text(SCRIPT)
    flags = {"model": f"script:{script}", "runs_dir": place / "runs", "sandbox_dir": place / "sandbox"}
    found: list[float] = []

    def observe(event: Event, _: State) -> None:
        if isinstance(event, (ModelReplied, ToolReturned)) and len(found) < 4:
            found.extend((round(time.perf_counter() - begun, 2), round(processor_seconds() - used, 2)))

    begun, used = time.perf_counter(), processor_seconds()
    result = solve(prepare(str(folder), "Change three files.", flags, {}, folder), {}, observe)
    if len(result.changed) != 3:  # for example because TMPDIR is below /dev, which is not visible in a sandbox
        raise SystemExit(f"the run changed {result.changed}: {result.failure}")
    return found


def kib(*places: Path) -> list[int]:
    """Return the disk usage of each folder. A shared file counts for the first one."""
    told = subprocess.run(["du", "-sk", *places], check=True, capture_output=True, text=True).stdout.splitlines()
    sizes = {line.partition("\t")[2]: int(line.split()[0]) for line in told}
    return [sizes.get(str(place), 0) for place in places]


def command_ms(workspace: Workspace, rounds: int) -> tuple[float, float]:
    """Return the ms of the bare sandbox with the usual mounts and limits, and what a command adds to it."""
    bare, whole = [], []
    workspace.run_command("true", 30, 1000)
    for _ in range(rounds):
        with ExitStack() as stack:
            launch = workspace._level.launch(workspace._seat, "true", stack)  # noqa: SLF001 - the internal launch
            begun = time.perf_counter()
            subprocess.run(
                launch.argv, env=launch.environ, cwd="/", pass_fds=launch.fds, start_new_session=True, check=True,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            bare.append(time.perf_counter() - begun)
        whole.append(seconds(lambda: workspace.run_command("true", 30, 1000)))
    return median_ms(bare), round(median_ms(whole) - median_ms(bare), 2)


@contextmanager
def crowd(count: int) -> Iterator[None]:
    """Keep ``count`` sleeping processes."""
    pids = []
    try:
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def git_status(work: Path) -> None:
    subprocess.run(["git", "status", "-s"], cwd=work, check=True, capture_output=True)


def snapshot_ms(place: Path, folder: Path, over: Overlay, rounds: int) -> tuple[float, float]:
    """Return the ms of ``git status`` in the folder, and of a snapshot of the layer after one change, alternating."""
    history = History(place / "history.git", over.view.root, overlay=over)
    history.snapshot()
    status, taken = [], []
    for number in range(rounds):
        (over.upper / "f0.py").write_text(f"changed {number}\n")
        taken.append(seconds(history.snapshot))
        status.append(seconds(lambda: git_status(folder)))
    return median_ms(status), median_ms(taken)


def measure(files: int, processes: tuple[int, int], rounds: int) -> dict[str, float]:
    """Measure one size in a separate process, so that its memory peak is its own."""
    with own_folder() as place:
        os.environ["XDG_STATE_HOME"] = str(place / "state")
        build_toolchain(cache_folder())  # built once per user, not per run
        folder = make_folder(place / "origin", files)
        found: dict[str, float] = {"files": files}
        names = ("first_request_s", "first_processor_s", "first_command_s", "first_command_processor_s")
        found.update(zip(names, first_steps(folder, place), strict=True))
        found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        places = (place / "state" / "stackmem" / "packs", place / "runs", place / "sandbox")
        found["shared_kib"], found["run_kib"], found["workspace_kib"] = kib(*places)
        found["again_s"], found["again_processor_s"], *_ = first_steps(folder, place)
        work = place / "copy"
        found["cp_s"] = round(seconds(lambda: subprocess.run(["cp", "-r", folder, work], check=True)), 2)
        shutil.rmtree(work)
        git_status(folder)
        layer = place / "layer"
        layer.mkdir()
        make_upper(folder, layer)
        over = Overlay(folder, layer, plan_layer(folder).hidden)
        found["git_status_ms"], found["snapshot_ms"] = snapshot_ms(place, folder, over, rounds)
        workspace = open_workspace("bubblewrap", over.view, "/workspace", Profile())
        for count, names in zip(processes, (("bare_ms", "beyond_ms"), ("", "beyond_crowded_ms")), strict=True):
            with crowd(count):
                found.update(zip(names, command_ms(workspace, rounds), strict=True))
        workspace.close()
        over.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=[200, 5_000])
    parser.add_argument("--processes", type=int, nargs=2, default=(100, 2_000))
    parser.add_argument("--rounds", type=int, default=20, help="repetitions of each snapshot and command")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, tuple(given.processes), given.rounds)))
        return
    columns = []
    for files in given.files:
        words = [sys.executable, __file__, "--one", str(files), "--processes", *map(str, given.processes)]
        words += ["--rounds", str(given.rounds)]
        columns.append(json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout))
    print(f"| files | {' | '.join(f'{files:,}' for files in given.files)} | goal |")
    print("|---" * (len(columns) + 2) + "|")
    for name, title, goal in ROWS:
        print(f"| {title} | {' | '.join(f'{column[name]:,}' for column in columns)} | {goal} |")


if __name__ == "__main__":
    main()
