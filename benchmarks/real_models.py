"""Run small tasks with a real model under several strategies, and with mini-swe-agent for comparison.

    scripts/real_models.sh                                     # builds a server, obtains weights, runs everything
    python benchmarks/real_models.py --model openai/NAME --base-url http://127.0.0.1:8080/v1 --tasks create,rename
    python benchmarks/real_models.py --model script            # without a model: every task by its own solution

The strategies `mini-swe-agent` and `mini-swe-agent:text` mean that agent with its native and its textual configuration;
`--mini` is the path of its command. The table has one line per strategy: runs, solved, replies, refused calls, replies
without a call, stalled runs, tokens that the server evaluated, read from its cache and wrote, seconds, runs that
replay, and requests that reused the whole previous prompt except its last message.

Requests that did not reuse it are listed, and the exit code is then 1. A server that does not report cached tokens is
not judged. A server that also handles other requests may lose its cache.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path

from benchmarks._folder import own_folder
from benchmarks._mini_swe_agent import CONFIGURATIONS, in_bubblewrap, run_mini
from benchmarks._prefixes import prefix_uses

HERE = Path(__file__).resolve().parent
STACKMEM = [sys.executable, "-m", "stackmem"]
STEPS = 15
WORLDS = {"env_trap": 10, "spec_map": 10}
"""Two generated worlds with the number of calls in their shortest solution. They run after the tasks."""


def load_tasks() -> list[dict]:
    tasks = tomllib.loads((HERE / "real_tasks.toml").read_text("utf-8"))["task"]
    return [*tasks, *({"name": name, "world": horizon} for name, horizon in WORLDS.items())]


def make_world(task: dict, folder: Path) -> None:
    words = ["worlds", "make", task["name"], "--horizon", str(task["world"]), "--seed", "1", "--noise", "0"]
    subprocess.run([*STACKMEM, *words, "-o", str(folder)], check=True, capture_output=True)


def run_with_mini(task: dict, name: str, seed: int, given: argparse.Namespace, place: Path) -> dict:
    """Run mini-swe-agent once and judge the result with the same check."""
    project = place / "project"
    if "world" in task:
        made = place / "world"
        make_world(task, made)
        shutil.copytree(made / "environment" / "workspace", project)
        text = (made / "instruction.md").read_text("utf-8")
        check = f"sh {made}/tests/test.sh && grep -qx 1 {place}/reward.txt"
    else:
        project.mkdir(parents=True)
        write_files(project, task["files"])
        text, check = task["text"], task["check"]
    run = run_mini(
        given.mini, name, text, project,
        model=given.model, url=given.base_url, seed=seed, steps=STEPS, seconds=given.seconds,
    )  # fmt: skip
    environment = {**os.environ, "TESTS_DIR": str(place / "world" / "tests"), "VERIFIER_DIR": str(place)}
    judge = in_bubblewrap(["sh", "-c", check], project, place, needs=place)
    judged = subprocess.run(judge, env=environment, capture_output=True, check=False)
    outcome = "solved" if judged.returncode == 0 else "failed"
    return {"task": task["name"], "outcome": outcome, "replayed": False, "repaired": 0, **run}


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def solution_script(task: dict, place: Path) -> str:
    """Write a script with the task's solution, as if by a model that knows it."""
    replies = [
        {"call": "write_file", "args": {"path": name, "content": text}} for name, text in task["solution"].items()
    ]
    place.write_text(json.dumps({"replies": [*replies, {"call": "pop_frame", "args": {"result": "Done as asked."}}]}))
    return f"script:{place}"


def run_task(task: dict, strategy: str, seed: int, given: argparse.Namespace, place: Path) -> dict:
    """Run stackmem once. Returns figures from its result and its trace."""
    folder, runs = place / "project", place / "runs"
    if "world" in task:
        make_world(task, folder)
        what = [str(folder)]
    else:
        folder.mkdir(parents=True)
        write_files(folder, task["files"])
        what = [str(folder), "-t", task["text"], "--check", task["check"]]
    model = solution_script(task, place / "script.json") if given.model == "script" else given.model
    words = [
        *STACKMEM, "solve", *what, "--strategy", strategy, "--model", model, "--max-steps", str(STEPS),
        "--max-seconds", str(given.seconds), "--runs-dir", str(runs), "--sandbox-dir", str(place / "work"),
        "--json", "--yes", *(["--seed", str(seed)] if given.model != "script" else []),
        *(["--base-url", given.base_url] if given.base_url else []), *given.extra,
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), "")
    if not line:
        raise SystemExit(f"{task['name']}: no result (exit {done.returncode})\n{done.stderr[-2000:]}")
    result = json.loads(line)
    replay = subprocess.run([*STACKMEM, "replay", result["run_dir"]], capture_output=True, text=True, check=False)
    events = [json.loads(line)["event"] for line in read_trace(Path(result["run_dir"]))]
    uses = list(prefix_uses(Path(result["run_dir"])))
    return {
        "task": task["name"], "outcome": result["outcome"], "ending": result["ending"], "seconds": seconds,
        "steps": result["steps"], "usage": result["usage"], "replayed": replay.returncode == 0,
        "run_dir": result["run_dir"], "codes": Counter(
            event["code"] for event in events if event["type"] in ("CallRejected", "ReplyNudged")
        ),
        "repaired": sum(bool(event.get("repairs")) for event in events if event["type"] == "ModelReplied"),
        "went_on": [str(use) for use in uses if not use.broken], "broken": [str(use) for use in uses if use.broken],
    }  # fmt: skip


