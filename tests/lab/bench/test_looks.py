"""A bench that looks at its trials before the end stops when all is decided, and seldom decides falsely."""

import csv
import os
import re
from collections import deque
from math import exp, log
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.lab.bench.engine import TrialDone
from stackmem.lab.bench.ledger import Ledger, latest_rows
from stackmem.lab.bench.looks import FIGURES, current_level, decided, expected_trials, levels, seeds_at, verdicts
from stackmem.lab.bench.plan import BenchPlan, TrialSubject, Variant, trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.runner import Bounds, Pace, Runner
from stackmem.lab.bench.statistics import NONE_SHOWN, TOO_FEW, compare
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.lab.bench.trial import identity
from stackmem.lab.comparison.figures import sections
from stackmem.lab.comparison.results import read_bench
from stackmem.lab.comparison.write import write_report
from tests.campaigns import LONG
from tests.conftest import CAMPAIGN

DATA = Path(__file__).with_name("zoo.csv")
"""Trials of the bench in docs/bench.md with four more strategies: 23 worlds with 30 steps and six seeds."""
RUNS = 2_000 if CAMPAIGN else 40
LOOKS = 3


def planned(seeds=6, looks=LOOKS, figure="solved", strategies=("full", "mask"), worlds=("ledger", "conflict")):
    subjects = tuple(TrialSubject(name, name, horizon=30, noise=1.0) for name in worlds)
    variants = tuple(Variant(name, name) for name in strategies)
    return BenchPlan(subjects, ("sim/x",), variants, seeds, looks=looks, decide_on=figure)


class Scripted:
    """An engine that ends one trial per poll, with the values that ``play`` gives."""

    places = 3

    def __init__(self, play):
        self.jobs, self.taken, self._play = deque(), [], play

    def submit(self, job):
        self.jobs.append(job.trial)
        self.taken.append(job.trial)

    def wait(self, seconds):
        trial = self.jobs.popleft()
        return [TrialDone({**identity(trial), "outcome": "solved", **self._play(trial)})]

    def close(self):
        self.jobs.clear()


def run(plan, folder, play):
    engine = Scripted(play)
    with Ledger(folder, plan) as ledger:
        ending = Runner(plan, folder, ledger, engine, Bounds(Pace({}), {})).run(lambda: False, lambda _: None)
    return ending, engine.taken


def mask_fails(trial):
    return {"solved": int(trial.variant.name == "full"), "bill_usd": 1.0, "peak_context_tokens": 5}


def no_difference(trial):
    return {"solved": trial.seed % 2, "bill_usd": 1.0 + trial.seed, "peak_context_tokens": 5}


def test_the_looks_split_the_seeds_and_the_last_one_covers_all():
    assert seeds_at(planned(6, 3)) == (2, 4, 6)
    assert seeds_at(planned(7, 3)) == (3, 5, 7)
    assert seeds_at(planned(7, 1)) == (7,)


def test_the_looks_spend_five_percent_together_most_of_it_at_the_end():
    assert levels(1) == pytest.approx((0.05,))
    assert levels(3) == pytest.approx((0.00069, 0.0157, 0.0336), abs=1e-4)
    assert sum(levels(20)) == pytest.approx(0.05)
    assert list(levels(5)[:4]) == sorted(levels(5)[:4])


def test_the_level_is_that_of_the_look_after_the_last_seed():
    plan = planned(6)
    ids = [trial.id for trial in trials(plan)]  # four for each seed
    first, second, third = levels(3)
    reached = [current_level(plan, ids[:count]) for count in (0, 3, 8, 9, 16, 20, 24)]
    assert reached == [first, first, first, second, second, third, third]


def test_a_bench_stops_after_the_part_in_which_all_was_decided(tmp_path):
    ending, taken = run(planned(12), tmp_path, mask_fails)
    assert ending == "decided"
    assert {trial.seed for trial in taken} == set(range(1, 9))  # 16 pairs, none gained: p = 2 ** -15
    assert len(latest_rows(tmp_path)) == 32


def test_a_bench_that_is_never_decided_runs_to_its_end(tmp_path):
    ending, taken = run(planned(6), tmp_path, no_difference)
    assert (ending, len(taken)) == ("done", 24)


def test_a_stopped_bench_that_continues_starts_no_trial(tmp_path):
    run(planned(12), tmp_path, mask_fails)
    assert run(planned(12), tmp_path, mask_fails) == ("decided", [])


def test_a_part_does_not_start_before_the_look(tmp_path):
    seen = []

    def play(trial):
        seen.append(trial.seed)
        return no_difference(trial)

    run(planned(6), tmp_path, play)
    assert seen == sorted(seen)
    assert seen.count(1) == seen.count(6) == 4


