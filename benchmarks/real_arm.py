"""Let a real model do the tasks that the simulated reader did, and compare the order of the strategies.

    python benchmarks/real_arm.py --predict                   # runs the reader and writes the plan with its figures
    python benchmarks/real_arm.py --model llamacpp/NAME --base-url http://127.0.0.1:8080/v1 -o arm
    python benchmarks/real_arm.py --figures arm                # only prints the comparison, also of an unfinished arm

``real_arm.json`` is committed before the real model starts. A repeated command continues the arm. The order is judged
by pairs of strategies: a pair agrees if the model puts both in the order of the reader, and is reversed if it puts them
in the opposite one. Figures that differ by less than their tolerance count as equal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._folder import own_folder
from stackmem.core.facts import ChecksReturned, ContextCompacted, ModelReplied
from stackmem.lab.bench.ledger import read_rows
from stackmem.trace.open_run import Run

PREDICTION = Path(__file__).with_suffix(".json")
PLAN = {
    "reader": "sim/bounded-reader:middle",
    "worlds": ["vigil"],
    "horizon": 10,
    "noise": 0,
    "seeds": 3,
    "max_steps": 12,
    "strategies": ["full", "adaptive", "mask:2,poll=2", "window:3,step=2", "rolling_summary:3"],
}
FIGURES = {"done": "share of units done right", "peak": "longest prompt", "evaluated": "new prompt tokens per reply"}
TOLERANCES = {"done": 0.05, "peak": 0.02, "evaluated": 0.02}
"""The smallest difference: a difference of shares for ``done``, otherwise a ratio."""

Means = dict[str, dict[str, float]]


def bench(plan: Mapping[str, Any], model: str, place: Path, more: Iterable[str]) -> None:
    words = [
        "bench", *plan["worlds"], "--horizon", str(plan["horizon"]), "--noise", str(plan["noise"]),
        "--trials", str(plan["seeds"]), "--strategies", ",".join(plan["strategies"]), "--models", model,
        "--max-steps", str(plan["max_steps"]), "--size", "full", "--jobs", "1", "-o", str(place), *more,
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "stackmem", *words], stdout=sys.stderr, check=False)
    if not (place / "ledger.jsonl").is_file():
        raise SystemExit(f"the bench made no results (exit {done.returncode})")


def figures(row: Mapping[str, Any], place: Path) -> dict[str, float]:
    """Return the figures of one trial. The first prompt counts as new, whatever an earlier trial left in the cache."""
    events = [record.event for record in Run(place / row["run"]).records()]
    usages = [event.usage for event in events if isinstance(event, ModelReplied | ContextCompacted)]
    estimated = any(usage.estimated for usage in usages)
    new = sum(row[f"bill_{kind}"] for kind in ("uncached", "write_5m", "write_1h"))
    if not estimated:
        new = usages[0].prompt + sum(usage.uncached for usage in usages[1:])
    rewards = [event.rewards.get("reward", 0.0) for event in events if isinstance(event, ChecksReturned)]
    return {
        "done": rewards[-1] if rewards else 0.0,
        "peak": row["peak_context_tokens"],
        "evaluated": new / len(usages),
        "solved": row["solved"],
        "steps": row["steps"],
        "acted": row["acted"] or 0,
    }


def means(place: Path) -> tuple[Means, dict[str, int]]:
    """Return the mean figures and the number of trials of each strategy."""
    trials: dict[str, list[dict[str, float]]] = {}
    for row in read_rows(place):
        if row["outcome"] != "error":
            trials.setdefault(row["spelled"], []).append(figures(row, place))
    averages = {
        strategy: {name: round(mean(trial[name] for trial in each), 3) for name in each[0]}
        for strategy, each in trials.items()
    }
    return averages, {strategy: len(each) for strategy, each in trials.items()}


def order(first: float, second: float, figure: str) -> int:
    """Return 1 if the first is larger, -1 if the second is, and 0 if they count as equal."""
    tolerance = TOLERANCES[figure] * (1 if figure == "done" else max(first, second))
    return 0 if abs(first - second) < tolerance else 1 if first > second else -1


def compare(predicted: Means, measured: Means, counts: Mapping[str, int]) -> None:
    print("| strategy | trials | steps | changed a prompt | solved |", end="")
    print("".join(f" {text}, predicted | measured |" for text in FIGURES.values()))
    print("|---|" + "---:|" * (4 + 2 * len(FIGURES)))
    for strategy, real in measured.items():
        cells = [f"{counts[strategy]}", f"{real['steps']:.1f}", f"{real['acted']:.1f}", f"{real['solved']:.0%}"]
        for name in FIGURES:
            shown = "{:.2f}" if name == "done" else "{:,.0f}"
            cells += [shown.format(predicted[strategy][name]), shown.format(real[name])]
        print(f"| `{strategy}` | " + " | ".join(cells) + " |")
    pairs = list(combinations(measured, 2))
    for name, text in FIGURES.items():
        orders = [
            tuple(order(side[one][name], side[two][name], name) for side in (predicted, measured)) for one, two in pairs
        ]
        told = [(guess, real) for guess, real in orders if guess]
        print(
            f"{text}: of {len(told)} pairs that differ for the reader, {sum(g == r for g, r in told)} agree, "
            f"{sum(g == -r for g, r in told)} are reversed, {sum(r == 0 for _, r in told)} are equal; of the other "
            f"{len(pairs) - len(told)}, {sum(g == r == 0 for g, r in orders)} are equal"
        )


def read_with_reader(plan: Mapping[str, Any]) -> tuple[Means, dict[str, int]]:
    with own_folder() as place:
        bench(plan, plan["reader"], place / "bench", ["--isolation", "memory", "--fsync", "none"])
        return means(place / "bench")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="let the reader play the real model, for CI")
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--model", help="openai/NAME or llamacpp/NAME")
    parser.add_argument("--base-url")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("extra", nargs="*", help="more options for stackmem bench, after --")
    given = parser.parse_args()
    if given.predict:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        made = {"predicted_at": now, "plan": PLAN, "predicted": read_with_reader(PLAN)[0]}
        PREDICTION.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
        return
    prediction = json.loads(PREDICTION.read_text("utf-8"))
    if given.tiny:
        compare(prediction["predicted"], *read_with_reader(prediction["plan"]))
        return
    if given.figures is None:
        if not (given.model and given.output):
            parser.error("--model and -o are missing")
        address = ["--base-url", given.base_url] if given.base_url else []
        bench(prediction["plan"], given.model, given.output, [*address, *given.extra])
    compare(prediction["predicted"], *means(given.figures or given.output))


if __name__ == "__main__":
    main()
