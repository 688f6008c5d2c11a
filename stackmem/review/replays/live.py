"""``replay --tools live``: runs a run's workspace calls again in a fresh copy, and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import Event, ToolReturned, VerifyReturned
from stackmem.core.jobs.calls import JobCall
from stackmem.core.program_facts import ProgramStarted, ToolAnswered
from stackmem.core.requests import InvokeTool, UseTool, Verify
from stackmem.core.tools import RunCommand, tool_name
from stackmem.review.comparison import FactComparison
from stackmem.run.companion.jobs import follow_jobs
from stackmem.run.perform import perform
from stackmem.run.programs.tools import BUILT_IN
from stackmem.run.replays.recorded_world import Recorded, rehearse
from stackmem.run.run_folder import HISTORY
from stackmem.trace.difference import field_diff
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.snapshot import Snapshot
from stackmem.trace.walk import RecordWalk

WorkspaceCall = UseTool | Verify | InvokeTool
Result = ToolReturned | VerifyReturned | ToolAnswered
_RESULTS = (ToolReturned, VerifyReturned, ToolAnswered)
_ABOUT_CHARS = 2_000


class LiveTools(Struct, frozen=True):
    """The result of running the calls again."""

    run: str
    isolation: str  # the current isolation level
    calls: int  # number of calls with the recorded result
    # step, seq: of the first call with a different result; 0 if all are equal
    step: int = 0
    seq: int = 0
    call: str = ""  # that call in short
    difference: str = ""  # the differences, line by line; empty if there are none
    missing: tuple[str, ...] = ()  # dependency folders that no longer exist and were missing from the workspace
    equal: bool = True  # whether all results are equal, or differ only in volatile words
    differs_only_in: tuple[str, ...] = ()  # the kinds of these words


def replay_live(
    run: Run, environ: Mapping[str, str], first: int = 1, observe: Callable[[WorkspaceCall], None] | None = None
) -> LiveTools:
    """Run the calls from step ``first`` on, up to the first one whose result differs.

    ``observe`` receives each call before it is executed.

    Raises:
        UsageError: The step does not exist, or the run cannot be executed again.
        TraceError: The trace is broken, or its files are missing.
        WorkspaceError: The workspace or its isolation is not available.
    """
    if first > 1 or not _of_program(run):  # a program may run without a model
        run.moment(first)
    begin = run.moment(first - 1)
    with rehearse(run, begin.settled, begin.at, environ, Recorded()) as opened:
        world, level = opened.world, opened.workspace.level
        if world.program is None and _of_program(run):
            raise UsageError("the run's request does not name a program; stackmem replay shows what its trace contains")
        calls, comparison = 0, FactComparison((run.folder / HISTORY, opened.places.run / HISTORY))
        for step in RecordWalk(run.records(), sources_of(run.folder)):
            effect, seq = step.effect, step.record.seq
            if seq <= begin.at or not is_call(effect) or not isinstance(step.record.event, _RESULTS):
                continue
            if observe is not None:
                observe(effect)
            if step.before.jobs.started:
                follow_jobs(step.before, world.workspace)
            event = perform(effect, world)
            if _is_about_jobs(effect):
                continue  # its answer depends on the time
            difference = _difference(step.record.event, event, comparison, (run.folder, opened.places.run))
            if difference:
                return LiveTools(
                    run.id, level, calls, step.before.step, seq, brief_call(effect), difference,
                    opened.missing, equal=False, differs_only_in=comparison.differs_only_in,
                )  # fmt: skip
            calls += 1
        return LiveTools(run.id, level, calls, missing=opened.missing, differs_only_in=comparison.differs_only_in)


def _of_program(run: Run) -> bool:
    return any(isinstance(record.event, ProgramStarted) for record in islice(run.records(), 3))


def is_call(effect: object) -> TypeGuard[WorkspaceCall]:
    """Return whether the effect happens only in the workspace."""
    return isinstance(effect, UseTool | Verify) or (isinstance(effect, InvokeTool) and effect.tool in BUILT_IN)


def _is_about_jobs(effect: WorkspaceCall) -> bool:
    """Return whether the call starts, shows or ends a job."""
    if not isinstance(effect, UseTool):
        return False
    return isinstance(effect.call, JobCall) or (isinstance(effect.call, RunCommand) and effect.call.background)


def brief_call(effect: WorkspaceCall) -> str:
    """Return the call and its main argument on one line. The text is untrusted."""
    if isinstance(effect, Verify):
        return f"verify {effect.command}"
    if isinstance(effect, InvokeTool):
        arguments = effect.arguments
        subject = next((arguments[name] for name in ("command", "path", "folder") if name in arguments), "")
        return f"{effect.tool} {str(subject)[:_ABOUT_CHARS]}".strip()
    call = effect.call
    return " ".join([tool_name(call), *(str(getattr(call, name)) for name in call.__struct_fields__[:1])])


def _difference(recorded: Result, event: Event, comparison: FactComparison, runs: tuple[Path, Path]) -> str:
    if isinstance(recorded, ToolAnswered) and isinstance(event, ToolAnswered):
        event = replace(event, branch=recorded.branch)
    if not isinstance(event, _RESULTS):
        return ""
    if not recorded.tree:  # the run stored no files then
        event = replace(event, tree="")
    if comparison.equal(recorded, event):
        return ""
    lines = field_diff(replace(recorded, tree=""), replace(event, tree=""), sides=("recorded", "now"))
    if recorded.tree == event.tree or not recorded.tree:
        return lines
    before, now = Snapshot(runs[0] / HISTORY, recorded.tree), Snapshot(runs[1] / HISTORY, event.tree)
    files = [f"  {change.path}: {change.kind} now\n{change.diff}" for change in comparison.changed_files(before, now)]
    return "\n".join([*([lines] if lines else []), *(["  the resulting files differ:", *files] if files else [])])
