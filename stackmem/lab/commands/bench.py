"""``stackmem bench``."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import typer

from stackmem.cli.options import Flags, Json, Quiet, argument, option, settings, switch, takes
from stackmem.cli.screen.text import echo_json, readable, say, terminal_width, wrapped
from stackmem.core.errors import UsageError
from stackmem.core.text import quantity
from stackmem.lab.bench.bench import Came, EngineName, Means, left_usd, run_bench
from stackmem.lab.bench.estimate import ASSUMPTION, POINTS, detectable, paired_trials
from stackmem.lab.bench.ledger import latest_rows, read_plan, refuse_other
from stackmem.lab.bench.looks import expected_trials, seeds_at
from stackmem.lab.bench.plan import BenchPlan, Keep
from stackmem.lab.bench.planning import make_plan, numbers, split_strategies
from stackmem.lab.bench.screen import bench_answer, open_bench_screen, strategy_lines
from stackmem.lab.bench.suite import SETTINGS, SuiteRequest, merge, read_setting, read_suite
from stackmem.lab.bench.trial import Row
from stackmem.lab.worlds import WORLDS
from stackmem.models.endpoint import NO_KEY, PROVIDERS
from stackmem.run.plugins.loading import load_plugins
from stackmem.settings.option_values import ValuePlace
from stackmem.settings.options import LIMIT_OPTIONS, OPTIONS

if TYPE_CHECKING:
    from stackmem.lab.comparison.bench_archive import BenchArchive

BUDGET_EXIT = 3
_MAX_ERRORS = 3


@takes("flags", settings(
    "isolation", "network", "allow", "credentials",
    *LIMIT_OPTIONS, "command_seconds", "prompt", "profile",
    "base_url", "window_tokens", "size", "heap_chars", "heap_chunks", "depth", "checkpoints", "read_calls", "fsync",
))  # fmt: skip
def command(
    subjects: list[str] | None = argument(
        "TASK|WORLD|SUITE.toml...", "What to solve; without it, the bench in DIR continues.", default=None
    ),
    output: str | None = option("-o --output", "The folder of the bench.", "DIR"),
    strategies: list[str] | None = option("--strategies", "Strategies, separated by commas, or all.", "NAMES"),
    models: list[str] | None = option("--models", "Models, separated by commas.", "NAMES"),
    agent: str = option("--agent", "Another agent: 'mini -t {instruction}'.", "COMMAND", default=""),
    trials: int | None = option("--trials", "Trials per cell, with seeds 1 to N. Default: 1."),
    horizon: str | None = option("--horizon", "Steps of necessary work in a world. Default: 60.", "NUMBERS"),
    noise: str | None = option("--noise", "Noise in a world's outputs. Default: 1.", "NUMBERS"),
    looks: int | None = option("--looks", "Compare the trials so often, and stop once all is decided.", "N"),
    decide_on: str = option("--decide-on", "With --looks: solved, bill or peak.", "FIGURE", default=""),
    jobs: int | None = option("--jobs", "Parallel trials. Default: one per core."),
    engine: str | None = option("--engine", "local, or dask for more than one machine. Default: local.", "NAME"),
    scheduler: str | None = option("--scheduler", "A Dask scheduler, like tcp://HOST:8786.", "ADDRESS"),
    concurrency: list[str] | None = option("--concurrency", "Limit of parallel trials per provider.", "PROVIDER=N"),
    total_usd: float | None = option("--total-usd", "Limit for the cost of the bench, in USD. Default: no limit."),
    trial_seconds: float | None = option("--trial-seconds", "Seconds after which a trial is killed. Default: never."),
    retry_errors: bool = switch("--retry-errors", "Repeat trials that ended with an error."),
    price: str | None = option("--price", "The model whose prices the bill uses. Default: claude-sonnet-5-5.", "MODEL"),
    latency: float | None = option("--latency", "Seconds between two requests, in the bill. Default: 10."),
    pause: float | None = option(
        "--pause", "Extra seconds before a user's next request, in the bill. Default: 0, or the suite's."
    ),
    keep_traces: str | None = option("--keep-traces", "Runs to keep: all, failed or none. Default: all.", "WHICH"),
    archive: str = option("--archive", "Save the bench as one citable file.", "FILE", default=""),
    repeat: str = option("--repeat", "Repeat an archived bench and compare.", "ARCHIVE", default=""),
    *,
    flags: Flags,
    dry_run: bool = switch("--dry-run", "Show the plan and its expected cost, and run nothing."),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run tasks under several memory strategies, many times, and store the results in one SQLite file."""
    load_plugins()  # a world may come from a plug-in
    cwd = Path.cwd()
    folder = cwd / _output_folder(output)
    suites, names = _suites_and_names(subjects or [])
    request = SuiteRequest(
        worlds=tuple(each for each in names if each in WORLDS or each == "all"),
        tasks=tuple(each for each in names if each not in WORLDS and each != "all"),
        keep_traces=_keep(keep_traces),
        settings=_settings(flags, cwd),
        strategies=split_strategies(strategies or ()),
        models=tuple(each.strip() for text in models or () for each in text.split(",") if each.strip()),
        trials=trials, horizons=numbers(horizon or "", "--horizon"), noise=numbers(noise or "", "--noise"),
        price=price, latency_seconds=latency, pause_seconds=pause, agent=agent, looks=looks, decide_on=decide_on,
    )  # fmt: skip
    environ = _environ_without_keys() if dry_run else os.environ
    archived = _archive_to_repeat(cwd / repeat, request) if repeat else None
    plan = _planned(request, suites, cwd, environ, folder, archived)
    means = _means(jobs, engine, scheduler, concurrency or (), total_usd, trial_seconds, retry_errors=retry_errors)
    if dry_run:
        _show_plan(plan, folder, environ, as_json=json)
        return
    with open_bench_screen(quiet=quiet) as screen:
        came = run_bench(plan, folder, means, os.environ, screen.begin, screen)
    _show(came, plan, Path(_output_folder(output)), as_json=json)
    _settle(came, folder, cwd / archive if archive else None, archived)


