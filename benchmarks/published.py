"""Compare trials of the simulated reader with published findings: python benchmarks/published.py [--jobs 2]

It prints two tables: the dials of the reader (``stackmem/lab/simulated/published.py``) and the trials below. The docs
contain both (docs/simulated-model.md), and a test compares them with this program.

The rule for agreement is the same for all findings: a published ratio within a factor of 1.5, a published share or
difference within five points, a published range as it is, and a published order as an order. The conditions follow the
sources, and strategies and reader keep their defaults. The only dials are named settings and one that was fitted to
another source.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._folder import own_folder
from stackmem.lab.bench.plan import Trial, TrialSubject, Variant
from stackmem.lab.bench.trial import Job, Row, run_trial
from stackmem.lab.simulated import published
from stackmem.lab.worlds.make import WORLDS

TASKS = tuple(sorted(name for name in WORLDS if name != "workday")[::3])
"""Every third family of the alphabet, so that nobody chose them."""
FACTOR, POINTS = 1.5, 5.0
UNLIMITED = 10_000_000
OUTPUT_PRICE = 5  # in prices of input tokens


class Setup(Struct, frozen=True):
    """What the trials of one column have in common."""

    strategy: str
    horizon: int
    noise: float
    dials: str = ""
    window_tokens: int | None = None


def _code(strategy: str, dials: str = "") -> Setup:
    """A task of 60 steps, as in software engineering."""
    return Setup(strategy, 60, 1.0, dials)


def _web(strategy: str, dials: str = "", window_tokens: int | None = None) -> Setup:
    """A task of 100 steps whose whole history exceeds 200,000 tokens, as reported for web research."""
    return Setup(strategy, 100, 4.0, dials, window_tokens)


def _short(strategy: str) -> Setup:
    """The task whose whole history comes closest to the 3,840 tokens of the MEM1 paper."""
    return Setup(strategy, 10, 0.0)


RAW, MASK, SUMMARY = _code("full"), _code("mask:10,poll=1"), _code("summary")
FITTED = "summary=0.08"  # the dial as fitted to lost-in-compaction
ROLLING, LETTA = _code("rolling_summary", FITTED), _code("letta", FITTED)
WEB, ENDLESS = _web("full"), _web("full", window_tokens=UNLIMITED)
CLEAR, MEMORY, FOLD, AGENTFOLD = _web("clear"), _web("memory_dir"), _web("fold"), _web("agentfold")
MISSING, MISSING_SHORT = _web("full", "middle", UNLIMITED), Setup("full", 100, 0.0, "middle", UNLIMITED)
SHORT, MEM1 = _short("full"), _short("mem1")

Rows = dict[Setup, list[Row]]


class Finding(Struct, frozen=True):
    """A published figure, the values that agree with it, and how trials measure it."""

    text: str
    source: str
    published: str
    low: float
    high: float
    unit: str
    measure: Callable[[Rows], float]

    def agrees(self, value: float) -> bool:
        return self.low <= round(value, 2) <= self.high

    def accepted(self) -> str:
        if self.high == float("inf"):
            return f"{'above 0' if self.low > 0 else '0 or more'}{self.unit}"
        return f"{_short_number(self.low)} to {_short_number(self.high)}{self.unit}"


def _short_number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:g}"


def _paired(rows: Rows, setup: Setup, base: Setup, value: Callable[[Row], float]) -> float:
    """Return the median over the tasks of one setup's value divided by the other's."""
    return median(value(row) / value(other) for row, other in zip(rows[setup], rows[base], strict=True))


def _peak(row: Row) -> float:
    return float(row["peak_context_tokens"])


def _tokens(row: Row) -> float:
    return float(row["uncached_tokens"])


def _cost(row: Row) -> float:
    """Return the cost in input tokens if cached input costs as much as any other."""
    return _tokens(row) + OUTPUT_PRICE * float(row["output_tokens"])


def _bill(row: Row) -> float:
    return float(row["bill_usd"])


def _solved(rows: Rows, setup: Setup) -> float:
    return 100 * sum(row["solved"] for row in rows[setup]) / len(rows[setup])


def _shown(rows: Rows, setup: Setup) -> float:
    """Return the share of uses of a fact that found it in the prompt."""
    return 100 - 100 * sum(row["facts_lost"] for row in rows[setup]) / sum(row["facts_used"] for row in rows[setup])


def _near(ratio: float) -> tuple[float, float]:
    return (round(ratio / FACTOR, 2), round(ratio * FACTOR, 2))


def _within(points: float) -> tuple[float, float]:
    return (round(points - POINTS, 2), round(points + POINTS, 2))


ABOVE, AT_LEAST = (0.01, float("inf")), (0.0, float("inf"))
TRAP, EDITING = (
    "[Complexity Trap](https://arxiv.org/abs/2508.21433)",
    "[Anthropic](https://www.anthropic.com/news/context-management)",
)
FOLDING, LOCA = "[Context-Folding](https://arxiv.org/abs/2510.11967)", "[LOCA-bench](https://arxiv.org/abs/2602.07962)"

FINDINGS = (
    Finding("masking costs half of the raw history, no discount for cached input", TRAP, "0.5", *_near(0.5), "",
            lambda rows: _paired(rows, MASK, RAW, _cost)),
    Finding("the same, cached input at a tenth of the price", TRAP, "0.5", *_near(0.5), "",
            lambda rows: _paired(rows, MASK, RAW, _bill)),
    Finding("masking solves as much as the raw history (Qwen3-Coder 480B)", TRAP, "+1.0 points", *_within(1.0),
            " points", lambda rows: _solved(rows, MASK) - _solved(rows, RAW)),
    Finding("cost of masking relative to summaries, no discount", TRAP, "0.96", *_near(0.96), "",
            lambda rows: _paired(rows, MASK, SUMMARY, _cost)),
    Finding("compressing the history lowers the peak of tokens", "[ACON](https://arxiv.org/abs/2510.00615)",
            "26 to 54 %", 26, 54, " %", lambda rows: 100 - 100 * _paired(rows, SUMMARY, RAW, _peak)),
    Finding("a state in place of the history lowers the peak of tokens", "[MEM1](https://arxiv.org/abs/2506.15841)",
            "3.7 times", *_near(3.7), " times", lambda rows: 1 / _paired(rows, MEM1, SHORT, _peak)),
    Finding("folding each step: context after 100 turns", "[AgentFold](https://arxiv.org/abs/2510.24699)",
            "7,000 tokens", *_near(7_000), " tokens", lambda rows: median(map(_peak, rows[AGENTFOLD]))),
    Finding("branches make the active context smaller", FOLDING, "10 times", *_near(10), " times",
            lambda rows: 1 / _paired(rows, FOLD, ENDLESS, _peak)),
    Finding("branches solve at least as much as the whole history", FOLDING, "equal or more", *AT_LEAST, " points",
            lambda rows: _solved(rows, FOLD) - _solved(rows, WEB)),
    Finding("clearing old results completes work that exceeds the window", EDITING, "yes", *ABOVE, " points",
            lambda rows: _solved(rows, CLEAR) - _solved(rows, WEB)),
    Finding("clearing saves tokens over 100 turns", EDITING, "84 %", *_within(84), " %",
            lambda rows: 100 - 100 * _paired(rows, CLEAR, ENDLESS, _tokens)),
    Finding("a memory directory with clearing is better than clearing only", EDITING, "39 % against 29 %", *ABOVE,
            " points", lambda rows: _solved(rows, MEMORY) - _solved(rows, CLEAR)),
    Finding("memory with search finds more facts than a recursive summary (GPT-4 Turbo)",
            "[MemGPT](https://arxiv.org/abs/2310.08560)", "93.4 against 35.3 %", *_within(58.1), " points",
            lambda rows: _shown(rows, LETTA) - _shown(rows, ROLLING)),
    Finding("success falls as the environment grows, without a limit of the window", LOCA, "yes", *ABOVE, " points",
            lambda rows: _solved(rows, MISSING_SHORT) - _solved(rows, MISSING)),
    Finding("managing the context raises success in a large environment", LOCA, "yes", *ABOVE, " points",
            lambda rows: max(_solved(rows, CLEAR), _solved(rows, MEMORY)) - _solved(rows, WEB)),
)  # fmt: skip
SETUPS = (
    RAW, MASK, SUMMARY, ROLLING, LETTA, WEB, ENDLESS, CLEAR, MEMORY, FOLD, AGENTFOLD, MISSING, MISSING_SHORT, SHORT,
    MEM1,
)  # fmt: skip


def measured(folder: Path, jobs: int = 1, tasks: tuple[str, ...] = TASKS) -> Rows:
    """Run the trials, and write their tasks and runs to ``folder``. A setup has a row per task, in their order."""
    work = [_job(folder, setup, task) for setup, task in product(SETUPS, tasks)]
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            done = list(pool.map(run_trial, work))
    else:
        done = [run_trial(job) for job in work]
    if broken := next((row for row in done if row["outcome"] == "error"), None):
        raise RuntimeError(f"trial {broken['id']} failed: {broken['error']}")
    size = len(tasks)
    return {setup: done[number * size : (number + 1) * size] for number, setup in enumerate(SETUPS)}


def _job(folder: Path, setup: Setup, task: str) -> Job:
    settings: dict[str, Any] = {"isolation": "memory", "fsync": "none"}
    if setup.window_tokens is not None:
        settings["window_tokens"] = setup.window_tokens
    subject = TrialSubject(task, task, horizon=setup.horizon, noise=setup.noise)
    model = "sim/bounded-reader" + (f":{setup.dials}" if setup.dials else "")
    variant = Variant(setup.strategy, setup.strategy)
    trial = Trial(f"{SETUPS.index(setup)}-{task}", subject, 1, model, variant, settings)
    return Job(trial, str(folder), "claude-sonnet-5-5", 10.0, "none")


def table_rows(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the second table in docs/simulated-model.md."""
    for finding in FINDINGS:
        value = finding.measure(rows)
        shown = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.2f}" if not finding.unit else f"{value:.1f}"
        yield (
            finding.text, finding.source, finding.published, finding.accepted(), f"{shown}{finding.unit}",
            "yes" if finding.agrees(value) else "no",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="parallel trials")
    parser.add_argument("--families", type=int, default=len(TASKS), help="use only the first families of tasks")
    given = parser.parse_args()
    for row in published.table_rows():
        print(f"| {' | '.join(row)} |")
    print()
    with own_folder() as folder:
        for row in table_rows(measured(folder, given.jobs, TASKS[: given.families])):
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
