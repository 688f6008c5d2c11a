"""Measure the cost of an agent's loop: python benchmarks/loop_agent.py [--items 10000] [--chars 10000]

Runs `stackmem run` as a user would, with its default fsync, over one ForEach with a custom tool, 16 calls in parallel,
of which one in a hundred fails. It runs over a hundred items, over all items with short results, with long results, and
with long results that go into the payload. Then the long run is replayed. Prints a table with the intended bounds,
without a verdict.

The largest resident set is that of the whole process, without the git processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from msgspec import Struct

from benchmarks._folder import own_folder

AGENT = """\
name: fetcher
prompt: Fetch all.
actions: [{name: Fetch, tool: fetch_page, parallel: true}]
payload: {items: [], pages: []}
prompt_params: {includePayloadInPrompt: false}
"""
CHILD = '''\
import sys

from stackmem.cli.main import main
from stackmem.settings.tools.own_tools import tool

CHARS = int(sys.argv.pop(1))


@tool(parallel=True, idempotent=True)
def fetch_page(n: int) -> str:
    """Fetch a page."""
    if n % 100 == 7:
        raise ValueError(f"no page {n}")
    return f"{n} " + "x" * CHARS


main()
'''


class Measured(Struct, frozen=True):
    """The figures of one process.

    Attributes:
        most_mib: Its largest resident set.
        asked: Completions.
        ordered: Whether the files contain the results in the order of the items, each once.
    """

    seconds: float
    most_mib: float
    failures: int = 0
    asked: int = 0
    ordered: bool = False


def ran(arguments: list[str], chars: int, folder: Path) -> Measured:
    child = folder / "child.py"
    child.write_text(CHILD, encoding="utf-8")
    begun = time.perf_counter()
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen([sys.executable, child, str(chars), *arguments], stdout=out, stderr=err)
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit((folder / "err").read_text("utf-8")[-2_000:])
    return Measured(time.perf_counter() - begun, used.ru_maxrss / 1_024)


def measure(items: int, chars: int, folder: Path, *, kept: bool = False) -> Measured:
    """Run once over ``items`` items with results of ``chars`` characters. ``kept`` results go into the payload."""
    place = folder / "agent"
    place.mkdir(parents=True)
    action = {"name": "Fetch", "params": {"n": "item"}, **({"outputMapping": "pages[{{index}}]"} if kept else {})}
    loop = {"collectionPath": "items", "maxIterations": items, "executionMode": "parallel", "maxConcurrency": 16,
            "continueOnError": True, "action": action}  # fmt: skip
    replies = [{"nextStep": {"type": "ForEach", "forEach": loop}}, {"taskComplete": True}]
    (place / "main.agent.yaml").write_text(AGENT, encoding="utf-8")
    script = folder / "script.yaml"
    script.write_text(json.dumps({"replies": [{"text": json.dumps(each)} for each in replies]}), encoding="utf-8")
    places = ["--runs-dir", str(folder / "runs"), "--sandbox-dir", str(folder / "box")]
    given = ["--input", f"items:={json.dumps(list(range(items)))}"]
    found = ran(["run", str(place), "--model", f"script:{script}", *places, *given], chars, folder)
    (trace,) = (folder / "runs").glob("*/trace.jsonl")
    failures = asked = 0
    with trace.open("rb") as lines:
        for line in lines:
            failures += b'"failed":"error"' in line[:200] or b'"failed":"error"' in line[-500:]
            asked += b'"type":"ModelReplied"' in line[:100]
    return Measured(found.seconds, found.most_mib, failures, asked, ordered(folder, items))


def ordered(folder: Path, items: int) -> bool:
    (place,) = (folder / "box").glob("*/*/.stackmem/loop")  # of a layer or of a copy
    files = [place / "1.jsonl", *(place / f"1.{number}.jsonl" for number in range(2, len(list(place.iterdir())) + 1))]
    found = [int(row[10:20].partition(b",")[0]) for file in files for row in file.open("rb")]
    return found == list(range(items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--chars", type=int, default=10_000, help="of a long result")
    asked = parser.parse_args()
    mib = asked.items * asked.chars / 2**20
    with own_folder() as folder:
        few = measure(100, asked.chars, folder / "few")
        short = measure(asked.items, 100, folder / "short")
        large = measure(asked.items, asked.chars, folder / "large")
        kept = measure(asked.items, asked.chars, folder / "kept", kept=True)
        (run,) = (folder / "large" / "runs").iterdir()
        replayed = ran(["replay", run.name, "--runs-dir", str(run.parent)], asked.chars, folder)
        print(f"{asked.items:,} items, 16 at a time; long results are {mib:,.0f} MiB in total")
        for name, found, bound in (
            ("100 items, long results", few, ""),
            ("all items, results of 100 characters", short, ""),
            ("all items, long results", large, "the results themselves"),
            ("all items, long results that go into the payload", kept, ""),
        ):
            order = "in order" if found.ordered else "OUT OF ORDER"
            print(
                f"{name:<52} {found.seconds:6.1f} s {found.most_mib:6.1f} MiB  {found.failures} failed, {order}, "
                f"{found.asked} completions  {bound}"
            )
        print(f"{'the long run replayed':<52} {replayed.seconds:6.1f} s {replayed.most_mib:6.1f} MiB")


if __name__ == "__main__":
    main()