def _output_folder(output: str | None) -> str:
    if not output:
        raise UsageError("missing output folder; pass -o DIR")
    return output


def _archive_to_repeat(path: Path, request: SuiteRequest) -> BenchArchive:
    """Return the archive to repeat, after checking that this machine can repeat it."""
    from stackmem.lab.comparison.bench_archive import read_archive, refuse_unlike

    if request != SuiteRequest():
        raise UsageError("--repeat uses the archived options; leave the other options out")
    archive = read_archive(path)
    refuse_unlike(archive)
    return archive


def _planned(
    request: SuiteRequest,
    suites: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    folder: Path,
    archive: BenchArchive | None,
) -> BenchPlan:
    if archive is not None:
        return archive.plan
    has_subjects = request.worlds or request.tasks or suites
    return _plan(request, suites, cwd, environ) if has_subjects else _kept_plan(request, folder)


def _settle(came: Came, folder: Path, path: Path | None, archive: BenchArchive | None) -> None:
    """Write the archive, and report whether a repeated bench is equal. Exits with 1 if it is not.

    A bench that a signal or its budget ended has neither; the exit code says so.
    """
    from stackmem.lab.comparison.bench_archive import differences, write_archive

    if came.signal or came.ending == "budget":
        sys.exit(128 + came.signal if came.signal else BUDGET_EXIT)
    if came.ending not in ("done", "decided"):
        return
    if path is not None:
        write_archive(folder, path)
        say(f"archive: {path}")
    if archive is None:
        return
    unlike = differences(archive, folder)
    for sentence in unlike:
        typer.echo(readable(sentence))
    typer.echo("not equal to the archive" if unlike else f"equal: {quantity(len(archive.rows), 'trial')}")
    if unlike:
        sys.exit(1)


def _suites_and_names(subjects: list[str]) -> tuple[list[str], list[str]]:
    """Return the suite file, if any, and the names of tasks and worlds."""
    suites = [subject for subject in subjects if subject.endswith(".toml")]
    if len(suites) > 1:
        raise UsageError("only one suite per bench; run each with its own -o DIR")
    return suites, [subject for subject in subjects if subject not in suites]


def _keep(name: str | None) -> Keep | None:
    if name is not None and name not in get_args(Keep):
        raise UsageError(f"unknown --keep-traces {name!r}; use one of {', '.join(get_args(Keep))}")
    choice: Keep | None = msgspec.convert(name, Keep | None)
    return choice


