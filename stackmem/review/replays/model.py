"""``replay --model recorded --from N``: runs the controller again with the recorded replies.

Commands, files, checks, and all rules in between are executed again. Everything else (the model, the user's own tools
and answers, a program's sources) comes from the recording.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import zip_longest

from msgspec import Struct

from stackmem.core import facts
from stackmem.core.errors import UsageError
from stackmem.core.messages import Text
from stackmem.core.person_facts import WordsAsked
from stackmem.core.state import State
from stackmem.review.comparison import FactComparison, without_counts
from stackmem.run.interrupts import Interrupts
from stackmem.run.loop import run as play
from stackmem.run.perform import World
from stackmem.run.replays.recorded_world import Recorded, RecordedModel, RecordedPerson, in_recorded_order, rehearse
from stackmem.run.run_folder import HISTORY, TRACE
from stackmem.trace.difference import brief, explain_rerun_difference
from stackmem.trace.lock import current_outcome
from stackmem.trace.moments import StepMoment
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record
from stackmem.trace.walk import RecordWalk, decider_at

_FROM_OUTSIDE = ("interrupted", "workspace_error", "limit:seconds")


class Rerun(Struct, frozen=True):
    """The result of running the controller again."""

    run: str
    isolation: str
    first: int  # the first step that was run again
    steps: int  # number of steps that were run again
    equal_facts: int  # number of facts equal to the recorded ones, before the first difference
    step: int  # the step of the first different fact; 0 if all are equal
    difference: str  # that fact, recorded and now; empty if all are equal
    # outcome, recorded_outcome: how the run ended now, and originally
    outcome: str
    recorded_outcome: str
    missing: tuple[str, ...] = ()  # dependency folders that no longer exist and were missing from the workspace
    equal: bool = True  # whether all are equal, or differ only in volatile words
    differs_only_in: tuple[str, ...] = ()  # the kinds of these words


def replay_model(
    run: Run,
    environ: Mapping[str, str],
    first: int,
    observe: Callable[[facts.Event, State], None] | None = None,  # receives every fact and the resulting state
    stop: Callable[[int], object] = os._exit,  # ends the program with an exit code at a second Ctrl-C
) -> Rerun:
    """Run again from step ``first`` on.

    Raises:
        UsageError: ``first`` is 0, or the run was resumed or forked after that step.
        TraceError: The trace is broken, or its files are missing.
        WorkspaceError: The workspace or its isolation is not available.
        KeyboardInterrupt: Ctrl-C came, and nothing is kept (SIGTERM: ``SystemExit``).
    """
    moment = run.moment(first)
    if first < 1:
        raise UsageError("step 0 is the run's start; choose a step from 1")
    recorded, tail = _recorded(run, moment.record.seq)
    _refuse_seams(tail, first)
    new_facts: list[tuple[facts.Event, State]] = []

    def note(event: facts.Event, after: State) -> None:
        new_facts.append((event, after))
        if observe is not None:
            observe(event, after)

    at = moment.record.seq - 1
    with rehearse(run, moment.before, at, environ, recorded) as opened, Interrupts(stop) as interrupts:
        world = opened.world
        world.model = RecordedModel(list(_answers(tail)))
        clock = iter([record.event.elapsed_seconds for record in tail if isinstance(record.event, facts.ClockRead)])
        world.clock = lambda: next(clock, moment.before.seconds)
        if moment.before.session is not None:
            world.person = RecordedPerson(tail, new_facts)
        end = _play(run, moment, world, (tail, new_facts), note, interrupts)
        if interrupts.signal not in (0, signal.SIGINT):
            raise SystemExit(128 + interrupts.signal)
        if interrupts.signal:
            raise KeyboardInterrupt
        comparison = FactComparison((run.folder / HISTORY, opened.places.run / HISTORY))
        equal, step, difference = _compared(tail, new_facts, comparison)
        return Rerun(
            run=run.id,
            isolation=opened.workspace.level,
            first=first,
            steps=end.step - first + 1,
            equal_facts=equal,
            step=step,
            difference=difference,
            outcome=end.outcome,
            recorded_outcome=current_outcome(run.folder / TRACE, run.state.outcome),
            missing=opened.missing,
            equal=not difference,
            differs_only_in=comparison.differs_only_in,
        )


def _play(
    run: Run,
    moment: StepMoment,
    world: World,
    logs: tuple[list[Record], list[tuple[facts.Event, State]]],
    note: Callable[[facts.Event, State], None],
    interrupts: Interrupts,
) -> State:
    """Run the loop from the step to the end."""
    tail, new_facts = logs
    state = moment.before
    decider = decider_at(run.records(), sources_of(run.folder), moment.record.seq)
    if world.program is not None:
        world.program.among = partial(in_recorded_order, tail, new_facts)
    return play(decider.decide(state), state, decider, world, note, interrupts)


def _recorded(run: Run, seq: int) -> tuple[Recorded, list[Record]]:
    """Return the recorded answers from record ``seq`` on, and the records."""
    recorded, tail = Recorded(), []
    for step in RecordWalk(run.records(), sources_of(run.folder)):
        if step.record.seq >= seq:
            recorded.keep(step)
            tail.append(step.record)
    return recorded, tail


def _answers(tail: Iterable[Record]) -> Iterator[facts.ModelReplied | facts.ModelFailed]:
    """Yield the model's answers. A compaction becomes the reply that it was made from."""
    for record in tail:
        match record.event:
            case facts.ModelReplied() | facts.ModelFailed() as answer:
                yield answer
            case WordsAsked() as asked:
                yield facts.ModelReplied((Text(asked.text),), "end", asked.usage, reply_id=asked.reply_id)
            case facts.ContextCompacted() as summary:
                yield facts.ModelReplied(
                    (Text(summary.text),), summary.stop, summary.usage, detail=summary.detail, reply_id=summary.reply_id
                )


def _refuse_seams(tail: list[Record], first: int) -> None:
    """Refuse a run that was resumed or forked after step ``first``, which the controller does not do itself."""
    step, seam = first - 1, 0
    for record in tail:
        step += isinstance(record.event, facts.ModelReplied)
        if isinstance(record.event, facts.RunResumed | facts.RunForked):
            seam = step
    if seam:
        raise UsageError(
            f"the run was resumed or forked after step {seam}, which the controller cannot repeat; use "
            f"--from {seam + 1} or a later step"
        )


def _compared(
    tail: list[Record], new_facts: list[tuple[facts.Event, State]], comparison: FactComparison
) -> tuple[int, int, str]:
    """Return the number of equal facts, and the step and description of the first difference."""
    cut = not isinstance(tail[-1].event, facts.RunEnded | facts.ChecksReturned)
    for position, record in enumerate(tail):
        if isinstance(record.event, facts.RunEnded) and record.event.ending in _FROM_OUTSIDE:
            tail, cut = tail[:position], True
            break
    equal = 0
    for record, now in zip_longest(tail, new_facts):
        if record is None:
            message = f"the recording ends at record {tail[-1].seq}, now {brief(now[0])} follows"
            return (equal, 0, "") if cut else (equal, now[1].step, message)
        if now is None:
            return (
                equal,
                new_facts[-1][1].step,
                f"record {record.seq}: recorded {brief(record.event)}, now the run is over",
            )
        if not comparison.equal(record.event, now[0]):
            description = explain_rerun_difference(record.seq, without_counts(record.event), without_counts(now[0]))
            return equal, now[1].step, description
        equal += 1
    return equal, 0, ""
