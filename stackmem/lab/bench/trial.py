"""Run one trial and return its row. This is what a worker executes, locally or on another machine.

Rule 1: every trial ends as a row, unless a signal or the end of the process stops it. Rule 2: only flags, suite and
task define a trial. ``STACKMEM_*`` variables and configuration files are not read, so the
    same command means the same for everyone. Keys and provider addresses come from the worker's environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.facts import ClockRead, Event, ModelFailed, RunStarted
from stackmem.core.neighbors import neighbor
from stackmem.core.state import State
from stackmem.core.version import VERSION
from stackmem.review.measure.cached_steps import with_prompts
from stackmem.review.measure.first_loss import first_loss, literals
from stackmem.review.measure.metrics import measure
from stackmem.review.measure.moments import Moment
from stackmem.run.plugins.loading import blame, refuse_unlike_plugins
from stackmem.run.prepare import prepare
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from stackmem.settings.options import PREFIX
from stackmem.trace.lineage import RunReader
from stackmem.trace.walk import state_after
from stackmem.workspace.tree import remove_tree

from .bill import trial_bill
from .plan import Keep, Trial
from .session import converse

_encoder = msgspec.json.Encoder(order="deterministic")


class Fingerprint:
    """Computes the digests of a run from its events, one at a time.

    An event counts as the trace stores it, without its record (number, time, chain). ``ClockRead`` is left out, because
    it differs between any two runs.
    """

    def __init__(self) -> None:
        self._events = hashlib.sha256()
        self._prompts = hashlib.sha256()

    def add(self, event: Event) -> None:
        if isinstance(event, ClockRead):
            return
        self._events.update(_encoder.encode(event) + b"\n")
        prompt = getattr(event, "prompt_digest", None)  # present on every event that answers a prompt
        if prompt is not None:
            self._prompts.update(prompt.encode() + b"\n")

    @property
    def events(self) -> str:
        return self._events.hexdigest()

    @property
    def prompts(self) -> str:
        return self._prompts.hexdigest()


def fingerprint(events: Iterable[Event]) -> str:
    """Return the SHA-256 over the events of a run."""
    result = Fingerprint()
    for event in events:
        result.add(event)
    return result.events


Row = dict[str, Any]
"""Column to value, with the columns of ``results.columns``."""

RUNS, TASKS, WORK, MAKING = "runs", "tasks", "work", "tasks/.making"

_MAX_CACHED_TEXTS = 8_000
"""About 10 kB each. The trials of one world share most of their texts."""


class Job(Struct, frozen=True):
    """A trial with everything a worker needs. It can be pickled."""

    trial: Trial
    root: str  # absolute path of the bench's folder; a worker on another machine must reach it at the same path
    price: str
    latency_seconds: float
    keep_traces: Keep
    pause_seconds: float = 0.0
    version: str = VERSION  # version of the caller; the worker's must be the same
    plugins: dict[str, str] = {}  # digests of the caller's plug-ins; the worker's must be the same


class Interrupted(StackmemError):  # noqa: N818 - an event, not an error
    """The worker was stopped. The trial has no row and is repeated later."""


def run_trial(job: Job, throttled: Callable[[], None] = lambda: None, environ: Mapping[str, str] = os.environ) -> Row:
    """Run a trial and return its row. A trial that fails has the ``outcome`` ``error`` and a reason.

    ``throttled`` is called if the provider reports too many requests. Raise Interrupted if a signal ended the run.
    """
    started = time.time()
    began = time.monotonic()
    try:
        row = _solved(job, throttled, environ)
    except Interrupted:
        raise
    except Exception as error:  # noqa: BLE001 - any failure becomes a row
        row = error_row(job.trial, _error_text(error), Path(job.root))
    return {
        **row,
        "started": round(started, 4),
        "finished": round(time.time(), 4),
        "wall_seconds": round(time.monotonic() - began, 4),
    }


def identity(trial: Trial) -> Row:
    """Return the columns that are known before a trial runs."""
    subject = trial.subject
    return {
        "id": trial.id,
        "task": subject.task,
        "family": subject.family,
        "horizon": subject.horizon,
        "noise": subject.noise,
        "seed": trial.seed,
        "model": trial.model,
        "strategy": trial.variant.name,
        "spelled": trial.variant.strategy,
        "settings": trial.variant.settings,
        "isolation": str(trial.settings.get("isolation", "auto")),
        "session": trial.variant.session or "",
    }


def error_row(trial: Trial, reason: str, root: Path) -> Row:
    """Return the row of a trial without a result, with the run it left behind, if any."""
    paths = sorted((root / RUNS / trial.id).glob("*/trace.jsonl"))
    run = str(paths[-1].parent.relative_to(root)) if paths else ""
    return {**identity(trial), "outcome": "error", "ending": "", "solved": None, "error": reason, "run": run}


def _solved(job: Job, throttled: Callable[[], None], environ: Mapping[str, str]) -> Row:
    if job.version != VERSION:
        raise UsageError(
            f"the bench uses stackmem {job.version}, but this worker has {VERSION}; install the same version on both"
        )
    refuse_unlike_plugins(job.plugins)
    trial, root = job.trial, Path(job.root)
    runs = root / RUNS / trial.id
    remove_leftover(runs)  # left by a worker that died on this trial
    task = _task(trial, root)
    watch = _TrialWatch(throttled)
    variables = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    nowhere = {**variables, "XDG_CONFIG_HOME": str(root / TASKS / "no-settings")}
    flags = {
        **trial.settings, "model": trial.model, "strategy": trial.variant.strategy, "runs_dir": str(runs),
        "sandbox_dir": str(root / WORK / trial.id), "seed": trial.seed,
    }  # fmt: skip
    scratch = root / WORK / trial.id

    def prepare_at(folder: Path, more: Mapping[str, Any] = {}) -> Request:
        return prepare(str(folder), None, {**flags, **more}, nowhere, root)

    conversations: tuple[Path, ...] = ()
    failure = ""
    try:
        if trial.agent:
            solve_by_agent = neighbor("doors: solve by an agent")  # imported late because it needs an extra
            done = solve_by_agent(trial, partial(prepare_at, task), (runs, scratch / "agent"), variables)
            result, conversations, failure = done.result, done.conversations, done.failure
        elif trial.variant.session is None:
            result = solve(prepare_at(task), variables, watch)
        else:
            result = converse(trial.variant.session, task, prepare_at, variables, watch, scratch / "between")
    finally:
        remove_leftover(scratch)
    if result.ending == "interrupted" or result.signal:
        remove_leftover(runs)
        raise Interrupted("the worker was stopped; the trial is repeated when the bench continues")
    for folder in conversations:
        watch.read(folder)
    row = {**identity(trial), **watch.measured(job), **_outcome(result, failure)}
    keep_run = job.keep_traces == "all" or (job.keep_traces == "failed" and row["outcome"] != "solved")
    if not keep_run:
        remove_leftover(runs)
    paths = [str(folder.relative_to(root)) if keep_run else "" for folder in (Path(result.run_dir), *conversations)]
    return {**row, "digest": result.digest, "run": paths[0], "conversations": "\n".join(paths[1:])}


def _outcome(result: RunResult, failure: str) -> Row:
    error = failure or result.check_error or result.failure
    if failure or result.ending in ("model_error", "workspace_error"):  # the result it would have had is unknown
        return {
            "isolation": result.isolation,
            "outcome": "error",
            "ending": result.ending,
            "solved": None,
            "error": error,
        }
    return {
        "isolation": result.isolation,
        "outcome": result.outcome,
        "ending": result.ending,
        "solved": {"solved": 1, "finished": None}.get(result.outcome, 0),
        "error": error,
    }


def _error_text(error: Exception) -> str:
    message = str(error) if isinstance(error, StackmemError) else blame(error) or f"{type(error).__name__}: {error}"
    return message.encode("utf-8", "replace").decode()[:2_000]


def _task(trial: Trial, root: Path) -> Path:
    """Return the task's folder. The first trial of a world generates it."""
    subject = trial.subject
    if subject.horizon is None or subject.noise is None:
        return Path(subject.path)
    from stackmem.lab.worlds import make_task

    folder = root / TASKS / f"{subject.label}-s{trial.seed}"
    if not folder.is_dir():
        fresh = root / MAKING / f"{trial.id}.{os.getpid()}"
        remove_leftover(fresh)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        make_task(subject.family, trial.seed, subject.horizon, subject.noise, fresh)
        try:
            fresh.rename(folder)
        except OSError:  # another worker was faster, with the same bytes
            remove_leftover(fresh)
    return folder


