"""Measure how fast a trace is read, checked and folded, and its size.

Run ``python benchmarks/trace.py``. The real loop makes the traces with a model that answers immediately and a workspace
without effects, in frames of at most 100 steps, and once as one frame with all steps. Prints a table with the required
bounds, without a verdict. Each figure is the best of three.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks._folder import own_folder
from benchmarks.overhead import Instant, Nothing, started
from stackmem.core.decider import AgentDecider
from stackmem.core.facts import Event, ModelReplied, ToolReturned
from stackmem.core.machine import fold
from stackmem.core.messages import Text, ToolCall
from stackmem.core.state import State
from stackmem.memory import open_strategy
from stackmem.run.interrupts import Interrupts
from stackmem.run.loop import run
from stackmem.run.perform import World
from stackmem.run.result import RunResult, read_result, write_result
from stackmem.trace.store import TraceReader, TraceWriter
from stackmem.trace.verify import verify

TRIES = 3


def make(path: Path, steps: int, *, framed: bool) -> int:
    """Write a trace of ``steps`` steps. Returns the number of events."""
    writer = TraceWriter(path)

    def record(event: Event, state: State) -> None:
        writer.append(event)

    world = World(Instant(steps, framed), Nothing(), None, str, lambda: None, 30.0)  # type: ignore[arg-type]
    run(started("stackheap"), State(), AgentDecider(open_strategy("stackheap")), world, record, Interrupts())
    writer.close()
    return writer.count


def events_of(path: Path) -> list[Event]:
    return [record.event for record in TraceReader(path)]


def content_bytes(events: list[Event]) -> int:
    """Return the bytes of replies and tool results, which any trace must contain."""
    total = 0
    for event in events:
        match event:
            case ModelReplied():
                for part in event.parts:
                    match part:
                        case Text(text=text):
                            total += len(text.encode())
                        case ToolCall():
                            total += len(part.name) + len(msgspec.json.encode(part.arguments))
                        case _:
                            total += len(msgspec.json.encode(part))
            case ToolReturned():
                total += len(event.text.encode())
            case _:
                pass
    return total


def best(work: Callable[[], object]) -> float:
    """Return the least wall time of a few tries, in seconds."""
    times = []
    for _ in range(TRIES):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def rate(count: int, seconds: float) -> str:
    return f"{count / seconds:>12,.0f} events/s"


def summary_ms(folder: Path) -> float:
    """Return the time to read the result file of a finished run."""
    result = msgspec.convert(
        {
            "run": "r", "run_dir": "d", "task": "t", "model": "m", "strategy": "s", "ending": "popped",
            "outcome": "solved",
            "steps": 10_000, "frames": 100, "usage": {}, "cost_usd": 1.0, "wall_seconds": 1.0, "isolation": "none",
            "result": "x" * 4_000, "workspace": "w", "changed": [f"file-{number}" for number in range(100)],
        },
        RunResult,
    )  # fmt: skip
    write_result(result, folder / "result.json")
    return best(lambda: read_result(folder / "result.json")) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    asked = parser.parse_args()
    with own_folder() as folder:
        framed, single = folder / "framed.jsonl", folder / "single.jsonl"
        count = make(framed, asked.steps, framed=True)
        lone_count = make(single, asked.steps, framed=False)
        read = best(lambda: sum(1 for _ in TraceReader(framed)))
        both = best(lambda: fold(record.event for record in TraceReader(framed)))
        replayed = best(lambda: verify(TraceReader(framed)))
        events, lone = events_of(framed), events_of(single)
        extra = (framed.stat().st_size - content_bytes(events)) / asked.steps
        rows = [
            (f"fold, frames of 100 steps ({count:,} events)", rate(count, best(lambda: fold(events))), ">= 100,000"),
            (f"fold, one frame of {asked.steps:,} steps", rate(lone_count, best(lambda: fold(lone))), ">= 30,000"),
            ("read, check and fold from disk", rate(count, both), ">= 50,000"),
            ("read and check from disk", rate(count, read), ""),
            ("replay: each event and prompt", rate(count, replayed), ""),
            ("bytes per step without replies and results", f"{extra:>12,.0f} bytes", "<= 1,280"),
            ("summary of a finished run", f"{summary_ms(folder):>12.3f} ms", "at any length"),
        ]
    for what, measured, bound in rows:
        print(f"{what:<48}{measured:<28}{bound}")


if __name__ == "__main__":
    main()
