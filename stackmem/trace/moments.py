"""A run step by step with the states before and after each step, used by views, forks and comparisons."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from stackmem.core.errors import RulesDiffer, TraceError, UsageError
from stackmem.core.facts import ModelReplied, RunEnded, RunForked, RunStarted
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.memory import open_strategy

from .imported import refuse_imported
from .lineage import RunReader
from .record import Record
from .walk import state_after


class StepMoment(Struct, frozen=True):
    """One step; number 0 is the start."""

    step: int
    before: State  # the state from which the step's prompt was rendered; empty for step 0
    record: Record  # the reply; for step 0 the start
    followed: tuple[Record, ...]  # the records after it, up to the next reply or the end
    # The state after the reply's call was answered and before any later fact. If the run was cut off before the answer,
    # the call is still pending.
    settled: State
    at: int  # number of the last record included in ``settled``
    digest: str  # that record's digest


def moments(reader: RunReader) -> Iterator[StepMoment]:
    """Yield the start and every step, each after all records that follow it were read. They share their data.

    Raise TraceError if a line is broken, records are out of sequence, or the first record does not start a run.
    """
    state = State()
    start: tuple[State, Record] | None = None
    followed: list[tuple[Record, State, str]] = []
    for record in reader:
        before, state = state, state_after(state, record)
        if isinstance(record.event, ModelReplied) or start is None:
            if start is None and not isinstance(record.event, RunStarted):
                raise TraceError("the first record is not RunStarted, so this is not the trace of a run")
            if start is not None:
                yield _moment(start, followed)
            start, followed = (before, record), []
        followed.append((record, state, reader.digest))
    if start is not None:
        yield _moment(start, followed)


def _moment(start: tuple[State, Record], records: list[tuple[Record, State, str]]) -> StepMoment:
    before, record = start
    position = 0
    for index, (later, state, _) in enumerate(records):
        if isinstance(later.event, RunEnded):
            break
        position = index
        if state.pending is None:
            break
    while position + 1 < len(records) and isinstance(records[position + 1][0].event, RunForked):
        position += 1  # a fork's changes come before anything else that follows
    last, after, digest = records[position]
    followed = tuple(later for later, _, _ in records[1:])
    return StepMoment(after.step, before, record, followed, after, last.seq, digest)


def moment_after(reader: RunReader, seq: int) -> StepMoment:
    """Return the state right after a record, even if its step is not complete.

    Raise UsageError if the record does not exist.
    """
    state = State()
    for record in reader:
        before, state = state, state_after(state, record)
        if record.seq == seq:
            return StepMoment(state.step, before, record, (), state, seq, reader.digest)
    raise UsageError(f"the run has no record {seq:,}")


def no_step(run: str, step: int, steps: int) -> UsageError:
    has = f"steps 1 to {steps} (0 is its start)" if steps else "only 0, its start"
    return UsageError(f"{run} has no step {step}; it has {has}")


def rendered(moment: StepMoment) -> View:
    """Return the prompt of a step as today's code renders it. ``proven`` checks whether it is the one that was sent.

    Raise UsageError if step 0 has no prompt. Raise TraceError if the strategy is not installed, or the records do not
    allow a prompt at this step.
    """
    state = moment.before
    if not isinstance(moment.record.event, ModelReplied):
        raise UsageError("step 0 is the run's start and has no prompt; choose a step from 1")
    try:
        strategy = open_strategy(state.begun.strategy)
    except UsageError as error:
        raise TraceError(f"the run used a strategy that is not installed: {error}") from error
    try:
        return strategy.render(state)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise TraceError(
            f"record {moment.record.seq} answers an impossible prompt; stackmem replay shows what is wrong"
        ) from error


def proven(moment: StepMoment, view: View) -> bool:
    """Return whether the recorded digest of the prompt matches this one."""
    event = moment.record.event
    return isinstance(event, ModelReplied) and event.prompt_digest == view.digest


def prompt_of(moment: StepMoment, view: View | None = None) -> View:
    """Return the exact prompt that the step's reply answers.

    ``view`` is that prompt if the state is not enough to render it.

    Raises:
        UsageError: Step 0 has no prompt, and the prompts of an imported run are not known.
        TraceError: As ``rendered``.
        RulesDiffer: Today's code renders a different prompt than the one that was sent.
    """
    if moment.before.start is not None:
        refuse_imported(moment.before.start, "asked for the prompts that were sent")
    view = rendered(moment) if view is None else view
    if not proven(moment, view):
        raise RulesDiffer(
            f"record {moment.record.seq}: the prompt of step {moment.step} is not available, because today's code "
            "renders a different one from the one that was sent; stackmem replay shows more"
        )
    return view
