"""Goes on from where another run stood, with something changed.

Rule 1: the other run is only read. What both share stays there: its records up to the cut, and its files' objects.
Rule 2: nothing else changes than what was asked for. With no change at all the next prompt is the other run's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ChunkSet, ModelReplied, RunForked, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.messages import ToolSpec
from stackmem.core.strategy import budgets_of
from stackmem.errors import WorkspaceError
from stackmem.history.history import History
from stackmem.history.sharing import share
from stackmem.memory import open_strategy
from stackmem.memory.shared.constants import run_constants
from stackmem.settings.options import PREFIX
from stackmem.tools.plugins import load_plugins
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.store import TraceWriter
from stackmem.version import VERSION
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree

from .assemble import Parts, Places, assemble, plan
from .assemble import Plan as RunPlan
from .fork_changes import Changes, chunks_of, must_go_on
from .in_memory import MEMORY, NoHistory, recall, stays_in_memory
from .interrupts import Interrupts
from .limits import later_limits, refuse_spent
from .play import Observe, Opened, holds_secret, play
from .prepare import Prepared, prepare_kept
from .programs.fork import program_to_fork, request_to_fork
from .refill import must_be_original, refill
from .request import Request, write_request
from .result import RunResult
from .run_folder import HISTORY, TRACE, new_run


class Forked(Struct, frozen=True):
    """What came of it.

    Attributes:
        folder: The folder of one's own that the workspace is a copy of; empty for a task.
        missing: Dependency folders that no place holds any more; the workspace is without them.

    """

    result: RunResult
    folder: str
    checked: bool
    missing: tuple[str, ...] = ()


def fork(
    run_dir: Path,
    at: int,
    changes: Changes,
    environ: Mapping[str, str],
    observe: Observe | None = None,
    stop: Callable[[int], object] = os._exit,
) -> Forked:
    """Play a new run from the state after step ``at`` of another one; it is kept beside that one.

    Args:
        at: A step, or 0 for the start.
        observe: Told of every new fact and the state it makes.
        stop: Ends the program with an exit code, when a second Ctrl-C says that order no longer matters.

    Raises:
        UsageError: There is no such step, nothing can go on from there, or a change cannot be; nothing is left behind.
        TraceError: The other run's trace is broken, or lacks its files or its request.
        WorkspaceError: The workspace or its isolation cannot be had; nothing is left behind.
        KeyboardInterrupt: Ctrl-C came before the first fact; nothing is left behind. (SIGTERM: ``SystemExit``.)

    """
    load_plugins()
    run = Run(run_dir.resolve())
    must_be_original(run, "forked")
    moment = run.moment(at)
    must_go_on(moment, changes)
    request = request_to_fork(run, moment)
    level = changes.isolation or moment.settled.begun.isolation
    in_memory = stays_in_memory(moment.settled.begun.isolation, level)
    settings = {**changes.settings(), "isolation": level, "max_usd": None}  # the limits are those of the run
    prepared = prepare_kept(request, run.folder.parent, settings, environ)
    planned = _planned(moment, changes, prepared, environ)
    own, model = moment.settled.begun, planned.model
    name, price = (own.model, own.price) if changes.model is None else (model.name, model.price)
    chosen = changes.model is None or "max_usd" in request.flags
    limits = later_limits(moment.settled.limits, changes.limits, name, price, usd_chosen=chosen)
    scrubber = Scrubber({name: value for name, value in environ.items() if not name.startswith(PREFIX)})
    chunks = chunks_of(moment.settled, changes, scrubber.scrub)
    wanted = _Wanted(run, moment, changes, chunks, request, prepared, replace(planned, limits=limits))
    folder = new_run(run.folder.parent, moment.settled.begun.task_name, planned.strategy.name)
    places = Places(folder, prepared.folders[1] / folder.name / "workspace", prepared.folders[1] / folder.name)
    with ExitStack() as stack, Interrupts(stop) as interrupts:
        stack.callback(_remove_unbegun, places)
        with interrupts.setting_up("fork", places.scratch):
            missing = () if in_memory else refill(run, moment.settled, places, request)
            opened, first = _open(wanted, places, environ, (stack, interrupts, observe))
            opened.steps_with_secrets = _steps_with_secrets(run, at, scrubber)
        opened.decider = program_to_fork(run, moment, opened, request.program)
        result = play(first, moment.settled, opened)
        return Forked(result, opened.folder, first.start.checked, missing)


class _Wanted(Struct, frozen=True):
    """A fork that can be, before anything of it is made."""

    run: Run
    moment: StepMoment
    changes: Changes
    chunks: tuple[ChunkSet, ...]
    request: Request
    prepared: Prepared
    planned: RunPlan


def _open(
    wanted: _Wanted, places: Places, environ: Mapping[str, str], held: tuple[ExitStack, Interrupts, Observe | None]
) -> tuple[Opened, RunForked]:
    """Everything that the new run needs, and its first fact."""
    stack, interrupts, observe = held
    run, moment, changes, request = wanted.run, wanted.moment, wanted.changes, wanted.request
    writer = TraceWriter(places.run / TRACE, after=moment.at, digest=moment.digest)
    stack.callback(writer.close)
    in_memory = wanted.prepared.resolved.settings.isolation == MEMORY
    history: History | NoHistory = NoHistory()
    if not in_memory:
        share(run.folder / HISTORY, places.run / HISTORY, moment.settled.tree)
        history = History(places.run / HISTORY, places.work, request.leave_out)
    sync = writer.syncs(wanted.prepared.resolved.settings.fsync, history.sync)
    parts = assemble(wanted.planned, wanted.prepared, places, environ, sync, history)
    stack.callback(parts.workspace.close)
    if in_memory:
        recall(run.records(), moment.at, parts.world)
    start = _start(moment, changes, wanted.planned, parts)
    first = RunForked(run.id, moment.at, moment.digest, start, wanted.chunks, changes.dropped)
    refuse_spent(evolve(moment.settled, first), f"at step {moment.step} the run had")
    write_request(_asked(request, changes, wanted.prepared, places), places.run)
    own = request.subject if request.text is not None else ""
    return Opened(parts, places, writer, history, interrupts, own, observe, moment.settled.seconds), first


def _planned(moment: StepMoment, changes: Changes, prepared: Prepared, environ: Mapping[str, str]) -> RunPlan:
    """The plan of today's request, with what the run recorded wherever no change speaks."""
    base = moment.settled.begun
    kept_prompt = changes.prompt is None and (changes.strategy is None or prepared.resolved.settings.prompt is not None)
    if kept_prompt:  # the run holds the text itself; its file may say something else today
        settings = replace(prepared.resolved.settings, prompt=None)
        prepared = replace(prepared, resolved=replace(prepared.resolved, settings=settings))
    planned = plan(prepared, environ)
    profile = replace(planned.profile, network=base.network, command_seconds=base.command_seconds)
    planned = replace(planned, profile=profile, budgets=budgets_of(planned.strategy, base.budgets))
    if kept_prompt:
        planned = replace(planned, system=base.system)
    if changes.strategy is None:
        planned = replace(planned, strategy=open_strategy(base.strategy), tools=base.tools, budgets=base.budgets)
    return planned


