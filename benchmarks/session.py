"""Measure a long conversation: the cost of its n-th request, and the time to resume it.

    python benchmarks/session.py [--requests 500] [--flat-requests 50]

A scripted model answers. Each request reads a file, writes one, runs a command, and ends with text. The first and later
requests are compared by their estimated prompt tokens, with a frame per request and with one flat conversation. The
time to resume is measured in this process, from the call until the next request is expected.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._folder import own_folder
from stackmem.core.facts import Event, ModelReplied
from stackmem.core.person_facts import SessionRules
from stackmem.core.state import State
from stackmem.run.opened import Person
from stackmem.run.ports import Left, Unattended
from stackmem.run.prepare import prepare
from stackmem.run.resume import resume
from stackmem.run.solve import solve


class Requests(Unattended):
    """Sends ``count`` requests and leaves. Records when the first one was expected."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.asked_at = 0.0

    def request(self) -> str:
        self.asked_at = self.asked_at or time.perf_counter()
        if not self._left:
            raise Left
        self._left -= 1
        return f"Request {self._left}: look at part {self._left} of the program and mend what is wrong there."


def replies(requests: int) -> list[dict[str, object]]:
    one: list[dict[str, object]] = []
    for number in range(requests):
        one += [
            {"call": "read_file", "args": {"path": "a.txt"}},
            {"call": "write_file", "args": {"path": f"part{number % 20}.txt", "content": f"part {number}\n" * 40}},
            {"call": "run_command", "args": {"command": "cat a.txt"}},
            {"text": f"Part {number} is mended; a.txt names it, and the command shows it." + " More words." * 20},
        ]
    return one


def talk(root: Path, requests: int, policy: str, strategy: str) -> tuple[list[int], float]:
    """Return the prompt tokens of each request, and the seconds to resume the conversation."""
    mine = root / "mine"
    mine.mkdir(parents=True)
    (mine / "a.txt").write_text("a line of the program\n" * 200, encoding="utf-8")
    (root / "script.yaml").write_text(json.dumps({"replies": replies(requests)}), encoding="utf-8")
    flags = {
        "model": f"script:{root / 'script.yaml'}", "strategy": strategy, "runs_dir": str(root / "runs"),
        "sandbox_dir": str(root / "work"), "fsync": "none", "network": "none", "max_steps": "none",
        "window_tokens": "100000000",
    }  # fmt: skip
    rules = SessionRules("flat" if policy == "flat" else "frame")
    cost: list[int] = []

    def observe(event: Event, state: State) -> None:
        asked = state.session.requests if state.session else 0
        if isinstance(event, ModelReplied):
            cost.extend([0] * (asked - len(cost)))
            cost[asked - 1] += event.usage.prompt

    prepared = prepare(str(mine), None, flags, os.environ, Path.cwd(), rules)
    result = solve(prepared, os.environ, observe, person=Requests(requests))
    again = Requests(0)
    # A short script, because the time to read a long one must not be measured.
    (root / "script.yaml").write_text('{"replies": [{"text": "no more"}]}', encoding="utf-8")
    begun = time.perf_counter()
    resume(Path(result.run_dir), {}, os.environ, person=Person(port=again))
    return cost, again.asked_at - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--flat-requests", type=int, default=50)
    given = parser.parse_args()
    rows = (("frame", "stackheap", given.requests), ("flat", "full", given.flat_requests))
    for policy, strategy, requests in rows:
        with own_folder() as place:
            cost, seconds = talk(place, requests, policy, strategy)
        shown = [number for number in (1, 5, 50, 100, 500) if number <= len(cost)]
        told = ", ".join(f"{number}: {cost[number - 1]:,}" for number in shown)
        print(
            f"{policy} ({strategy}), {requests} requests: prompt tokens of request {told}; resumed in {seconds:.2f} s"
        )


if __name__ == "__main__":
    main()
