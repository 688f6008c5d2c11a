"""Measure the cost of an APL loop per item: python benchmarks/apl.py [--items 10000]

Runs `stackmem run` as a user would, with its default fsync, over a `foreach` whose body is one step in memory, and once
with one outside effect per item. For comparison, it measures a plain Python loop that writes as many lines of JSON, and
the fsync of the disk. Prints a table with the intended bounds, without a verdict.

The time per item comes from the timestamps of the records, in milliseconds, over windows of 100 items. Processor time
and the largest resident set are those of the whole process. A run with a tenth of the items shows what grows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from benchmarks._folder import own_folder
from stackmem.core.program_facts import StepEntered
from stackmem.trace.store import TraceReader

WINDOW = 100
IN_MEMORY = '{name: Square, tool: set_vars, vars: {square: "{{ item * item }}"}}'
OUTSIDE = "{name: Read, tool: read_file, path: one.txt, register: text}"
PROGRAM = """\
inputs: [{{name: n, description: How many items.}}]
setup:
  - {{name: Begin, tool: set_vars, vars: {{items: "{{{{ range(n) | list }}}}"}}}}
main:
  foreach: {{in: items, loop_var: item, directives: [FORCE_FULL_LOOP_EXECUTION]}}
  run: [{body}]
"""


class Measured(Struct, frozen=True):
    """The figures of one run.

    Attributes:
        micros: Per item, by window of ``WINDOW`` items.
        cpu_seconds, rss_kib: Of the whole process.
        trace_bytes, lines: Of the whole trace.
        announced: Items that were announced in order.
    """

    micros: list[float]
    cpu_seconds: float
    rss_kib: int
    trace_bytes: int
    lines: int
    announced: int


def measure(body: str, items: int, folder: Path) -> Measured:
    """Run the loop in a separate process and compute the figures from its trace."""
    place = folder / "program"
    place.mkdir(parents=True)
    (place / "one.txt").write_text("one\n", encoding="utf-8")
    (place / "main.apl").write_text(PROGRAM.format(body=body), encoding="utf-8")
    runs = folder / "runs"
    command = [sys.executable, "-m", "stackmem", "run", place, "--input", f"n:={items}", "--runs-dir", runs]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        child = subprocess.Popen([*map(str, command), "--sandbox-dir", str(folder / "box")], stdout=out, stderr=err)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit((folder / "err").read_text("utf-8")[-2_000:])
    (trace,) = runs.glob("*/trace.jsonl")
    said = re.findall(r"^Processing item (\d+) of", (folder / "err").read_text("utf-8"), re.M)
    in_order = said == [str(number) for number in range(1, items + 1)]
    records = list(TraceReader(trace))
    begun = [each.at for each in records if isinstance(each.event, StepEntered) and each.event.call.startswith("item ")]
    edges = [*begun[::WINDOW], records[-1].at]
    return Measured(
        [(after - before) / WINDOW * 1e6 for before, after in pairwise(edges)],
        used.ru_utime + used.ru_stime,
        used.ru_maxrss,
        trace.stat().st_size,
        len(records),
        len(said) if in_order else 0,
    )


def plain_loop(items: int, lines_an_item: int, folder: Path) -> float:
    """Return the microseconds per item of a loop that writes as many lines of JSON, with one fsync at the end."""
    begun = time.perf_counter()
    with (folder / "plain.jsonl").open("w", encoding="utf-8") as file:
        for item in range(items):
            square = item * item
            for line in range(lines_an_item):
                file.write(json.dumps({"seq": item, "line": line, "name": "square", "value": square}) + "\n")
                file.flush()
        os.fsync(file.fileno())
    return (time.perf_counter() - begun) / items * 1e6


def fsync_micros(folder: Path) -> float:
    """Return the median time of writing and syncing one more line."""
    times = []
    with (folder / "synced").open("wb") as file:
        for _ in range(200):
            file.write(b"x" * 200 + b"\n")
            file.flush()
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--outside", type=int, default=1_000, help="items of the loop with an outside effect")
    asked = parser.parse_args()
    with own_folder() as folder:
        small = measure(IN_MEMORY, min(asked.items, max(1_000, asked.items // 10)), folder / "small")
        large = measure(IN_MEMORY, asked.items, folder / "large")
        outside = measure(OUTSIDE, asked.outside, folder / "outside")
        tenth = max(1, len(large.micros) // 10)
        ratio = statistics.mean(large.micros[-tenth:]) / statistics.mean(large.micros[:tenth])
        lines = round(large.lines / asked.items)
        rows = [
            (f"of {asked.items:,} items, announced in order", f"{large.announced:,}", "all"),
            ("median time per item", f"{statistics.median(large.micros):.0f} µs", "≤ 200 µs"),
            ("processor time per item, including process start", f"{large.cpu_seconds / asked.items * 1e6:.0f} µs", ""),
            ("last tenth / first tenth", f"{ratio:.2f}", "≤ 1.5"),
            ("trace per item", f"{large.trace_bytes / asked.items:.0f} B in {lines} lines", "≤ 2,048 B"),
            ("largest resident set, a tenth of the items", f"{small.rss_kib / 1024:.1f} MiB", ""),
            ("largest resident set, all items", f"{large.rss_kib / 1024:.1f} MiB", "flat"),
            ("a plain loop that writes as many lines", f"{plain_loop(asked.items, lines, folder):.0f} µs", ""),
            ("median time per item with one outside effect", f"{statistics.median(outside.micros):.0f} µs", ""),
            ("the disk's own fsync", f"{fsync_micros(folder):.0f} µs", ""),
        ]  # fmt: skip
        for name, value, bound in rows:
            print(f"{name:<56} {value:>22}   {bound}")


if __name__ == "__main__":
    main()
