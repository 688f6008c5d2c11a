"""Takes up a run that has stopped: killed, interrupted, out of a limit, or left alone by its provider.

Rule 1: what was recorded holds; the next prompt is byte for byte the one that the stopped process would have sent.
Rule 2: a call that was accepted and has no result is repeated. Where it may have changed files, they are put back
    first; where they cannot be, it is not repeated, and its result says that its effects may be partial.
Rule 3: the isolation level is the one that was in force, or the one that the person now names.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import Event, RunResumed, ToolReturned, VerifyReturned
from stackmem.core.machine import advance, evolve
from stackmem.core.pricing import Answerer
from stackmem.core.requests import Effect, RunChecks, UseTool, Verify
from stackmem.core.state import State
from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.history import History
from stackmem.history.restore import restore
from stackmem.memory import open_strategy
from stackmem.models.registry import NOBODY, Model
from stackmem.settings.options import PREFIX
from stackmem.tools.plugins import load_plugins
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from stackmem.trace.store import TraceWriter
from stackmem.version import VERSION
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree

from .assemble import Places, Plan, assemble, plan
from .in_memory import MEMORY, NoHistory, recall, stays_in_memory
from .interrupts import Interrupts
from .limits import later_limits, refuse_spent
from .play import Observe, Opened, applied, play
from .prepare import Prepared, prepare_kept, with_model
from .programs.resume import changes_files, idempotent, refuse_unbegun, refuse_unsafe, refuse_unsafe_call, take_up
from .programs.run import Person, ProgramResult, Told, program_world, with_mounts
from .request import Request, read_request
from .result import RunResult, read_result
from .run_folder import HISTORY, RESULT, TRACE
from .stopped import Stopped, read_stopped

PARTIAL = "interrupted, effects may be partial"
_CONFINED = ("bubblewrap", "namespaces")
_JUDGED = ("popped", "stalled", "limit:steps", "limit:tokens", "limit:usd", "limit:seconds")


class Resumed(Struct, frozen=True):
    """What came of it.

    Attributes:
        result: None where there was nothing to resume and nothing to write.
        outcome: The run's, as it stands now.
        played: Whether the run went on; False where only its result was written, or nothing was.
        torn_bytes: Length of the last record that a crash had cut short, and that was cut off.
        folder: The folder of one's own that the workspace is a copy of; empty for a task.
        checked: Whether checks decide the outcome.
        program: Of a program's run: what it returned and said; None elsewhere, and where it did not go on.

    """

    result: RunResult | None
    outcome: str
    played: bool
    torn_bytes: int = 0
    folder: str = ""
    checked: bool = False
    program: ProgramResult | None = None


def resume(
    run_dir: Path,
    wanted: Mapping[str, str | None],
    environ: Mapping[str, str],
    observe: Observe | None = None,
    stop: Callable[[int], object] = os._exit,
    told: Callable[[Stopped], object] | None = None,
    person: Person | None = None,
) -> Resumed:
    """Play a stopped run to its end.

    Args:
        wanted: ``isolation``, ``model`` and limits as flags spell them; None is not given.
        observe: Told of every new fact and the state it makes.
        stop: Ends the program with an exit code, when a second Ctrl-C says that order no longer matters.
        told: Told where the run stands, before it goes on.
        person: Who a program talks to; None answers nothing.

    Raises:
        TraceError: The trace is broken, another process writes it, or it cannot be written; what stood is whole.
        RulesDiffer: Today's rules derive something else from the trace.
        WorkspaceError: The workspace is gone, or its isolation cannot be had.
        UsageError: A limit is not accepted, or the one that ended the run is still used up.
        KeyboardInterrupt: Ctrl-C came before the first fact; nothing has changed. (SIGTERM: ``SystemExit``.)

    """
    load_plugins()
    run_dir = run_dir.resolve()  # the sandbox mounts what is in it
    with ExitStack() as stack, Interrupts(stop) as interrupts:
        lock = Lock(run_dir / TRACE)
        stack.callback(lock.close)
        try:
            with interrupts.allowed():
                scrubber = Scrubber({name: value for name, value in environ.items() if not name.startswith(PREFIX)})
                stopped = read_stopped(run_dir, scrubber)
                if _is_over(stopped.state) and read_result(run_dir / RESULT) is not None:
                    return Resumed(None, stopped.state.outcome, played=False)
                request = _asked(run_dir, stopped.state, wanted.get("model"))
                level = wanted.get("isolation") or stopped.isolation
                changes = {"isolation": level, "max_usd": None, "prompt": None}  # those are the run's own
                prepared = prepare_kept(request, run_dir.parent, changes, environ)
                planned = plan(prepared, environ)
                again = _reopening(stopped.state, planned.model, wanted, level)
                _refuse_spent(stopped.state, again)
                if told is not None:
                    told(stopped)
                wants = (request, prepared, planned)
                opened = _open(run_dir, wants, stopped, again, environ, (lock, stack, interrupts, observe))
                facts, first = _begin(stopped, again, opened, yes=wanted.get("yes") is not None)
                talked = _to_drive(stopped, request, first, opened, person or Person(_nobody_answers))
        except KeyboardInterrupt:
            if interrupts.signal == signal.SIGTERM:
                raise SystemExit(128 + signal.SIGTERM) from None
            raise
        state = _recorded(facts, stopped.state, opened)
        result = play(first, state, opened)
        result = applied(result, opened.folder, wanted=bool(request.flags.get("apply")))
        return Resumed(
            result, result.outcome, first is not None, stopped.torn_bytes, opened.folder, state.begun.checked,
            _program_result(stopped, result, talked),
        )  # fmt: skip


def _recorded(facts: list[Event], state: State, opened: Opened) -> State:
    """The state once the facts that are known already are recorded."""
    for fact in facts:
        opened.writer.append(fact)
        state = evolve(state, fact)
        if opened.observe is not None:
            opened.observe(fact, state)
    return state


def _program_result(stopped: Stopped, result: RunResult, talked: Told | None) -> ProgramResult | None:
    if stopped.program is None or talked is None:
        return None
    return ProgramResult(result, stopped.program.value, tuple(talked.said))


def _nobody_answers(question: str) -> str | None:
    return None


def _to_drive(
    stopped: Stopped, request: Request, first: Event | Effect | None, opened: Opened, person: Person
) -> Told | None:
    """Let the program decide what follows, where the run is a program's; what it says is kept."""
    if stopped.program is None or request.program is None or first is None or isinstance(first, Effect):
        return None
    told = Told(person.tell)
    stopped.program.listen(told)
    opened.parts.world.program = program_world(opened.parts, opened.places, request.program, person)
    opened.decider = stopped.program
    return told