def _losses(run: list[Moment]) -> Row:
    loss = first_loss(run)
    # The texts of a run are large, and few are shared with other runs.
    if literals.cache_info().currsize > _MAX_CACHED_TEXTS:
        literals.cache_clear()
    return {
        "first_loss_step": loss.step,
        "first_gone_step": loss.gone_step,
        "facts_used": loss.facts,
        "facts_lost": loss.lost,
    }


def remove_leftover(folder: Path) -> None:
    """Remove a tree. If a hostile command made that difficult, use the separate removal program."""
    if folder.exists():
        try:
            shutil.rmtree(folder)
        except (OSError, RecursionError):
            remove_tree(folder)


class _TrialWatch:
    """Records the events of a run and measures them after its end, so that measuring does not slow the run down."""

    def __init__(self, throttled: Callable[[], None]) -> None:
        self._throttled = throttled
        self._events: list[tuple[float, Event, State]] = []
        self._fingerprint = Fingerprint()
        self._sessions = 0

    def __call__(self, event: Event, state: State) -> None:
        self._take(time.time(), event, state)

    def _take(self, at: float, event: Event, state: State) -> None:
        self._sessions += isinstance(event, RunStarted)
        self._events.append((at, event, state))
        self._fingerprint.add(event)
        if isinstance(event, ModelFailed) and event.kind == "rate_limited":
            self._throttled()

    def read(self, folder: Path) -> None:
        """Add the events of a finished run after those recorded so far."""
        state = State()
        for record in RunReader(folder):
            state = state_after(State() if isinstance(record.event, RunStarted) else state, record)
            self._take(record.at, record.event, state)

    def measured(self, job: Job) -> Row:
        run = list(with_prompts(self._moments()))  # computed once, because ranking strategies can be slow
        values = measure(run)
        bill = trial_bill(run, job.price, job.latency_seconds, job.pause_seconds)
        return {
            **values,
            **asdict(bill),
            **(_losses(run) if self._sessions == 1 else {}),
            "fingerprint": self._fingerprint.events,
            "prompts_digest": self._fingerprint.prompts,
            "rate_limited": sum(isinstance(e, ModelFailed) and e.kind == "rate_limited" for _, e, _ in self._events),
        }

    def _moments(self) -> list[Moment]:
        moments, before, last = [], State(), self._events[0][0] if self._events else 0.0
        for seq, (at, event, after) in enumerate(self._events, 1):
            before = State() if isinstance(event, RunStarted) else before
            moments.append(Moment(seq, at, last, event, before, after))
            before, last = after, at
        return moments
