"""Solve the calculator task with its scripted model, and print facts as they happen.

The task's script replaces the model, so no key is needed. The sandbox and the checks are real.
"""

import tempfile
from pathlib import Path

import stackmem
from stackmem.core.facts import ChunkAllocated, FramePopped, FramePushed
from stackmem.core.state import State


def observe(event: stackmem.Event, state: State) -> None:
    """Print some facts. Called after each fact is recorded, with the resulting state."""
    match event:
        case FramePushed(name=name, intent=intent):
            print(f"step {state.step:>2}  push {name}: {intent[:60]}…")
        case FramePopped(frame=frame, result=result):
            print(f"step {state.step:>2}  pop {frame}: {result[:60]}…")
        case ChunkAllocated(name=name, chars=chars):
            print(f"step {state.step:>2}  heap {name!r}, {chars} characters")
        case _:
            pass


with tempfile.TemporaryDirectory() as folder:
    result = stackmem.solve(
        "calculator",
        model="demo",
        runs_dir=Path(folder, "runs"),
        sandbox_dir=Path(folder, "work"),
        observe=observe,
    )
    print(f"{result.outcome} ({result.ending}) in {result.steps} steps, {result.frames} frames, at {result.isolation}")

if result.outcome != "solved":
    raise SystemExit(f"not solved: {result}")
