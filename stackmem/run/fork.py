"""Goes on from where another run stood, with something changed.

Rule 1: the other run is only read. What both share stays there: its records up to the cut, and its files' objects.
Rule 2: nothing else changes than what was asked for. With no change at all the next prompt is the other run's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ModelReplied, RunForked, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.messages import ToolSpec
from stackmem.core.strategy import budgets_of
from stackmem.errors import TraceError, UsageError, WorkspaceError
from stackmem.languages.program import ProgramDecider
from stackmem.memory.shared.constants import run_constants
from stackmem.tools.plugins import load_plugins
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.program import SOURCES, sources_of
from stackmem.trace.verify import verify
from stackmem.version import VERSION
from stackmem.workspace.secrets import Scrubber

from .assemble import Parts, RunPlan, scrubber_of
from .begin import Forked, must_be_original, plan_kept
from .fork_changes import Changes, chunks_to_set, must_go_on
from .in_memory import stays_in_memory
from .interrupts import Interrupts
from .limits import later_limits, refuse_spent
from .open import Observe, Opened, Person, open_run
from .play import play
from .prepare import Prepared, prepare_kept, with_model
from .request import RunRequest, read_request
from .result import RunResult, holds_secret


class ForkResult(Struct, frozen=True):
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
) -> ForkResult:
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
    scrubber = scrubber_of(environ)
    chunks = chunks_to_set(moment.settled, changes, scrubber.scrub)
    beginning = _beginning(run, moment, changes, environ)
    person = Person(observe=observe, stop=stop)
    with Interrupts(stop) as interrupts, open_run(beginning, environ, interrupts, person) as opened:
        with interrupts.setting_up("fork", opened.places.scratch):
            start = _start(moment, changes, beginning.plan, opened.parts)
            first = RunForked(run.id, moment.at, moment.digest, start, chunks, changes.dropped)
            refuse_spent(evolve(moment.settled, first), f"at step {moment.step} the run had")
            opened.steps_with_secrets = _steps_with_secrets(run, at, scrubber)
            if opened.request.program is not None:
                opened.program = _program_at(run, moment, opened)
        result = play(first, moment.settled, opened)
        return ForkResult(result, opened.folder, start.checked, opened.missing)


def _beginning(run: Run, moment: StepMoment, changes: Changes, environ: Mapping[str, str]) -> Forked:
    """The fork as it can be, with what the run recorded wherever no change speaks.

    Raises:
        UsageError: The program had not begun by then, a change cannot be, or a limit of the cost cannot be kept.

    """
    state, base = moment.settled, moment.settled.begun
    request = with_model(read_request(run.folder), state, None)
    if request.program is not None and state.program is None:
        raise UsageError("at its start the program has not begun; run it anew with stackmem run")
    level = changes.isolation or base.isolation
    stays_in_memory(base.isolation, level)
    prompt = request.flags.get("prompt")
    settings = {"prompt": prompt, **changes.settings(), "isolation": level}
    prepared = prepare_kept(request, run.folder.parent, base, settings, environ)
    plan = _plan(request, base, changes, prepared, environ)
    other = changes.model is not None
    name, price = (plan.model.name, plan.model.price) if other else (base.model, base.price)
    limits = later_limits(
        state.limits, changes.limits, name, price, usd_chosen=not other or "max_usd" in request.flags
    )  # fmt: skip
    flags = {**request.flags, **changes.settings(), "model": prepared.model}
    request = replace(request, flags=flags)
    return Forked(prepared, replace(plan, limits=limits), request, run, state, moment.at, moment.digest)


def _plan(
    request: RunRequest, base: RunStarted, changes: Changes, prepared: Prepared, environ: Mapping[str, str]
) -> RunPlan:
    kept_prompt = changes.prompt is None and (changes.strategy is None or prepared.resolved.settings.prompt is not None)
    if kept_prompt:  # the run holds the text itself; its file may say something else today
        settings = replace(prepared.resolved.settings, prompt=None)
        prepared = replace(prepared, resolved=replace(prepared.resolved, settings=settings))
    plan = plan_kept(prepared, request, base, environ)
    if kept_prompt:
        plan = replace(plan, system=base.system)
    if changes.strategy is None:
        return replace(plan, tools=base.tools, budgets=base.budgets)
    return replace(plan, budgets=budgets_of(plan.strategy, base.budgets))


def _start(moment: StepMoment, changes: Changes, plan: RunPlan, parts: Parts) -> RunStarted:
    """What holds from here on. The tree stays that of the oldest start: patches count from there."""
    base, state = moment.settled.begun, moment.settled
    if parts.start.tree != state.tree:
        raise WorkspaceError(
            "the files of that step cannot be put into a new workspace exactly; see that nothing else writes to "
            f"{parts.workspace.path}, or fork at another step"
        )
    model = plan.model
    other = changes.model is not None
    start = replace(
        base,
        model=model.name if other else base.model,
        window_tokens=model.window_tokens if other else base.window_tokens,
        price=model.price if other else base.price,
        strategy=plan.strategy.name,
        system=parts.start.system,
        tools=plan.tools if changes.strategy is None else (*plan.tools, *_own(base)),
        budgets=plan.budgets,
        workspace=parts.workspace.path,
        isolation=parts.workspace.level,
        limits=plan.limits,
        version=VERSION,
        rules=parts.start.rules,
        texts=base.texts if changes.strategy is None else parts.start.texts,
    )
    # A provider may have signed the model's thinking over all that stood before it, and refuse it otherwise.
    same = (start.model, start.system, start.tools) == (base.model, base.system, base.tools)
    if not same or run_constants(start) != run_constants(base) or not plan.strategy.prefix_stable:
        start = replace(start, thinking="dropped")
    return start


def _own(start: RunStarted) -> tuple[ToolSpec, ...]:
    return tuple(tool for tool in start.tools if tool.name in start.registered)


def _program_at(run: Run, moment: StepMoment, opened: Opened) -> ProgramDecider:
    """The program as it stands at ``moment``.

    Raises:
        RulesDiffer: Today's interpreter does something else up to there.
        TraceError: No program had begun by then, or a source is gone.

    """
    theirs = sources_of(run.folder)

    def text_of(digest: str) -> str:
        own = opened.places.run / SOURCES / digest
        return own.read_text("utf-8") if own.is_file() else theirs(digest)

    program = verify(takewhile(lambda record: record.seq <= moment.at, run.records()), text_of).program
    if program is None:
        raise TraceError("no program had begun by then; run it anew with stackmem run")
    return program


def _steps_with_secrets(run: Run, at: int, scrubber: Scrubber) -> tuple[int, ...]:
    replies = (record.event for record in run.records() if isinstance(record.event, ModelReplied))
    return tuple(step for step, reply in zip(range(1, at + 1), replies, strict=False) if holds_secret(reply, scrubber))