def test_trials_with_errors_decide_nothing(tmp_path):
    ending, _ = run(planned(12), tmp_path, lambda trial: {**mask_fails(trial), "outcome": "error"})
    assert ending == "done"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"looks": 3}, "--looks needs --decide-on"),
        ({"decide_on": "bill"}, "1 looks are not possible"),
        ({"looks": 0, "decide_on": "bill"}, "0 looks are not possible"),
        ({"looks": 21, "decide_on": "bill", "trials": 30}, "21 looks are not possible"),
        ({"looks": 3, "decide_on": "steps"}, "unknown --decide-on 'steps'; use one of solved, bill, peak"),
        ({"looks": 7, "decide_on": "bill"}, "7 looks need at least 7 seeds"),
        ({"looks": 2, "decide_on": "bill", "strategies": ("full",)}, "looks compare strategies with full or stackheap"),
        ({"looks": 2, "decide_on": "bill", "strategies": ("mask", "clear")}, "looks compare strategies with full or"),
    ],
)
def test_looks_that_cannot_be_made_are_refused(change, message):
    request = SuiteRequest(
        worlds=("ledger",), strategies=("full", "mask"), models=("sim/bounded-reader",), trials=6,
        settings={"isolation": "memory"},
    )  # fmt: skip
    with pytest.raises(UsageError, match=message):
        make_plan(replace(request, **change), Path.cwd(), os.environ)


@pytest.mark.parametrize("change", [{"looks": 2}, {"decide_on": "bill"}, {"trials": 12}])
def test_a_bench_with_looks_does_not_change(tmp_path, change):
    plan = planned(6)
    run(plan, tmp_path, no_difference)
    with pytest.raises(UsageError, match=r"looks|decide_on|cannot grow"):
        Ledger(tmp_path, replace(plan, **change))


@pytest.mark.parametrize("figure", FIGURES)
def test_the_report_gives_the_verdicts_of_the_look(tmp_path, figure):
    plan = planned(6, figure=figure, strategies=("full", "mask:5,poll=1", "window:8"), worlds=WORLDS[:9])
    values = VALUES

    def play(trial):
        solved, bill, peak = values[trial.variant.name][trial.subject.task, trial.seed]
        return {
            "solved": solved, "bill_usd": bill, "peak_context_tokens": peak, "bill_output": bill * 1e6 / 10.0,
            "bill_uncached": 0, "bill_read": 0, "bill_write_5m": 0, "bill_write_1h": 0,
        }  # fmt: skip

    _, taken = run(plan, tmp_path, play)
    write_report(tmp_path, str(tmp_path / "report.md"))
    text = (tmp_path / "report.md").read_text()
    assert re.search(r"judged at (0\.069|1\.6|3\.4) % instead of 5 %", text)
    results = read_bench(tmp_path)
    assert results.alpha in levels(LOOKS)
    from stackmem.lab.comparison.write import _wants

    table = sections(results, _wants(results, None, None))[0]
    column = "solved_here" if figure == "solved" else figure
    reported = {line.strategy: line.against[column].verdict for line in table.lines if line.against}
    (here,) = verdicts(plan, latest_rows(tmp_path), max(trial.seed for trial in taken))
    assert reported == {name: comparison.verdict for name, comparison in here.items()}


def recorded():
    values: dict[str, dict[tuple[str, int], tuple[float, float, float]]] = {}
    with DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            figures = float(row["solved"]), float(row["bill_usd"]), float(row["peak_context_tokens"])
            values.setdefault(row["strategy"], {})[row["task"], int(row["seed"])] = figures
    return values


VALUES = recorded()
WORLDS = tuple(dict.fromkeys(task for task, _ in VALUES["full"]))
OTHERS = ("mask:5,poll=1", "window:8", "summary", "stackheap")
SEEDS = 6


def centers(column):
    """Return the mean over worlds of the logarithm of each strategy's ratio to ``full``."""

    def amount(name, world):
        return log(fmean(VALUES[name][world, seed][column] for seed in range(1, SEEDS + 1)))

    return {name: fmean(amount(name, world) - amount("full", world) for world in WORLDS) for name in OTHERS}


def resampled(dice, figure, *, equal):
    """Return a plan and rows of worlds and seeds that were drawn again from the recorded ones.

    With ``equal``, no strategy differs in general. For success, each pair of trials exchanges its sides by chance. For
    amounts, the mean of the logarithms of the ratios is taken out, so their skew and their spread stay.
    """
    column = list(FIGURES).index(figure)
    name_of, middle = FIGURES[figure].column, centers(column) if equal and column else {}
    drawn = [WORLDS[number] for number in dice.integers(0, len(WORLDS), len(WORLDS))]
    seeds = [dice.permutation(SEEDS) + 1 for _ in drawn]
    plan = planned(SEEDS, figure=figure, strategies=("full", *OTHERS), worlds=[f"w{n}" for n in range(len(drawn))])
    rows = {}
    for trial in trials(plan):
        number = int(trial.subject.task[1:])
        cell = drawn[number], int(seeds[number][trial.seed - 1])
        value = VALUES[trial.variant.name][cell][column] / exp(middle.get(trial.variant.name, 0.0))
        rows[trial.id] = {"outcome": "solved", name_of: value}
    return plan, rows