def _settings(flags: Flags, cwd: Path) -> dict[str, Any]:
    home = os.environ.get("HOME", "")
    return {
        name: read_setting(name, raw, ValuePlace(OPTIONS[name].flag, folder=cwd, home=home))
        for name, raw in flags.items()
        if raw is not None and name in SETTINGS
    }


def _plan(request: SuiteRequest, suites: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> BenchPlan:
    suite = read_suite(cwd / suites[0], os.environ.get("HOME", "")) if suites else SuiteRequest()
    line = " ".join(map(shlex.quote, ["stackmem", *sys.argv[1:]]))
    return make_plan(merge(request, suite), cwd, environ, suite=Path(suites[0]).stem if suites else "", command=line)


def _kept_plan(request: SuiteRequest, folder: Path) -> BenchPlan:
    """Return the plan of the existing bench, to continue it."""
    old = read_plan(folder)
    if old is None:
        raise UsageError(
            f"missing task, and {folder} does not contain a bench to continue; name tasks, worlds "
            "(stackmem worlds list) or a SUITE.toml"
        )
    if request != SuiteRequest():
        raise UsageError("a bench continues with its original options; to extend it, name its tasks too")
    return old


def _environ_without_keys() -> Mapping[str, str]:
    """Return the environment for a dry run, which makes no requests, with placeholders for missing keys."""
    keys = {
        provider.key_variable: os.environ.get(provider.key_variable, "").strip() or NO_KEY for provider in PROVIDERS
    }
    return {**os.environ, **keys}


def _means(
    jobs: int | None,
    engine: str | None,
    scheduler: str | None,
    concurrency: Sequence[str],
    total_usd: float | None,
    trial_seconds: float | None,
    *,
    retry_errors: bool,
) -> Means:
    engine = "local" if engine is None else engine
    if engine not in get_args(EngineName):
        raise UsageError(f"no engine {engine[:40]!r}; use one of {', '.join(get_args(EngineName))}")
    if scheduler is not None and engine != "dask":
        raise UsageError("--scheduler needs --engine dask")
    jobs = (os.cpu_count() or 1) if jobs is None else jobs
    if not 1 <= jobs <= 1_000:
        raise UsageError(f"{jobs} jobs are not possible; give --jobs from 1 to 1,000")
    for name, amount in (("--total-usd", total_usd), ("--trial-seconds", trial_seconds)):
        if amount is not None and not 0 < amount < 1e9:  # also refuses NaN
            raise UsageError(f"{name} {amount:g} is not possible; give a number above 0")
    most_of = {}
    for text in concurrency:
        provider, _, most = text.partition("=")
        if not provider or not most.isdecimal() or not 1 <= int(most[:6]) <= 1_000:
            raise UsageError(f"invalid --concurrency {text[:60]!a}; write it like anthropic=4")
        most_of[provider] = int(most[:6])
    return Means(
        jobs, msgspec.convert(engine, EngineName), scheduler, most_of, total_usd,
        trial_seconds, retry_errors,
    )  # fmt: skip


def _show_plan(plan: BenchPlan, folder: Path, environ: Mapping[str, str], *, as_json: bool) -> None:
    old = read_plan(folder)
    if old is not None:
        refuse_other(old, plan, folder)
    rows: Mapping[str, Row] = latest_rows(folder)
    usd = left_usd(plan, rows, environ)
    units, rate, gap = detectable(plan, rows.values())
    pairs, needed = paired_trials(plan, rate)
    summary = _plan_summary(plan, len(rows), usd, rate) | {
        "units": units,
        "smallest_difference": gap,
        "paired_trials": pairs,
        "paired_trials_for_5_points": needed,
    }
    if as_json:
        echo_json(summary)
        return
    typer.echo(
        f"{quantity(plan.count, 'trial')}: {quantity(len(plan.subjects), 'task')} x {quantity(plan.trials, 'seed')} x "
        f"{quantity(len(plan.models), 'model')} x "
        f"{len(plan.variants)} strategies; {quantity(len(rows), 'trial')} done"
    )
    for label in ("subjects", "models", "strategies"):
        typer.echo(f"{label}: {', '.join(summary[label])}")
    if plan.settings:
        typer.echo("settings: " + ", ".join(f"{name} {value}" for name, value in plan.settings.items()))
    if usd is None:
        typer.echo("cost: unknown, because the price of a model is unknown")
    else:
        typer.echo(
            f"cost of the remaining trials: about ${usd:,.2f}" + (f" ({ASSUMPTION})" if usd else " (free models)")
        )
    seen = (
        "with the finished trials' success rate of"
        if any(row.get("solved") is not None for row in rows.values())
        else ""
    )
    typer.echo(
        f"{units:,} {'tasks' if len({subject.task for subject in plan.subjects}) > 1 else 'trials of one task'} "
        + (
            f"can show a difference in success of {gap:.2f} or more"
            if gap is not None
            else "are too few to show any difference in success"
        )
        + f" (power 0.8 at 5 %, corrected, {seen or 'assuming a success rate of'} {rate:.2f})"
    )
    if plan.looks > 1:
        typer.echo(_looks_line(plan, rate))
    if needed is not None and len(plan.variants) > 1:
        typer.echo(
            f"on these tasks and seeds only: {needed:,} paired trials of each strategy find a difference of "
            f"{POINTS} points; the plan has {pairs:,}"
        )


def _plan_summary(plan: BenchPlan, done: int, usd: float | None, rate: float) -> dict[str, Any]:
    """Return what the plan contains, for ``--json`` and for the lines at the terminal."""
    summary: dict[str, Any] = {
        "trials": plan.count,
        "done": done,
        "subjects": [subject.label for subject in plan.subjects],
        "models": plan.models,
        "strategies": [variant.name for variant in plan.variants],
        "seeds": plan.trials,
        "settings": plan.settings,
        "left_usd": None if usd is None else round(usd, 4),
        "assumed_rate": rate,
    }
    if plan.looks > 1:
        summary |= {
            "looks": seeds_at(plan),
            "decide_on": plan.decide_on,
            "expected_trials": expected_trials(plan, rate) if plan.decide_on == "solved" else None,
        }
    return summary


def _looks_line(plan: BenchPlan, rate: float) -> str:
    *earlier, last = map(str, seeds_at(plan))
    line = (
        f"looks after {', '.join(earlier)} and {last} seeds, deciding on {plan.decide_on}: at most "
        f"{quantity(plan.count, 'trial')}"
    )
    if plan.decide_on != "solved":
        return f"{line}; how many are expected depends on the bills and contexts, so it is unknown"
    each = (
        f"{usual:,.0f} if it differs by {gap * 100:.0f} points" if gap else f"{usual:,.0f} if success is equal"
        for gap, usual in expected_trials(plan, rate).items()
    )
    return f"{line}; expected are {', '.join(each)}"


def _show(came: Came, plan: BenchPlan, output: Path, *, as_json: bool) -> None:
    errors = sum(row["outcome"] == "error" for row in came.rows)
    if as_json:
        summary = {
            "outcome": came.ending, "trials": came.total, "done": len(came.rows), "new": came.fresh, "errors": errors,
            "cost_usd": round(came.paid_usd, 6), "results": str(came.results),
        }  # fmt: skip
        echo_json(summary)
        return
    strategies = [variant.name for variant in plan.variants]
    if answer := bench_answer(came.rows, strategies):
        typer.echo(f"{wrapped(answer)}\n")
    for line in strategy_lines(came.rows, strategies, terminal_width()):
        typer.echo(line)
    failures = Counter(str(row.get("error")) for row in came.rows if row["outcome"] == "error")
    for sentence, count in failures.most_common(_MAX_ERRORS):
        typer.echo(f"{count:,} x {readable(sentence)[:300]}")
    typer.echo(
        wrapped(
            f"{len(came.rows):,} of {quantity(came.total, 'trial')} done, {came.fresh:,} now, {errors:,} errors, "
            f"${came.paid_usd:,.4f} paid"
        )
    )
    typer.echo(f"results: {came.results}")
    if errors:
        typer.echo(f"repeat the trials with errors: stackmem bench -o {shlex.quote(str(output))} --retry-errors")
    if came.ending == "decided":
        saved = quantity(came.total - len(came.rows), "trial")
        typer.echo(f"stopped early: every strategy has a verdict; {saved} not needed")
    elif came.ending != "done":
        reason = "the budget is used up" if came.ending == "budget" else "interrupted; finished trials are saved"
        typer.echo(f"{reason}; to continue, run: stackmem bench -o {shlex.quote(str(output))}")