def _is_over(state: State) -> bool:
    """Whether the root popped and, where checks judge it, they did."""
    if state.end is None or state.stack:
        return False
    checks = state.checks
    return not state.begun.checked or (checks is not None and bool(checks.rewards or not checks.error))


def _asked(run_dir: Path, state: State, model: str | None) -> Request:
    """What was asked for, with the model that the run has by now; of a copy it is not there."""
    redacted = state.begun.redacted
    if redacted is not UNSET:
        raise UsageError(f"the run is a redacted copy of {redacted.digest}, without its files; resume the original")
    request = with_model(read_request(run_dir), state, model)
    refuse_unbegun(request, state)
    return request


def _reopening(state: State, model: Model, wanted: Mapping[str, str | None], level: str) -> RunResumed:
    """The fact that the run goes on; its model is the recorded one, but where it had none and now is named one."""
    begun = state.begun
    if wanted.get("model") is None or begun.model != NOBODY:
        return RunResumed(later_limits(state.limits, wanted, begun.model, begun.price), level, VERSION)
    limits = later_limits(state.limits, wanted, model.name, model.price)
    return RunResumed(limits, level, VERSION, answerer=Answerer(model.name, model.price, model.window_tokens))


def _refuse_spent(state: State, again: RunResumed) -> None:
    """A run that a limit ended would end again at once."""
    if state.end is None or not state.end.ending.startswith("limit:") or _only_judged(state, again):
        return
    refuse_spent(evolve(state, again))


def _only_judged(state: State, again: RunResumed) -> bool:
    """Whether nothing is left but the checks: then the run is not reopened."""
    same = again.limits == state.limits
    return (
        same and state.end is not None and state.checks is None and state.end.ending in _JUDGED and state.begun.checked
    )


