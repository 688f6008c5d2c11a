"""What ``bench`` asks for, and what it prints before and after."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import typer
from msgspec import Struct

from stackmem.bench.bench import Came, EngineName, Means, left_usd, run_bench
from stackmem.bench.estimate import ASSUMPTION, detectable
from stackmem.bench.ledger import latest_rows, read_plan, refuse_other
from stackmem.bench.plan import BenchPlan, Keep
from stackmem.bench.planning import make_plan, numbers, split_strategies
from stackmem.bench.suite import SETTINGS, SuiteRequest, over, read_setting, read_suite
from stackmem.bench.trial import Row
from stackmem.errors import UsageError
from stackmem.models.endpoint import ANTHROPIC, NO_KEY, OPENAI
from stackmem.settings.option_values import Place
from stackmem.settings.options import OPTIONS

from .bench_screen import open_bench_screen, strategy_lines
from .solving import readable

BUDGET_EXIT = 3
_ERRORS_SHOWN = 3


class Flags(Struct):
    """The command line as typer hands it over."""

    subjects: list[str] | None
    output: str | None
    strategies: list[str] | None
    models: list[str] | None
    trials: int | None
    horizon: str | None
    noise: str | None
    jobs: int | None
    engine: str | None
    scheduler: str | None
    concurrency: list[str] | None
    total_usd: float | None
    trial_seconds: float | None
    retry_errors: bool
    price: str | None
    latency: float | None
    keep_traces: str | None
    dry_run: bool
    json: bool
    quiet: bool
    settings: dict[str, str | None]


def bench_and_show(flags: Flags) -> None:
    """Run, show, and exit: 0 done, 3 the budget is used up, 130 and 143 a signal.

    Raises:
        StackmemError: As ``run_bench`` does.

    """
    output = flags.output
    if not output:
        raise UsageError("where the bench is kept was not said; say -o DIR")
    cwd = Path.cwd()
    folder = cwd / output
    plan = _plan(flags, folder, cwd)
    means = _means(flags)
    if flags.dry_run:
        _show_plan(plan, folder, _environ(flags), as_json=flags.json)
        return
    with open_bench_screen(quiet=flags.quiet) as screen:
        came = run_bench(plan, folder, means, os.environ, screen.begin, screen)
    _show(came, plan, output, as_json=flags.json)
    if came.signal:
        sys.exit(128 + came.signal)
    if came.ending == "budget":
        sys.exit(BUDGET_EXIT)


def _plan(flags: Flags, folder: Path, cwd: Path) -> BenchPlan:
    home = os.environ.get("HOME", "")
    named = flags.subjects or []
    suites = [one for one in named if one.endswith(".toml")]
    if len(suites) > 1:
        raise UsageError("one suite at a time; run them apart, each with its own -o DIR")
    asked = _asked(flags, [one for one in named if one not in suites], cwd, home)
    suite = read_suite(cwd / suites[0], home) if suites else SuiteRequest()
    if not named:
        old = read_plan(folder)
        if old is None:
            raise UsageError(
                f"nothing to solve was named, and there is no bench in {folder} to go on with; name tasks, worlds "
                "(stackmem worlds list) or a SUITE.toml"
            )
        if asked != SuiteRequest():
            raise UsageError("a bench goes on as it was planned; name its tasks too if more is wanted of it")
        return old
    said = " ".join(map(shlex.quote, ["stackmem", *sys.argv[1:]]))
    name = Path(suites[0]).stem if suites else ""
    return make_plan(over(asked, suite), cwd, _environ(flags), suite=name, command=said)


def _environ(flags: Flags) -> Mapping[str, str]:
    """The environment; for a dry run, which asks nobody, with a stand-in for a key that is not set."""
    if not flags.dry_run:
        return os.environ
    keys = {one.key_variable: os.environ.get(one.key_variable, "").strip() or NO_KEY for one in (ANTHROPIC, OPENAI)}
    return {**os.environ, **keys}


def _asked(flags: Flags, named: list[str], cwd: Path, home: str) -> SuiteRequest:
    worlds = _worlds()
    if flags.keep_traces is not None and flags.keep_traces not in get_args(Keep):
        raise UsageError(f"--keep-traces {flags.keep_traces!r} is none; write one of {', '.join(get_args(Keep))}")
    settings = {
        name: read_setting(name, raw, Place(OPTIONS[name].flag, folder=cwd, home=home))
        for name, raw in flags.settings.items()
        if raw is not None and name in SETTINGS
    }
    return SuiteRequest(
        worlds=tuple(one for one in named if one in worlds),
        tasks=tuple(one for one in named if one not in worlds),
        strategies=split_strategies(flags.strategies or ()),
        models=tuple(one.strip() for text in flags.models or () for one in text.split(",") if one.strip()),
        trials=flags.trials,
        horizons=numbers(flags.horizon or "", "--horizon"),
        noise=numbers(flags.noise or "", "--noise"),
        price=flags.price,
        latency_seconds=flags.latency,
        keep_traces=msgspec.convert(flags.keep_traces, Keep | None),
        settings=settings,
    )


def _worlds() -> frozenset[str]:
    from stackmem.worlds import WORLDS

    return frozenset((*WORLDS, "all"))


def _means(flags: Flags) -> Means:
    engine = "local" if flags.engine is None else flags.engine
    if engine not in get_args(EngineName):
        raise UsageError(f"no engine {engine[:40]!r}; known: {', '.join(get_args(EngineName))}")
    if flags.scheduler is not None and engine != "dask":
        raise UsageError("--scheduler goes with --engine dask")
    jobs = (os.cpu_count() or 1) if flags.jobs is None else flags.jobs
    if not 1 <= jobs <= 1_000:
        raise UsageError(f"{jobs} jobs cannot be; give --jobs from 1 to 1,000")
    for name, amount in (("--total-usd", flags.total_usd), ("--trial-seconds", flags.trial_seconds)):
        if amount is not None and not 0 < amount < 1e9:  # nor is what is no number
            raise UsageError(f"{name} {amount:g} cannot be; give a number above 0")
    concurrency = {}
    for text in flags.concurrency or ():
        provider, _, most = text.partition("=")
        if not provider or not most.isdecimal() or not 1 <= int(most[:6]) <= 1_000:
            raise UsageError(f"--concurrency {text[:60]!a} is none; write it like anthropic=4")
        concurrency[provider] = int(most[:6])
    return Means(
        jobs, msgspec.convert(engine, EngineName), flags.scheduler, concurrency, flags.total_usd,
        flags.trial_seconds, flags.retry_errors,
    )  # fmt: skip


def _show_plan(plan: BenchPlan, folder: Path, environ: Mapping[str, str], *, as_json: bool) -> None:
    old = read_plan(folder)
    if old is not None:
        refuse_other(old, plan, folder)
    rows: Mapping[str, Row] = latest_rows(folder)
    usd = left_usd(plan, rows, environ)
    pairs, rate, gap = detectable(plan, rows.values())
    found: dict[str, Any] = {
        "trials": plan.count,
        "done": len(rows),
        "subjects": [subject.shown for subject in plan.subjects],
        "models": plan.models,
        "strategies": [variant.name for variant in plan.variants],
        "seeds": plan.trials,
        "settings": plan.settings,
        "left_usd": None if usd is None else round(usd, 4),
        "pairs": pairs,
        "assumed_rate": rate,
        "smallest_difference": gap,
    }
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(
        f"{plan.count:,} trials: {len(plan.subjects)} tasks x {plan.trials} seeds x {len(plan.models)} models x "
        f"{len(plan.variants)} strategies; {len(rows):,} of them are done"
    )
    for label in ("subjects", "models", "strategies"):
        typer.echo(f"{label}: {', '.join(found[label])}")
    if plan.settings:
        typer.echo("settings: " + ", ".join(f"{name} {value}" for name, value in plan.settings.items()))
    if usd is None:
        typer.echo("cost: unknown, as no price of one of the models is known")
    else:
        typer.echo(f"cost of what is left: about ${usd:,.2f}" + (f" ({ASSUMPTION})" if usd else " (nobody is paid)"))
    seen = "at the rate of the finished trials" if any(row.get("solved") is not None for row in rows.values()) else ""
    typer.echo(
        f"{pairs:,} pairs of two strategies under one model "
        + (
            f"show a difference in success from {gap:.2f} on"
            if gap is not None
            else "are too few to show any difference in success"
        )
        + f" (power 0.8 at 5 %, {seen or 'assuming that one of them solves'} {rate:.2f})"
    )


def _show(came: Came, plan: BenchPlan, output: str, *, as_json: bool) -> None:
    errors = sum(row["outcome"] == "error" for row in came.rows)
    if as_json:
        found = {
            "outcome": came.ending, "trials": came.total, "done": len(came.rows), "new": came.fresh, "errors": errors,
            "cost_usd": round(came.paid_usd, 6), "results": str(came.results),
        }  # fmt: skip
        typer.echo(msgspec.json.encode(found).decode())
        return
    for line in strategy_lines(came.rows, [variant.name for variant in plan.variants]):
        typer.echo(line)
    failures = Counter(str(row.get("error")) for row in came.rows if row["outcome"] == "error")
    for sentence, count in failures.most_common(_ERRORS_SHOWN):
        typer.echo(f"{count:,} x {readable(sentence)[:300]}")
    typer.echo(
        f"{len(came.rows):,} of {came.total:,} trials done, {came.fresh:,} now, {errors:,} errors, "
        f"${came.paid_usd:,.4f} paid"
    )
    typer.echo(f"results: {came.results}")
    if errors:
        typer.echo(f"make those with errors again: stackmem bench -o {shlex.quote(output)} --retry-errors")
    if came.ending != "done":
        why = "the budget is used up" if came.ending == "budget" else "interrupted; every finished trial is kept"
        typer.echo(f"{why}; go on with: stackmem bench -o {shlex.quote(output)}")