def _start(moment: StepMoment, changes: Changes, planned: RunPlan, parts: Parts) -> RunStarted:
    """What holds from here on. The tree stays that of the oldest start: patches count from there."""
    base, state = moment.settled.begun, moment.settled
    if parts.start.tree != state.tree:
        raise WorkspaceError(
            "the files of that step cannot be put into a new workspace exactly; see that nothing else writes to "
            f"{parts.workspace.path}, or fork at another step"
        )
    model = planned.model
    other = changes.model is not None
    start = replace(
        base,
        model=model.name if other else base.model,
        window_tokens=model.window_tokens if other else base.window_tokens,
        price=model.price if other else base.price,
        strategy=planned.strategy.name,
        system=parts.start.system,
        tools=planned.tools if changes.strategy is None else (*planned.tools, *_own(base)),
        budgets=planned.budgets,
        workspace=parts.workspace.path,
        isolation=parts.workspace.level,
        limits=planned.limits,
        version=VERSION,
        rules=parts.start.rules,
        texts=base.texts if changes.strategy is None else parts.start.texts,
    )
    # A provider may have signed the model's thinking over all that stood before it, and refuse it otherwise.
    same = (start.model, start.system, start.tools) == (base.model, base.system, base.tools)
    if not same or run_constants(start) != run_constants(base) or not planned.strategy.prefix_stable:
        start = replace(start, thinking="dropped")
    return start


def _own(start: RunStarted) -> tuple[ToolSpec, ...]:
    return tuple(tool for tool in start.tools if tool.name in start.registered)


def _asked(request: Request, changes: Changes, prepared: Prepared, places: Places) -> Request:
    flags = {**request.flags, **changes.settings(), "model": prepared.model}
    return replace(request, flags=flags, workspace=str(places.work))


def _steps_with_secrets(run: Run, at: int, scrubber: Scrubber) -> tuple[int, ...]:
    found, step = [], 0
    for record in run.records():
        if isinstance(record.event, ModelReplied):
            step += 1
            if step > at:
                break
            if holds_secret(record.event, scrubber):
                found.append(step)
    return tuple(found)


def _remove_unbegun(places: Places) -> None:
    """A fork that has no first fact never was."""
    trace = places.run / TRACE
    if not trace.exists() or trace.stat().st_size == 0:
        remove_tree(places.run)
        remove_tree(places.scratch)
