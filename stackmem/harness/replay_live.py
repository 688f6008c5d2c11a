"""``replay --tools live``: a run's workspace calls once more, in a fresh copy, against what they returned then."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.calls import RunCommand, tool_name
from stackmem.core.effects import Effect, UseTool, Verify
from stackmem.core.events import Event, ToolReturned, VerifyReturned
from stackmem.core.machine import advance
from stackmem.core.state import State
from stackmem.memory import open_strategy
from stackmem.trace.difference import field_diff
from stackmem.trace.moments import following
from stackmem.trace.open_run import Run
from stackmem.trace.snapshot import Snapshot, changes

from .perform import perform
from .rehearsal import Rehearsal, rehearse
from .rundir import HISTORY


class LiveTools(Struct, frozen=True):
    """What executing again came to.

    Attributes:
        isolation: The level in force now.
        calls: Calls that returned what they had returned.
        step, seq: Of the first call that did not; 0 where all did.
        call: That call in short.
        difference: What differs, line by line; empty where nothing does.
        missing: Dependency folders that are nowhere any more; the workspace was without them.

    """

    run: str
    isolation: str
    calls: int
    step: int = 0
    seq: int = 0
    call: str = ""
    difference: str = ""
    missing: tuple[str, ...] = ()


def replay_live(
    run: Run, environ: Mapping[str, str], first: int = 1, observe: Callable[[UseTool | Verify], None] | None = None
) -> LiveTools:
    """Execute the calls from step ``first`` on, up to the first whose result differs.

    Args:
        observe: Told of each call before it is executed.

    Raises:
        UsageError: There is no such step, or the run can not be executed again.
        TraceError: The trace is broken, or lacks its files.
        WorkspaceError: The workspace, or its isolation, cannot be had.

    """
    begin = run.moment(first - 1)
    run.moment(first)
    with rehearse(run, begin.settled, begin.at, environ) as rehearsal:
        state, calls = State(), 0
        for record in run.records():
            upcoming = _call(state) if record.seq > begin.at else None
            if isinstance(upcoming, UseTool | Verify) and isinstance(record.event, ToolReturned | VerifyReturned):
                if observe is not None:
                    observe(upcoming)
                made = perform(upcoming, rehearsal.world)
                difference = _difference(run, record.event, made, rehearsal)
                if difference:
                    return LiveTools(
                        run.id, rehearsal.isolation, calls, state.step, record.seq, brief_call(upcoming), difference,
                        rehearsal.missing,
                    )  # fmt: skip
                calls += 1
            state = following(state, record)
        return LiveTools(run.id, rehearsal.isolation, calls, missing=rehearsal.missing)


def brief_call(effect: UseTool | Verify) -> str:
    """The call with what it is about, on one line; hostile text is still in it."""
    if isinstance(effect, Verify):
        return f"verify {effect.command}"
    call = effect.call
    about = call.command if isinstance(call, RunCommand) else call.path
    return f"{tool_name(call)} {about}"


def _call(state: State) -> Event | Effect | None:
    """What the pending call asks of the world, if one is pending."""
    if state.pending is None or not state.stack or state.end is not None:
        return None
    return advance(state, open_strategy(state.begun.strategy))


def _difference(run: Run, recorded: Event, made: Event, rehearsal: Rehearsal) -> str:
    if recorded == made or not isinstance(recorded, ToolReturned | VerifyReturned):
        return ""
    if not isinstance(made, ToolReturned | VerifyReturned):
        return ""
    told = field_diff(replace(recorded, tree=""), replace(made, tree=""), sides=("recorded", "now"))
    if recorded.tree == made.tree or not recorded.tree:
        return told
    before = Snapshot(run.folder / HISTORY, recorded.tree)
    now = Snapshot(rehearsal.places.run / HISTORY, made.tree)
    files = [f"  {change.path}: {change.kind} now\n{change.diff}" for change in changes(before, now)]
    return "\n".join([*([told] if told else []), "  the files that it left differ:", *files])