def read_trace(run: Path) -> list[str]:
    path = run / "trace.jsonl"
    return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def row(name: str, runs: list[dict]) -> str:
    codes: Counter = sum((run["codes"] for run in runs), Counter())
    silent = codes.pop("no_call", 0) + codes.pop("empty", 0)
    steps = sum(run["steps"] for run in runs)
    usage = Counter()
    for run in runs:
        usage.update({key: value for key, value in run["usage"].items() if isinstance(value, int)})
    refused = ", ".join(f"{count} {code}" for code, count in codes.most_common()) or "0"
    solved = sum(run["outcome"] == "solved" for run in runs)
    stalled = sum(run["ending"] == "stalled" for run in runs)
    went_on, broken = (sum(len(run.get(name, ())) for run in runs) for name in ("went_on", "broken"))
    prefix = f"{went_on} of {went_on + broken}" if usage["cache_read"] else "not reported"
    return (
        f"| {name} | {len(runs)} | {solved} | {steps} | {sum(run['repaired'] for run in runs)} | {refused} | {silent} "
        f"| {stalled} | {usage['uncached']:,} | {usage['cache_read']:,} | {usage['output']:,} "
        f"| {sum(run['seconds'] for run in runs):,.0f} | {sum(run['replayed'] for run in runs)} | {prefix} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="script", help="openai/NAME, or script for the tasks' own solutions")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--strategies", default="adaptive,full,stackheap")
    parser.add_argument("--tasks", default="", help="names, separated by commas; by default all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1_800.0, help="limit for one run")
    parser.add_argument("-o", "--output", type=Path, help="folder for the runs and results.jsonl")
    parser.add_argument("--mini", type=Path, default=Path("mini"), help="the command of mini-swe-agent")
    parser.add_argument("--tiny", action="store_true", help="run two tasks by script, for CI")
    parser.add_argument("extra", nargs="*", help="more options for stackmem solve, after --")
    given = parser.parse_args()
    wanted = given.tasks.split(",") if given.tasks else ["create", "rename"] if given.tiny else []
    tasks = [task for task in load_tasks() if not wanted or task["name"] in wanted]
    strategies = ["full"] if given.tiny else given.strategies.split(",")
    print("| strategy | runs | solved | replies | repaired | refused | without a call | stalled | evaluated | cached "
          "| written | seconds | replayed | went on |")  # fmt: skip
    print("|---|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    broken: list[str] = []
    with own_folder() as scratch:
        place = given.output or scratch
        place.mkdir(parents=True, exist_ok=True)
        for strategy in strategies:
            runs = []
            for seed in range(given.seeds):
                for task in tasks:
                    here = Path(
                        tempfile.mkdtemp(prefix=f"{strategy.partition(':')[0]}-{task['name']}-{seed}-", dir=place)
                    )
                    run_one = run_with_mini if strategy in CONFIGURATIONS else run_task
                    run = run_one(task, strategy, seed, given, here)
                    runs.append(run)
                    with (place / "results.jsonl").open("a") as file:
                        file.write(json.dumps({"strategy": strategy, "seed": seed, **run}) + "\n")
                    print(f"  {strategy} {task['name']}: {run['outcome']} in {run['steps']} steps", file=sys.stderr)
            print(row(strategy, runs), flush=True)
            if any(run["usage"].get("cache_read") for run in runs):
                broken += [f"{strategy} {run['task']}, {line}" for run in runs for line in run.get("broken", ())]
    if broken:
        print("\n".join(["requests that did not reuse the previous prompt:", *broken]))
        sys.exit(1)


if __name__ == "__main__":
    main()