def _open(
    run_dir: Path,
    wants: tuple[Request, Prepared, Plan],
    stopped: Stopped,
    again: RunResumed,
    environ: Mapping[str, str],
    held: tuple[Lock, ExitStack, Interrupts, Observe | None],
) -> Opened:
    """Everything that the run needs, opened again."""
    lock, stack, interrupts, observe = held
    request, prepared, planned = wants
    work = Path(request.workspace)
    places = Places(run_dir, work, work.parent)
    in_memory = stays_in_memory(stopped.isolation, again.isolation)
    for place, what in ((work, "workspace"), (run_dir / HISTORY, "history of files")):
        if not place.is_dir() and not in_memory:
            raise WorkspaceError(f"the {what} of the run is gone ({place}); bring it back, or solve anew")
    if work.parent.name != run_dir.resolve().name:
        raise WorkspaceError(
            f"the workspace {work} belongs to the run {work.parent.name}, not to this copy; resume that one, or fork"
        )
    for left in work.parent.glob("check-*"):
        remove_tree(left)  # of checks that were killed
    start = stopped.state.begun
    if request.program is not None:
        planned = with_mounts(planned, request.program, Path(request.subject))
    profile = replace(planned.profile, network=start.network, command_seconds=start.command_seconds)
    strategy = open_strategy(start.strategy)
    history = NoHistory() if in_memory else History(run_dir / HISTORY, work, request.leave_out)
    changed = replace(planned, profile=profile, strategy=strategy, limits=again.limits)
    # The assembled start is not used: what was recorded holds.
    parts = assemble(changed, prepared, places, environ, _nothing, history)
    stack.callback(parts.workspace.close)
    if parts.workspace.path != start.workspace:
        raise WorkspaceError(
            f"at isolation {parts.workspace.level} the workspace is {parts.workspace.path}, and the run knows it as "
            f"{start.workspace}; resume it at {stopped.isolation}"
        )
    if in_memory:
        recall(RunReader(run_dir), stopped.end.count, parts.world)
    writer = TraceWriter(run_dir / TRACE, held=(lock, stopped.end))
    stack.callback(writer.close)
    parts.world.sync = writer.syncs(prepared.resolved.settings.fsync, history.sync)
    folder = request.subject if request.text is not None else ""
    return Opened(
        parts, places, writer, history, interrupts, folder, observe, stopped.seconds, stopped.steps_with_secrets
    )


def _begin(
    stopped: Stopped, again: RunResumed, opened: Opened, *, yes: bool
) -> tuple[list[Event], Event | Effect | None]:
    """The facts that are known, and what happens next; files are as they were before it."""
    state, parts = stopped.state, opened.parts
    again = replace(again, isolation=parts.workspace.level)
    if _is_over(state):
        return [], None
    if _only_judged(state, again) and again.isolation == stopped.isolation:
        _put_back(stopped, opened)
        return [], RunChecks()
    if stopped.program is not None:
        reopened = evolve(state, again)
        upcoming = take_up(stopped.program, state, again)
        if reopened.stack and reopened.running.program == "steps" and isinstance(upcoming, Effect):
            halted = state.program is not None and state.program.halted is not None
            if not halted:  # a person goes on from a halt knowingly, with the files as she has left them
                lost = _put_back(stopped, opened) if changes_files(upcoming) else ""
                refuse_unsafe(upcoming, lost, idempotent(), yes=yes)
            return [], again
    upcoming = advance(evolve(state, again), parts.strategy)
    refuse_unsafe_call(upcoming, idempotent(), yes=yes)
    lost = _put_back(stopped, opened) if _changes_files(upcoming) else ""
    if isinstance(upcoming, UseTool | Verify) and lost and not _writes(upcoming):
        return [again], _partial(upcoming, lost, opened)
    return [], again


def _changes_files(upcoming: Event | Effect | None) -> bool:
    if isinstance(upcoming, UseTool):
        return upcoming.call.behavior.changes_files
    return isinstance(upcoming, Verify | RunChecks)


def _writes(upcoming: UseTool | Verify) -> bool:
    """Whether it can be repeated wherever files stand: a file that is written whole, as often as one likes."""
    return isinstance(upcoming, UseTool) and upcoming.call.behavior.repeatable


def _put_back(stopped: Stopped, opened: Opened) -> str:
    """Why the workspace may hold effects of the call that was interrupted; empty where it is as it was before it."""
    level, tree = opened.parts.workspace.level, stopped.state.tree
    if level == MEMORY:
        return ""  # they were made again, up to that call
    if level not in _CONFINED or not tree or isinstance(opened.history, NoHistory):
        return f"at isolation {level} a command may have changed more than its workspace"
    try:
        lost = restore(opened.history, opened.places.run / HISTORY, opened.places.work, tree, stopped.asked_at)
    except WorkspaceError as error:
        return str(error)
    if not lost:
        return ""
    more = f" and {len(lost) - 5:,} more" if len(lost) > 5 else ""
    return f"not kept, so not put back: {', '.join(lost[:5])}{more}"


def _partial(call: UseTool | Verify, why: str, opened: Opened) -> Event:
    """The result of a call that is not repeated."""
    world = opened.parts.world
    text = world.scrub(f"{PARTIAL} ({why}); look at what is there before you go on")
    digests = {path: world.workspace.digest(path) for path in call.sources}
    if isinstance(call, Verify):
        return VerifyReturned("interrupted", text[:1_000], digests, world.snapshot())
    return ToolReturned(text, failed=True, digests=digests, tree=world.snapshot())


def _nothing() -> None:
    """The trace is opened last, when nothing can be refused any more."""
