"""Turn a request for a bench into a plan in which every name has been checked."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.neighbors import neighbor
from stackmem.core.pricing import Price
from stackmem.foreign.files import digest_of_regular
from stackmem.memory import STRATEGIES, open_strategy
from stackmem.models.endpoint import without_login
from stackmem.models.registry import open_model
from stackmem.review.measure.metrics import measure
from stackmem.run.in_memory import MEMORY, is_world
from stackmem.run.plugins.loading import load_plugins, plugin_digests
from stackmem.run.tasks.find import find_task
from stackmem.run.tasks.reader import read_task
from stackmem.settings.options import suggestion

from .bill import PRICE, billed_by_themselves, priced
from .looks import refuse_looks
from .plan import BenchPlan, TrialSubject, Variant
from .results import columns
from .suite import SuiteRequest

HORIZON, NOISE, TRIALS, LATENCY_SECONDS = 60, 1.0, 1, 10.0
MAX_SECONDS = 86_400
MAX_TRIALS = 1_000_000
_MAX_TASK_FILE_BYTES = 16 << 30


def make_plan(
    request: SuiteRequest, cwd: Path, environ: Mapping[str, str], *, suite: str = "", command: str = ""
) -> BenchPlan:
    """Return the plan, or raise if a name or value in the request is invalid."""
    load_plugins()
    models = tuple(_spelled(model, cwd) for model in dict.fromkeys(request.models))
    if not models:
        raise UsageError("missing model; pass --models NAME (demo runs a task's own script)")
    own = request.price is None and billed_by_themselves(models)
    price = "" if own else priced(request.price or PRICE).name
    latency = LATENCY_SECONDS if request.latency_seconds is None else request.latency_seconds
    pause = request.pause_seconds or 0.0
    for name, flag, seconds in (("latency", "--latency", latency), ("pause", "--pause", pause)):
        if not 0 <= seconds <= MAX_SECONDS:  # also refuses NaN
            raise UsageError(f"invalid {name} of {seconds} s; give {flag} from 0 to {MAX_SECONDS:,}")
    trials = TRIALS if request.trials is None else request.trials
    if trials < 1:
        raise UsageError(f"{trials} is not a number of trials; give --trials 1 or more")
    variants = _variants(request)
    isolations = [variant.settings.get("isolation", request.settings.get("isolation")) for variant in variants]
    memory = MEMORY in (request.settings.get("isolation"), *isolations)
    if sys.platform != "linux" and set(isolations) != {MEMORY}:
        raise UsageError("the sandbox needs Linux; bench worlds with --isolation memory, or use --in-container")
    plan = BenchPlan(
        subjects=_subjects(request, cwd, demo="demo" in models, memory=memory),
        models=models,
        variants=variants,
        trials=trials,
        settings=request.settings,
        price=price,
        latency_seconds=latency,
        pause_seconds=pause,
        keep_traces=request.keep_traces or "all",
        suite=suite,
        description=request.description,
        command=command,
        agent=neighbor("doors: read an agent")(request.agent, cwd, environ.get("PATH", "")) if request.agent else (),
        looks=1 if request.looks is None else request.looks,
        decide_on=request.decide_on,
        plugins=plugin_digests(),
    )
    if plan.count > MAX_TRIALS:
        raise UsageError(f"the plan has {plan.count:,} trials; reduce it to at most {MAX_TRIALS:,} trials")
    _refuse_sessions(plan)
    _refuse_parallel_frames(plan)
    refuse_looks(plan)
    for variant in plan.variants if plan.agent else ():
        neighbor("doors: refuse for an agent")(plan.models, (variant.strategy,), {**plan.settings, **variant.settings})
    model_prices(plan, environ)
    _try_plugins(plan)
    return plan


def _try_plugins(plan: BenchPlan) -> None:
    """Call everything that plug-ins provide once, before any trial costs money. Any exception ends the command."""
    columns()
    measure(())
    for subject in plan.subjects:
        if subject.horizon is not None and subject.noise is not None:
            from stackmem.lab.worlds import SHIPPED, design

            if subject.family in SHIPPED:
                continue
            design(subject.family, 1, subject.horizon, subject.noise)


def _refuse_sessions(plan: BenchPlan) -> None:
    """Refuse sessions for tasks without requests, and new sessions outside memory isolation."""
    from stackmem.lab.worlds import tasks

    kinds = {variant.session: {**plan.settings, **variant.settings} for variant in plan.variants if variant.session}
    for subject in plan.subjects:
        if kinds and (subject.family in tasks() or not subject.family):
            raise UsageError(
                f"the task {subject.task} has no separate requests, so it cannot run as a session; use workday"
            )
    if "new" in kinds and kinds["new"].get("isolation") != MEMORY:
        raise UsageError(
            "a new session for each request needs --isolation memory, which carries the world between runs"
        )


def _refuse_parallel_frames(plan: BenchPlan) -> None:
    """Refuse parallel frames, because the bill and the steps of a trial cover only the prompts of the parent run."""
    for variant in plan.variants:
        if int({**plan.settings, **variant.settings}.get("parallel_frames") or 0):
            raise UsageError("a bench cannot measure parallel frames yet; omit parallel_frames")


def model_prices(plan: BenchPlan, environ: Mapping[str, str]) -> dict[str, Price | None]:
    """Return the price of each model; None if it is free or the price is unknown (see ``is_free``).

    Raise UsageError if a model cannot be opened.
    """
    prices: dict[str, Price | None] = {}
    for model in plan.models:
        if model == "human":
            raise UsageError("a bench cannot use the model human; name another one")
        if model == "demo":
            prices[model] = None
            continue
        base_url = plan.settings.get("base_url")
        if base_url is not None and without_login(base_url) != base_url:
            raise UsageError(
                "--base-url contains a login, which a bench would store in its plan; give it without the login"
            )
        price = plan.settings.get("price")
        prices[model] = open_model(
            model, environ, base_url=None if base_url == "none" else base_url, price=None if price == "none" else price
        ).price
    return prices


def split_strategies(texts: Iterable[str]) -> tuple[str, ...]:
    """Split ``mask:10,poll=10,full`` into ``mask:10,poll=10`` and ``full``: parameters are separated by commas, too.

    A piece that is the name of a strategy, with or without parameters, starts a new one. ``KEY=VALUE`` and numbers
    belong to the strategy before them. Anything else is treated as a name, so that it is reported as unknown.
    """
    strategies: list[str] = []
    for text in texts:
        pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
        for at, piece in enumerate(pieces):
            name = piece.partition(":")[0]
            parameter = name not in STRATEGIES and name != "all" and ("=" in name or name.replace(".", "").isdigit())
            if at and parameter:
                strategies[-1] += f",{piece}"
            else:
                strategies.append(piece)
    return tuple(strategies)


def numbers(text: str, label: str) -> tuple[float, ...]:
    """Parse a list such as ``60,300``. Raise UsageError if a part is not a number."""
    try:
        return tuple(float(piece) for piece in text.split(",") if piece.strip())
    except ValueError as error:
        raise UsageError(f"{label}: {text[:60]!a} is not a list of numbers; write it like 60,300") from error


def _spelled(model: str, cwd: Path) -> str:
    """Make the path of a script absolute, so that any process can find it."""
    return f"script:{cwd / model[7:]}" if model.startswith("script:") and len(model) > 7 else model


def _variants(request: SuiteRequest) -> tuple[Variant, ...]:
    spelled = [each for name in request.strategies for each in (STRATEGIES if name == "all" else (name,))]
    variants = [Variant(name, name) for name in dict.fromkeys(spelled)] + list(request.variants)
    variants = [each if each.session else replace(each, session=request.session) for each in variants]
    if not variants:
        raise UsageError(f"missing strategy; pass --strategies all, or some of {', '.join(STRATEGIES)}")
    names = [variant.name for variant in variants]
    for variant in variants:
        open_strategy(variant.strategy)
        if names.count(variant.name) > 1 or not variant.name.strip():
            raise UsageError(f"two variants are named {variant.name!r}; give each a different name")
    return tuple(variants)


def _subjects(request: SuiteRequest, cwd: Path, *, demo: bool, memory: bool) -> tuple[TrialSubject, ...]:
    subjects = [_fixed(task, cwd, demo=demo, memory=memory) for task in dict.fromkeys(request.tasks)]
    names = [subject.task for subject in subjects]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two tasks are named {name}, so their rows could not be distinguished; run them in separate benches"
            )
    worlds = tuple(dict.fromkeys(request.worlds))
    if worlds:
        from stackmem.lab.worlds import HORIZONS, MAX_NOISE, WORLDS, tasks

        for world in worlds:
            if world != "all" and world not in WORLDS:
                raise UsageError(f"no world {world[:60]!a}; {suggestion(world, WORLDS)}")
        horizons = [_horizon(value, HORIZONS) for value in dict.fromkeys(request.horizons or (HORIZON,))]
        noises = [_noise(value, MAX_NOISE) for value in dict.fromkeys(request.noise or (NOISE,))]
        subjects += [
            TrialSubject(family, family, horizon=horizon, noise=noise)
            for family in dict.fromkeys(
                family_name for name in worlds for family_name in (tasks() if name == "all" else (name,))
            )
            for horizon in horizons
            for noise in noises
        ]
    if not subjects:
        raise UsageError("missing task; name tasks, worlds (stackmem worlds list) or a SUITE.toml")
    return tuple(subjects)


def _horizon(value: float, allowed: tuple[int, int]) -> int:
    low, high = allowed
    if not low <= value <= high or value != int(value):
        raise UsageError(f"invalid horizon {value:g}; give whole numbers from {low} to {high:,}, like 60,300")
    return int(value)


def _noise(value: float, most: float) -> float:
    if not 0 <= value <= most:  # also refuses NaN
        raise UsageError(f"invalid noise {value:g}; give numbers from 0 to {most:g}")
    return float(value)


def _fixed(name: str, cwd: Path, *, demo: bool, memory: bool) -> TrialSubject:
    folder = find_task(name, cwd)
    if folder is None:
        raise UsageError(f"{name} has no task.toml; a bench needs tasks with checks")
    task = read_task(folder)
    if demo and task.demo is None:
        raise UsageError(f"the task {task.short_name} has no demo.yaml; use another model than demo")
    if memory and not is_world(task.folder):
        raise UsageError(f"--isolation memory supports only worlds, not {task.short_name}; leave --isolation out")
    return TrialSubject(task.short_name, path=str(task.folder), digest=folder_digest(task.folder))


def folder_digest(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of a folder's files, without ``__pycache__``.

    Raise UsageError if a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = os.fsencode(path.relative_to(folder))
                digest.update(b"%d %s %s\n" % (len(name), name, digest_of_regular(path, _MAX_TASK_FILE_BYTES).encode()))
    except OSError as error:
        raise UsageError(f"the task's file {error.filename} cannot be read ({error.strerror})") from error
    return digest.hexdigest()
