"""Measure how much time parallel frames save: `python benchmarks/parallel_frames.py [--tasks 3] [--latency 2]`.

A scripted model answers after a fixed time. Each task reads a file, runs a command in the sandbox, writes a file and
ends: four replies. The same tasks run one after another with `push_frame`, and together with `push_frames`. The time is
that from the first push to the end of the last frame, or to the merge, by the times in the trace. One after another,
each further task needs one more reply, which pushes it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._folder import own_folder
from stackmem.core.facts import FramePopped, FramePushed
from stackmem.core.parallel.facts import FrameReturned, FramesMerged, FramesPushed
from stackmem.run.prepare import prepare
from stackmem.run.solve import solve
from stackmem.trace.open_run import Run

ALLOWED = 0.2
"""How much longer than its share the parallel work may take."""


def call(latency: float, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"call": tool, "args": arguments, "latency_seconds": latency}


def task(latency: float, number: int) -> list[dict[str, Any]]:
    return [
        call(latency, "read_file", path=f"part_{number}.txt"),
        call(latency, "run_command", command=f"sort part_{number}.txt | uniq -c"),
        call(latency, "write_file", path=f"out_{number}.txt", content=f"{number}\n" * 100),
        call(latency, "pop_frame", result=f"Wrote out_{number}.txt."),
    ]


def order(number: int) -> dict[str, Any]:
    objective = f"Summarize part_{number}.txt in out_{number}.txt."
    return {"name": f"part-{number}", "objective": objective, "context": "None.", "return_spec": "The file."}


def script(count: int, latency: float, *, parallel: bool) -> dict[str, Any]:
    if parallel:
        frames = {f"part-{number}": task(latency, number) for number in range(count)}
        pushed = call(latency, "push_frames", frames=[order(number) for number in range(count)])
        return {"replies": [pushed, call(latency, "pop_frame", result="Done.")], "frames": frames}
    replies = []
    for number in range(count):
        replies += [call(latency, "push_frame", **order(number)), *task(latency, number)]
    return {"replies": [*replies, call(latency, "pop_frame", result="Done.")]}


def is_task_end(event: object) -> bool:
    return isinstance(event, FramePopped) and event.frame != "frame-0"


def play(place: Path, count: int, latency: float, *, parallel: bool) -> tuple[float, dict[str, bytes], int]:
    """Play the tasks. Return the seconds that they took, the files at the end, and the number of conflicts."""
    place.mkdir()
    mine = place / "mine"
    mine.mkdir()
    for number in range(count):
        (mine / f"part_{number}.txt").write_text("".join(f"{line % 7}\n" for line in range(500)), "utf-8")
    answers = place / "script.yaml"
    answers.write_text(json.dumps(script(count, latency, parallel=parallel)), "utf-8")
    flags = {
        "model": f"script:{answers}", "runs_dir": str(place / "runs"), "sandbox_dir": str(place / "work"),
        "network": "none", "strategy": "stackheap", "git": "none",
        **({"parallel_frames": str(count)} if parallel else {}),
    }  # fmt: skip
    result = solve(prepare(str(mine), "Do it.", flags, os.environ, place), os.environ)
    if result.ending != "popped":
        raise SystemExit(f"the run ended: {result.ending} {result.failure}")
    run = Run(Path(result.run_dir))
    records = list(run.records())
    begun = next(each.at for each in records if isinstance(each.event, FramePushed | FramesPushed))
    ends = [each.at for each in records if isinstance(each.event, FramesMerged) or is_task_end(each.event)]
    returned = [each.event for each in records if isinstance(each.event, FrameReturned)]
    if len(returned) != (count if parallel else 0):
        raise SystemExit(f"{len(returned)} frames returned, not {count}")
    merges = [each.event for each in records if isinstance(each.event, FramesMerged)]
    conflicts = sum(file.kind != "merged" for merge in merges for file in merge.files)
    snapshot = run.snapshot(run.state)
    files = {path: snapshot[path] for path in sorted(snapshot.entries) if path.startswith("out_")}
    return max(ends) - begun, files, conflicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3, help="independent tasks, 2 to 8")
    parser.add_argument("--latency", type=float, default=2.0, help="seconds before each reply")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    count, ratios = given.tasks, []
    print("| round | one after another, s | parallel, s | ratio |")
    print("|---|---:|---:|---:|")
    with own_folder() as folder:
        for number in range(given.rounds):
            one, files, _ = play(folder / f"one-{number}", count, given.latency, parallel=False)
            together, merged, conflicts = play(folder / f"together-{number}", count, given.latency, parallel=True)
            if merged != files or len(files) != count or conflicts:
                raise SystemExit("the parallel frames left other files than the frames one after another")
            ratios.append(together / one)
            print(f"| {number + 1} | {one:.2f} | {together:.2f} | {ratios[-1]:.3f} |", flush=True)
    middle = statistics.median(ratios)
    print(
        f"median ratio {middle:.3f}, share 1/{count} = {1 / count:.3f}, {middle * count - 1:+.0%} of the share "
        f"(goal: at most +{ALLOWED:.0%}); the files are equal; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
