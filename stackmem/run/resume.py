"""Resumes a run that was killed, interrupted, stopped by a limit, or ended by a provider failure.

Rule 1: Recorded events stay valid; the next prompt is byte for byte the one the stopped process would have sent.
Rule 2: A call without a recorded result is repeated if that is safe, see ``repeats``.
Rule 3: The isolation level is the previous one unless the user names another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.decider import Decider, LiveMoments
from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.facts import Event, RunResumed
from stackmem.core.limits import RUN_LIMITS
from stackmem.core.machine import advance, evolve
from stackmem.core.parallel.rules import is_over
from stackmem.core.pricing import Answerer
from stackmem.core.requests import Effect, RunChecks
from stackmem.core.state import State
from stackmem.core.version import VERSION
from stackmem.models.registry import NOBODY, Model
from stackmem.run.plugins.loading import load_plugins
from stackmem.trace.lock import Lock

from .assemble import scrubber_of
from .ending import make_missing, missing_of_end
from .in_memory import stays_in_memory
from .interrupts import Interrupts
from .limits import later_limits, refuse_spent
from .open import open_run
from .opened import Observe, Opened, Person
from .plan import Plan, Resumed, plan_kept
from .play import play
from .prepare import prepare_kept
from .programs.result import ProgramResult, program_result
from .repeats import changes_files, put_back, refuse_unsafe, result_of_interrupted
from .result import RunResult
from .run_folder import HISTORY, TRACE
from .stopped import Stopped, read_stopped
from .stored_request import StoredRequest, read_request, with_model

_JUDGED = ("popped", "stalled", *(limit.ending for limit in RUN_LIMITS))


class ResumeResult(Struct, frozen=True):
    """Outcome of resuming a run."""

    result: RunResult | None  # None if there was nothing to resume and nothing to write
    outcome: str  # the current outcome of the run
    played: bool  # whether the run continued; False if only its result was written, or nothing
    torn_bytes: int = 0  # length of the incomplete last record that was cut off after a crash
    folder: str = ""  # the user folder that the workspace copies; empty for a task
    checked: bool = False  # whether checks decide the outcome
    missing: tuple[str, ...] = ()  # files of the run's end that were missing and have been written
    # what a program returned and printed; None for an agent, or if the program did not continue
    program: ProgramResult | None = None


def resume(
    run_dir: Path,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str],
    observe: Observe | None = None,  # called for every new event with the resulting state
    stop: Callable[[int], object] = os._exit,
    tell_stopped: Callable[[Stopped], object] = id,  # called with the stopped run before it continues
    person: Person | None = None,  # the user of the run; None answers nothing
    *,
    interrupts: Interrupts | None = None,  # what interrupts the run; None for signals
) -> ResumeResult:
    """Continue a stopped run until it ends.

    Args:
        flags: ``isolation``, ``model``, ``said`` (the user's message to an agent) and limits as flags spell them. None
            means not set.
        stop: Ends the program with an exit code, without cleanup, on the second Ctrl-C.

    Raises:
        TraceError: The trace is broken or cannot be written, or another process writes it. Earlier records are
            complete.
        RulesDiffer: Today's rules derive something else from the trace.
        WorkspaceError: The workspace is gone, or its isolation is not available.
        UsageError: A limit is not valid, or the limit that ended the run is still used up.
        KeyboardInterrupt: Ctrl-C came before the first fact, and nothing has changed (SIGTERM: ``SystemExit``).
        Halted: ``person.watch`` ended the program before it continued, and nothing has changed.
    """
    load_plugins()
    run_dir = run_dir.resolve()  # absolute, because the sandbox mounts files from it
    person = replace(person or Person(), observe=observe, stop=stop)
    moments = LiveMoments(person.watch) if person.watch else None
    with interrupts or Interrupts(stop) as signals, ExitStack() as stack:
        lock = Lock(run_dir / TRACE)
        stack.callback(lock.close)
        with signals.setting_up("run", run_dir):
            stopped = read_stopped(run_dir, scrubber_of(environ), moments)
            missing = missing_of_end(run_dir, stopped.end.digest) if stopped.state.begun.redacted is UNSET else ()
            if flags.get("said") is None and _is_over(stopped.state) and not missing:
                return ResumeResult(None, stopped.state.outcome, played=False)
            if missing and _lacks_only_files(stopped.state, flags):
                return _with_files_again(run_dir, stopped, environ, missing)
            plan, resumed = _plan(run_dir, stopped, flags, environ)
            tell_stopped(stopped)
            _must_be_there(resumed)
        opened = stack.enter_context(open_run(plan, environ, signals, person, lock))
        opened.repeats = flags.get("yes") is not None
        with signals.setting_up("run", opened.places.scratch):
            facts, first = _next(resumed, opened, yes=flags.get("yes") is not None)
        talks = stopped.program is not None and first is not None and not isinstance(first, Effect)
        if stopped.program is not None and talks:
            stopped.program.listen(opened.person.tell)
            opened.program = stopped.program
            if moments is not None:
                moments.go_live()
        opened.agent = stopped.agent
        result = play(first, stopped.state, opened, facts)
        return ResumeResult(
            result, result.outcome, first is not None, stopped.torn_bytes, opened.folder,
            stopped.state.begun.checked, program=program_result(result, opened) if talks else None,
        )  # fmt: skip


def _with_files_again(
    run_dir: Path, stopped: Stopped, environ: Mapping[str, str], missing: tuple[str, ...]
) -> ResumeResult:
    result, folder = make_missing(run_dir, stopped, scrubber_of(environ), environ)
    checked = stopped.state.begun.checked
    return ResumeResult(result, result.outcome, False, folder=folder, checked=checked, missing=missing)


def _plan(
    run_dir: Path, stopped: Stopped, flags: Mapping[str, str | None], environ: Mapping[str, str]
) -> tuple[Plan, Resumed]:
    """Return the plan of the resumed run with its current model, and how it begins.

    Raise UsageError if the run is a redacted copy or never started, or a wanted change is not possible.
    """
    start = stopped.state.begun
    if start.redacted is not UNSET:
        raise UsageError(
            f"the run is a redacted copy of {start.redacted.digest}, without its files; resume the original"
        )
    stored = with_model(read_request(run_dir), stopped.state, flags.get("model"))
    refuse_unbegun(stored, stopped.state)
    if flags.get("said") is not None and stored.program is not None:
        raise UsageError("only agents take messages, and this is a program run; it asks its questions one at a time")
    level = flags.get("isolation") or stopped.isolation
    stays_in_memory(stopped.isolation, level)
    changes = {"isolation": level, "heap": stored.flags.get("heap")}
    plan = plan_kept(prepare_kept(stored, run_dir.parent, start, changes, environ), stored, start, environ)
    reopening = _reopening(stopped.state, plan.model, flags, level)
    end = stopped.state.end
    if end is not None and end.ending.startswith("limit:") and not _only_judged(stopped.state, reopening):
        refuse_spent(replace(evolve(stopped.state, reopening), seconds=stopped.seconds))
    resumed = Resumed(stored, run_dir, stopped, reopening)
    return replace(plan, limits=reopening.limits, begins=resumed), resumed


def refuse_unbegun(stored: StoredRequest, state: State) -> None:
    """Raise if a program run stopped before its program started, because it would continue as an agent."""
    if stored.program is not None and state.program is None:
        raise UsageError("the run stopped before its program started; run the program again with stackmem run")


def _reopening(state: State, model: Model, flags: Mapping[str, str | None], level: str) -> RunResumed:
    """Return the event that resumes the run. It changes the model only if the run had none and ``flags`` name one."""
    start, message = state.begun, flags.get("said") or UNSET
    if flags.get("model") is None or start.model != NOBODY:
        limits = later_limits(state.limits, flags, start.model, start.price)
        return RunResumed(limits, level, VERSION, said=message)
    limits = later_limits(state.limits, flags, model.name, model.price)
    return RunResumed(limits, level, VERSION, answerer=Answerer(model.name, model.price, model.window_tokens))


def _must_be_there(resumed: Resumed) -> None:
    """Raise if the run's files are missing or belong to another run."""
    run_dir, work = resumed.run_dir, Path(resumed.stored.workspace)
    in_memory = stays_in_memory(resumed.stopped.isolation, resumed.reopening.isolation)
    for path, label in ((work, "workspace"), (run_dir / HISTORY, "history of files")):
        if not path.is_dir() and not in_memory:
            raise WorkspaceError(f"the {label} of the run is missing ({path}); restore it, or start a new run")
    if work.parent.name != run_dir.name:
        raise WorkspaceError(
            f"the workspace {work} belongs to the run {work.parent.name}, not to this copy; resume that run, or fork"
        )


def _is_over(state: State) -> bool:
    """Return whether the root frame was popped and any required checks gave a verdict."""
    if state.end is None or not is_over(state):
        return False
    checks = state.checks
    return not state.begun.checked or (checks is not None and bool(checks.rewards or not checks.error))


def _lacks_only_files(state: State, flags: Mapping[str, str | None]) -> bool:
    """Return whether only result files are missing: the run is over, or ended by a limit that is not raised.

    A run that still needs its verdict is not complete.
    """
    by_limit = state.end is not None and state.end.ending.startswith("limit:")
    judged = state.checks is not None or not state.begun.checked
    raised = any(value is not None for name, value in flags.items() if name.startswith("max_"))
    if flags.get("said") is not None:
        return False
    return _is_over(state) or (by_limit and judged and not raised)


def _only_judged(state: State, reopening: RunResumed) -> bool:
    """Return whether only the checks are left to run, so that the run is not reopened."""
    unchanged = reopening.limits == state.limits and reopening.said is UNSET
    return (
        unchanged
        and state.end is not None
        and state.checks is None
        and state.end.ending in _JUDGED
        and state.begun.checked
    )


def _next(resumed: Resumed, opened: Opened, *, yes: bool) -> tuple[tuple[Event, ...], Event | Effect | None]:
    """Return the events to record first and what happens next. Files are restored to their state before it.

    Raise WorkspaceError if commands would see the workspace at a different path than the recorded one. Raise MayRepeat
    if a call may have been made already, and the user has not allowed repeating it.
    """
    stopped, state = resumed.stopped, resumed.stopped.state
    if opened.workspace.path != state.begun.workspace:
        raise WorkspaceError(
            f"at isolation {opened.workspace.level} the workspace is {opened.workspace.path}, but the run recorded "
            f"it as {state.begun.workspace}; resume it at isolation {stopped.isolation}"
        )
    event = replace(resumed.reopening, isolation=opened.workspace.level)
    if event.said is UNSET and _is_over(state):
        return (), None
    if _only_judged(state, event) and event.isolation == stopped.isolation:
        put_back(stopped, opened)
        return (), RunChecks()
    reopened = evolve(state, event)
    upcoming: Event | Effect | None = None
    if stopped.program is not None:
        upcoming = _program_effect(stopped.program, event, reopened)
    elif stopped.agent is not None and stopped.agent.in_call:
        upcoming = _program_effect(stopped.agent, event, reopened)
    if upcoming is None:
        upcoming = advance(reopened, opened.strategy)
    elif state.program is not None and state.program.halted is not None:
        return (), event  # the user continues after a halt deliberately, with the files as they are now
    lost = put_back(stopped, opened) if changes_files(upcoming) else ""
    refuse_unsafe(upcoming, lost, yes=yes)
    partial = result_of_interrupted(upcoming, lost, opened)
    return ((), event) if partial is None else ((event,), partial)


def _program_effect(program: Decider, event: RunResumed, reopened: State) -> Effect | None:
    """Return the effect that the program requested, or None if an agent's frame is running in it. Clears a halt."""
    program.note(event, reopened)
    # Skip the clock reading that would come first; only the interrupted effect matters here.
    effect = program.decide(replace(reopened, clock_fresh=True))
    in_steps = bool(reopened.stack) and reopened.running.program == "steps"
    return effect if in_steps and isinstance(effect, Effect) else None
