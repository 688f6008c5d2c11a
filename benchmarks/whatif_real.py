"""Compare the prediction of `stackmem whatif` for another strategy with the counts of a real server.

    python benchmarks/whatif_real.py --model llamacpp/NAME --base-url http://127.0.0.1:8080/v1 --tasks create,rename
    python benchmarks/whatif_real.py --tiny                    # without a model: a task by its own solution

Each task is recorded once. Then the run is forked under the other strategy after each of its steps, for one request.
The history is that of the recording, so the server counts exactly the prompts that were predicted. The table has one
line per task: prompt tokens of the recording, predicted and counted prompt tokens under the other strategy, both as a
ratio to the recording, and the error of the prediction. The last column shows the prompt tokens per step of a separate
run under that strategy.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._folder import own_folder
from benchmarks.real_models import STACKMEM, load_tasks, read_trace, run_task
from stackmem.lab.whatif.recorded import WhatIfQuestion, what_if

HEAD = ("task", "steps", "recorded", "predicted", "real", "ratio predicted", "ratio real", "off", "own run, a step")


def prompts(run: Path) -> list[int]:
    """Return the prompt tokens of each reply, as reported by the server."""
    events = [json.loads(line)["event"] for line in read_trace(run)]
    kinds = ("uncached", "cache_read", "cache_write_5m", "cache_write_1h")
    return [sum(event["usage"].get(kind, 0) for kind in kinds) for event in events if event["type"] == "ModelReplied"]


def forked_prompt(run: Path, step: int, given: argparse.Namespace) -> int:
    """Return the prompt tokens of the one request that a fork after ``step`` makes under the other strategy."""
    words = [
        *STACKMEM, "fork", str(run), "--at", str(step), "--strategy", given.other, "--max-steps", str(step + 1),
        "--runs-dir", str(run.parent), "--json", "--quiet", *(["--base-url", given.base_url] if given.base_url else []),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=given.seconds, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), "")
    if not line:
        raise SystemExit(f"the fork after step {step} of {run} failed\n{done.stderr[-2_000:]}")
    counted = prompts(Path(json.loads(line)["run_dir"]))
    if not counted:
        raise SystemExit(f"the fork after step {step} of {run} got no reply")
    return counted[-1]


def compared(task: dict, given: argparse.Namespace, place: Path) -> tuple[list[int], int, list[int], list[int]]:
    """Return the recorded prompts, the predicted sum, the prompts of the forks, and those of a separate run."""
    run = Path(run_task(task, given.recorded, 0, given, place / "recorded")["run_dir"])
    recorded = prompts(run)
    question = WhatIfQuestion((given.other,), phases=None)
    predicted = next(row for found in what_if(str(run), run.parent, question) for row in found.rows if not row.recorded)
    if predicted.outcome is None:
        raise SystemExit(f"no prediction for {given.other}: {predicted.note}")
    real = [forked_prompt(run, step, given) for step in range(len(recorded))]
    own = run_task(task, given.other, 0, given, place / "own")
    return recorded, predicted.outcome.usage.prompt, real, prompts(Path(own["run_dir"]))


def row(name: str, recorded: list[int], predicted: int, real: list[int], own: list[int]) -> str:
    base, counted = sum(recorded), sum(real)
    cells = (
        name, len(recorded), f"{base:,}", f"{predicted:,}", f"{counted:,}", f"{predicted / base:.3f}",
        f"{counted / base:.3f}", f"{predicted / counted - 1:+.1%}", f"{sum(own) / len(own):,.0f}" if own else "none",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="script", help="openai/NAME, or script for the tasks' own solutions")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--recorded", default="full", help="the strategy of the recording")
    parser.add_argument("--other", default="adaptive", help="the strategy to predict")
    parser.add_argument("--tasks", default="", help="names, separated by commas; by default all")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="limit for one run")
    parser.add_argument("--tiny", action="store_true", help="run one task by script, for CI")
    parser.add_argument("extra", nargs="*", help="more options for stackmem solve, after --")
    given = parser.parse_args()
    wanted = given.tasks.split(",") if given.tasks else ["create"] if given.tiny else []
    tasks = [task for task in load_tasks() if not wanted or task["name"] in wanted]
    print(f"| {' | '.join(HEAD)} |\n|---|{'---:|' * (len(HEAD) - 1)}", flush=True)
    everything: list[tuple[list[int], int, list[int], list[int]]] = []
    with own_folder() as scratch:
        for task in tasks:
            found = compared(task, given, Path(tempfile.mkdtemp(prefix=f"{task['name']}-", dir=scratch)))
            print(row(task["name"], *found), flush=True)
            everything.append(found)
        recorded, real, own = ([one for found in everything for one in found[at]] for at in (0, 2, 3))
        print(row("together", recorded, sum(found[1] for found in everything), real, own))


if __name__ == "__main__":
    sys.exit(main())
