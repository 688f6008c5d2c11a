"""Measure the cost of the harness per step: python benchmarks/overhead.py [--steps 5000] [--tiny]

The model answers immediately and the tool has no effect, so only the harness's own work remains. It is compared with a
floor: a loop that appends a message, writes a JSON line and syncs it to disk. Prints a table, without a verdict.

Work per step is the time from a reply to the next request. It includes settling, folding, rendering, digests and the
trace. Whether fsync is included is stated in each row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import FrameType

from msgspec.structs import asdict

import stackmem
from benchmarks._folder import own_folder
from stackmem.core.budgets import Budgets, Limits
from stackmem.core.decider import AgentDecider
from stackmem.core.facts import Event, FramePopped, ModelReplied, RunStarted
from stackmem.core.messages import ToolCall, Usage
from stackmem.core.requests import AskModel
from stackmem.core.state import State
from stackmem.core.tool_schemas import spec
from stackmem.history.history import History
from stackmem.memory import open_strategy
from stackmem.run.interrupts import Interrupts
from stackmem.run.loop import run
from stackmem.run.perform import World
from stackmem.trace.signatures import Signer, SigningKey
from stackmem.trace.store import TraceWriter
from stackmem.workspace.outcome import ToolOutcome

OUTPUT = "x" * 400  # characters of each tool result
FRAME_STEPS = 98  # plus a push and a pop, so frames have at most 100 steps
MAX_CALLS = {"full": 193, "stackheap": 195}
"""Python calls of a step: a tenth more than today. ``tests/run/test_step_calls.py`` checks them."""


class Nothing:
    """A workspace whose commands have no effect."""

    def run_command(self, command: str, seconds: float, shown_bytes: int) -> ToolOutcome:
        return ToolOutcome(OUTPUT, exit_code=0)

    def digest(self, path: str) -> str:
        return "unknown"


class Instant:
    """A model that answers immediately, and records when it received requests and answered."""

    def __init__(self, steps: int, framed: bool) -> None:
        self.steps, self.framed = steps, framed
        self.asked: list[float] = []
        self.answered: list[float] = []

    def reply(self, request: AskModel) -> ModelReplied:
        self.asked.append(time.perf_counter())
        call = self._call(request)
        self.answered.append(time.perf_counter())
        return ModelReplied((call,), "call", Usage(uncached=1_000, output=50))

    def _call(self, request: AskModel) -> ToolCall:
        step = request.step
        if step >= self.steps:
            return ToolCall(f"c{step}", "pop_frame", {"result": "done"})
        if self.framed and request.depth == 0:
            words = {"name": "part", "objective": "Do a part.", "context": "None.", "return_spec": "Status."}
            return ToolCall(f"c{step}", "push_frame", words)
        if self.framed and step % (FRAME_STEPS + 2) == 0:
            return ToolCall(f"c{step}", "pop_frame", {"result": "Part done."})
        return ToolCall(f"c{step}", "run_command", {"command": "true"})


def started(strategy_name: str) -> RunStarted:
    strategy = open_strategy(strategy_name)
    slots = {name: str(value) for name, value in asdict(Budgets()).items()} | {"command_seconds": "30"}
    return RunStarted(
        task="measure", task_name="overhead", model="instant", strategy=strategy.name, system="s" * 8_000,
        tools=tuple(spec(tool, slots) for tool in strategy.tools), workspace="/workspace", isolation="none",
        network="none", budgets=Budgets(), limits=Limits(steps=None), window_tokens=1_000_000_000, price=None,
        checked=False, command_seconds=30.0, version="benchmark",
    )  # fmt: skip


def play(strategy: str, steps: int, folder: Path, *, sync: bool) -> tuple[list[float], list[float], float]:
    """Return ``(work, fsync, bytes)``: seconds of harness work and of fsync per step, and trace bytes per step."""
    model = Instant(steps, strategy != "full")
    path = folder / f"{strategy}-{steps}-{sync}.jsonl"
    writer = TraceWriter(path)
    waits: list[float] = []

    def force() -> None:
        begun = time.perf_counter()
        if sync:
            writer.sync()
        waits.append(time.perf_counter() - begun)

    def record(event: Event, state: State) -> None:
        writer.append(event)

    world = World(model, Nothing(), None, str, force, 30.0)  # type: ignore[arg-type]
    run(started(strategy), State(), AgentDecider(open_strategy(strategy)), world, record, Interrupts())
    writer.close()
    gaps = [after - before for before, after in zip(model.answered, model.asked[1:], strict=False)]
    work = [gap - wait for gap, wait in zip(gaps, waits[1:], strict=False)]
    return work, waits[1:], path.stat().st_size / steps


def calls_per_step(strategy: str, folder: Path, steps: int = 100) -> float:
    """Return the calls of Python functions of the package per step, counted over the last ``steps`` of a run.

    Unlike a time, the count is the same on every machine. The start and the end of a run are not counted.
    """
    package = str(Path(stackmem.__file__).parent)
    place = folder / f"calls-{strategy}"
    place.mkdir()

    def calls(run_steps: int) -> int:
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call" and frame.f_code.co_filename.startswith(package)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            play(strategy, run_steps, place, sync=False)
        finally:
            sys.setprofile(before)
        return count

    play(strategy, 5, place, sync=False)  # fills the caches
    return (calls(2 * steps) - calls(steps)) / steps


def floor(steps: int, folder: Path, line_bytes: int) -> tuple[list[float], list[float]]:
    """Return the seconds of work and of fsync per step of a loop that keeps only a list and a file."""
    messages: list[dict[str, str]] = []
    work, waits = [], []
    filler = "y" * max(0, line_bytes - 60)
    with (folder / "floor.jsonl").open("ab", buffering=0) as file:
        for step in range(steps):
            begun = time.perf_counter()
            messages.append({"role": "tool", "content": OUTPUT})
            file.write(json.dumps({"step": step, "content": filler}).encode() + b"\n")
            written = time.perf_counter()
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - written)
            work.append(written - begun)
    return work, waits


def memory_per_step(strategy: str, steps: int, folder: Path) -> float:
    """Return the growth of Python memory in KB per step, over the second half of a run."""
    tracemalloc.start()
    marks: dict[int, int] = {}
    model = Instant(steps, strategy != "full")
    writer = TraceWriter(folder / f"memory-{strategy}.jsonl")

    def record(event: Event, state: State) -> None:
        writer.append(event)
        if isinstance(event, ModelReplied) and state.step in (steps // 2, steps - 1):
            marks[state.step] = tracemalloc.get_traced_memory()[0]

    world = World(model, Nothing(), None, str, lambda: None, 30.0)  # type: ignore[arg-type]
    run(started(strategy), State(), AgentDecider(open_strategy(strategy)), world, record, Interrupts())
    writer.close()
    tracemalloc.stop()
    return (marks[steps - 1] - marks[steps // 2]) / (steps - 1 - steps // 2) / 1024


def help_ms(tries: int) -> float:
    """Return the least wall time of ``stackmem --help``."""
    times = []
    for _ in range(tries):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "stackmem", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def median_ms(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1000


def around(seconds: list[float], step: int, width: int) -> float:
    return median_ms(seconds[max(0, step - width) : step + width])


Row = tuple[str, str, str]
"""What was measured, its value, and its bound."""


def work_rows(steps: int, folder: Path) -> tuple[list[Row], float]:
    """Return the work without fsync, early and late, and the bytes of trace per step."""
    work, _, line_bytes = play("stackheap", steps, folder, sync=False)
    span = min(1_000, steps // 2 // 100 * 100)  # steps at either end

    def tenth(first: int) -> float:
        """Return the median of steps 5 to 15 of each frame within ``span`` steps, in ms."""
        return median_ms([value for start in range(first, first + span, 100) for value in work[start + 5 : start + 15]])

    early, late = tenth(0), tenth(steps - span - 100)
    first, last = median_ms(work[5:105]), median_ms(work[-200:-100])
    return [
        ("work per step without fsync, median", f"{median_ms(work):.3f} ms", "<= 0.5 ms"),
        (
            f"  step 10 of a frame, first and last {span:,} steps",
            f"{early:.3f}, {late:.3f} ms, x{late / early:.2f}",
            "<= x1.2",
        ),
        ("  all steps, first 100 and last 100", f"{first:.3f}, {last:.3f} ms, x{last / first:.2f}", "<= x1.2"),
        ("trace bytes per step (replies and results: about 560)", f"{line_bytes:.0f}", ""),
    ], line_bytes


def calls_rows(folder: Path) -> list[Row]:
    """Return the number of Python calls per step."""
    rows = []
    for strategy, bound in MAX_CALLS.items():
        rows.append((f"Python calls per step, {strategy}", f"{calls_per_step(strategy, folder):.1f}", f"<= {bound}"))
    return rows


def sync_rows(steps: int, folder: Path, line_bytes: float) -> list[Row]:
    """Return the work with fsync, next to the floor that syncs as many bytes to the same disk."""
    work, waits, _ = play("stackheap", steps, folder, sync=True)
    bare, bare_waits = floor(steps, folder, int(line_bytes))
    whole = median_ms([one + two for one, two in zip(work, waits, strict=False)])
    least, wait = median_ms(bare), median_ms(bare_waits)
    return [
        (
            "work per step with fsync, median",
            f"{whole:.3f} ms",
            f"<= {0.5 + 1.5 * wait:.3f} ms (0.5 + 1.5 x bare fsync)",
        ),
        ("floor: work, bare fsync", f"{least:.3f} ms, {wait:.3f} ms", ""),
        ("ratio to the floor, both with fsync", f"x{whole / (least + wait):.2f}", ""),
    ]


def growth_rows(steps: int, folder: Path, memory_steps: int) -> list[Row]:
    """Return the growth of the baseline and of memory."""
    full, _, _ = play("full", steps, folder, sync=False)
    middle = min(1_000, steps // 2)
    places = ", ".join(f"{around(full, at, 20):.3f}" for at in (25, middle, len(full) - 20))
    return [
        (f"full: work around steps 25, {middle:,} and the last", f"{places} ms", ""),
        (
            "memory growth per step, stackheap",
            f"{memory_per_step('stackheap', memory_steps, folder):.1f} KB",
            "<= 20 KB",
        ),
        ("memory growth per step, full", f"{memory_per_step('full', memory_steps, folder):.1f} KB", ""),
    ]


def signed_rows(folder: Path, steps: int) -> list[Row]:
    """Return what signing the end of each frame adds to a durable step.

    Frames here have five steps, while a long frame has a hundred.
    """
    key = SigningKey()
    seconds: dict[bool, list[float]] = {False: [], True: []}
    signing: list[float] = []
    for number in range(6):
        place = folder / f"signed-{number}"
        place.mkdir()
        writer, signer = TraceWriter(place / "trace.jsonl"), Signer(place, lambda: key)
        signer.open()
        for step in range(steps):
            begun = time.perf_counter()
            writer.append(FramePopped(f"frame-{step}", OUTPUT))
            writer.sync()
            if number % 2 and step % 5 == 0:
                before = time.perf_counter()
                signer.sign_frame(writer.count, writer.digest)
                signing.append(time.perf_counter() - before)
            seconds[bool(number % 2)].append(time.perf_counter() - begun)
        writer.close()
    bare, signed = (statistics.fmean(sorted(each)[: len(each) * 95 // 100]) for each in seconds.values())
    a_fifth = median_ms(signing) / 5
    return [
        ("one signature, median", f"{median_ms(signing):.3f} ms", ""),
        ("  a fifth of it, added to an fsync and a line", f"x{1 + a_fifth / (bare * 1000):.3f}", "<= x1.05"),
        ("  the same, both measured (mean without the slowest 5 %)", f"x{signed / bare:.3f}", "<= x1.05"),
    ]


def snapshot_ms(files: int, folder: Path, steps: int) -> tuple[float, float]:
    """Return the median ms of a synced snapshot after a 2 KB file changed, and without changes."""
    work = folder / f"work-{files}"
    for number in range(files):
        place = work / f"package-{number % 20}" / f"module_{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"# {number}\n" + "x" * 2_000)
    history = History(folder / f"history-{files}.git", work)
    history.snapshot()
    time.sleep(0.1)  # file times need to differ to reveal a change
    history.snapshot()
    changed, same = [], []
    for step in range(steps):
        (work / "package-0" / "module_0.py").write_text(f"# {step}\n" + "y" * 2_000)
        for times in (changed, same):
            time.sleep(0.03)
            begun = time.perf_counter()
            history.snapshot()
            history.sync()
            times.append(time.perf_counter() - begun)
    return median_ms(changed), median_ms(same)


def snapshot_rows(folder: Path, sizes: tuple[int, ...], steps: int) -> list[Row]:
    """Return the cost of a step that may change files."""
    rows = []
    for files in sizes:
        changed, same = snapshot_ms(files, folder, steps)
        rows.append((f"snapshot of {files:,} files: one changed, none", f"{changed:.1f}, {same:.1f} ms", ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5_100)
    parser.add_argument("--folder", type=Path, help="folder for the traces, whose disk determines the fsync times")
    parser.add_argument("--tiny", action="store_true", help="use the smallest sizes, to check that every part works")
    asked = parser.parse_args()
    steps, tries = (300, 1) if asked.tiny else (asked.steps, 5)
    with own_folder(asked.folder) as folder:
        play("stackheap", 200, folder, sync=False)  # warm-up
        rows, line_bytes = work_rows(steps, folder)
        rows += sync_rows(min(steps, 1_000), folder, line_bytes)
        rows += calls_rows(folder)
        rows += growth_rows(steps, folder, 100 if asked.tiny else 1_000)
        rows += signed_rows(folder, 20 if asked.tiny else 2_000)
        rows += snapshot_rows(folder, (20,) if asked.tiny else (20, 200, 2_000), 2 if asked.tiny else 30)
    rows.append((f"stackmem --help, least of {tries}", f"{help_ms(tries):.0f} ms", "<= 150 ms"))
    for what, measured, bound in rows:
        print(f"{what:<54}{measured:<28}{bound}")


if __name__ == "__main__":
    main()