def called(plan, rows):
    """Return the seeds that were used, and the verdicts at the end."""
    for seeds in seeds_at(plan):
        if seeds == plan.trials or decided(plan, rows, seeds):
            (comparisons,) = verdicts(plan, rows, seeds)
            return seeds, {name: comparison.verdict for name, comparison in comparisons.items()}
    raise AssertionError("unreachable")


def any_look_calls_a_difference(plan, rows):
    """Whether a bench that stops at the first verdict of any strategy would report a difference: the worst case."""
    return any(
        comparison.verdict in ("better", "worse")
        for seeds in seeds_at(plan)
        for comparisons in verdicts(plan, rows, seeds)
        for comparison in comparisons.values()
    )


@LONG
@pytest.mark.parametrize("figure", ["bill", "peak"])
def test_equal_strategies_are_called_different_at_any_look_in_at_most_six_of_a_hundred_benches(figure):
    dice = np.random.default_rng(7)
    false = sum(any_look_calls_a_difference(*resampled(dice, figure, equal=True)) for _ in range(RUNS))
    assert false <= 0.06 * RUNS + 2 * (0.06 * 0.94 * RUNS) ** 0.5 * (RUNS < 1_000)


@LONG
def test_equal_success_is_called_different_at_any_look_in_at_most_six_of_a_hundred_benches():
    """Each discordant pair of the recorded trials exchanges its sides by chance."""
    dice, false = np.random.default_rng(8), 0
    for _ in range(RUNS):
        plan, rows = resampled(dice, "solved", equal=False)
        signs = {(name, world, seed): dice.random() < 0.5
                 for name in OTHERS for world in range(len(WORLDS)) for seed in range(1, SEEDS + 1)}  # fmt: skip
        pairs: dict[int, dict[str, list[tuple[float, float]]]] = {}
        for seeds in seeds_at(plan):
            values = {(t.variant.name, int(t.subject.task[1:]), t.seed): rows[t.id]["solved"]
                      for t in trials(plan) if t.seed <= seeds}  # fmt: skip
            pairs[seeds] = {
                name: [
                    (own, values["full", world, seed])[:: -1 if signs[name, world, seed] else 1]
                    for (other, world, seed), own in values.items() if other == name
                ]
                for name in OTHERS
            }  # fmt: skip
        false += any(
            comparison.verdict in ("better", "worse")
            for each, alpha in zip(pairs.values(), levels(LOOKS), strict=True)
            for comparison in compare(each, "more", yes_no=True, least=0.0, alpha=alpha).values()
        )
    assert false <= 0.06 * RUNS + 2 * (0.06 * 0.94 * RUNS) ** 0.5 * (RUNS < 1_000)


@LONG
@pytest.mark.parametrize(("figure", "sure"), [("solved", {"mask:5,poll=1", "window:8"}), ("peak", {"mask:5,poll=1"})])
def test_recorded_differences_are_found_and_stop_the_bench_early(figure, sure):
    dice, found, used = np.random.default_rng(9), 0, 0
    for _ in range(RUNS):
        plan, rows = resampled(dice, figure, equal=False)
        plan = replace(plan, variants=tuple(v for v in plan.variants if v.name in {"full", *sure}))
        seeds, told = called(plan, rows)
        found += all(told[name] in ("better", "worse") for name in sure)
        used += seeds
    assert found >= 0.8 * RUNS
    assert used < 0.7 * SEEDS * RUNS


def test_fewer_trials_are_expected_if_success_differs():
    plan = planned(30, strategies=("full", "mask"), worlds=[f"w{n}" for n in range(20)])
    expected = expected_trials(plan, 0.5)
    assert expected[0.2] < 0.7 * plan.count
    assert 0.95 * plan.count < expected[0.0] <= plan.count


def test_the_verdict_of_one_look_is_that_of_a_bench_without_looks():
    plan, rows = resampled(np.random.default_rng(10), "peak", equal=False)
    (many,) = verdicts(plan, rows, SEEDS)
    (one,) = verdicts(replace(plan, looks=1), rows, SEEDS)
    assert all(many[name].p == one[name].p for name in OTHERS)
    assert all(many[name].corrected.low <= one[name].corrected.low for name in OTHERS)
    assert {one[name].verdict for name in OTHERS} - {NONE_SHOWN, TOO_FEW}
