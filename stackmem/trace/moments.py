"""A run step by step, with the state before and after each: the fold that views, forks and comparisons start from."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from stackmem.core.facts import ModelReplied, RunEnded, RunForked, RunStarted
from stackmem.core.messages import View
from stackmem.core.state import State
from stackmem.errors import RulesDiffer, TraceError, UsageError
from stackmem.memory import open_strategy

from .imported import refuse_imported
from .lineage import RunReader
from .record import Record
from .walk import state_after


class StepMoment(Struct, frozen=True):
    """One step, or with number 0 the start."""

    step: int
    asked: State  # the state that the step's prompt was rendered from; without anything for step 0
    record: Record  # the reply; of step 0, the start
    followed: tuple[Record, ...]  # what came of it, up to the next reply or the end
    # the state once the reply's call was answered, before the rules or the provider said anything more. Where the run
    # was cut short before that, the call is still pending in it
    settled: State
    at: int  # number of the last record that ``settled`` holds
    digest: str  # that record's digest


def moments(reader: RunReader) -> Iterator[StepMoment]:
    """The start and every step, each once all that followed it is read. What they hold is shared between them."""
    state = State()
    begun: tuple[State, Record] | None = None
    followed: list[tuple[Record, State, str]] = []
    for record in reader:
        before, state = state, state_after(state, record)
        if isinstance(record.event, ModelReplied) or begun is None:
            if begun is None and not isinstance(record.event, RunStarted):
                raise TraceError("the first record is not RunStarted; this is no trace of a run")
            if begun is not None:
                yield _moment(begun, followed)
            begun, followed = (before, record), []
        followed.append((record, state, reader.digest))
    if begun is not None:
        yield _moment(begun, followed)


def _moment(begun: tuple[State, Record], held: list[tuple[Record, State, str]]) -> StepMoment:
    asked, record = begun
    place = 0
    for index, (later, state, _) in enumerate(held):
        if isinstance(later.event, RunEnded):
            break
        place = index
        if state.pending is None:
            break
    while place + 1 < len(held) and isinstance(held[place + 1][0].event, RunForked):
        place += 1  # a fork's changes come before anything else that follows
    last, settled, digest = held[place]
    followed = tuple(later for later, _, _ in held[1:])
    return StepMoment(settled.step, asked, record, followed, settled, last.seq, digest)


def moment_after(reader: RunReader, seq: int) -> StepMoment:
    """The state right after a record, whatever the step that it belongs to was still to bring."""
    state = State()
    for record in reader:
        before, state = state, state_after(state, record)
        if record.seq == seq:
            return StepMoment(state.step, before, record, (), state, seq, reader.digest)
    raise UsageError(f"the run has no record {seq:,}")


def no_step(run: str, step: int, steps: int) -> UsageError:
    has = f"steps 1 to {steps} (0 is its start)" if steps else "0, its start, and no other"
    return UsageError(f"there is no step {step} in {run}; it has {has}")


def rendered(moment: StepMoment) -> View:
    """The prompt of a step as today's code renders it; ``proven`` tells whether it is the one that was sent."""
    state = moment.asked
    if not isinstance(moment.record.event, ModelReplied):
        raise UsageError("step 0 is the run's start and has no prompt; name a step from 1")
    try:
        strategy = open_strategy(state.begun.strategy)
    except UsageError as error:
        raise TraceError(f"the run used a strategy that is not installed: {error}") from error
    try:
        return strategy.render(state)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise TraceError(
            f"record {moment.record.seq} answers a prompt that cannot have been; stackmem replay tells what is wrong"
        ) from error


def proven(moment: StepMoment, view: View) -> bool:
    """Whether the digest that was kept of the prompt says that it is this one."""
    event = moment.record.event
    return isinstance(event, ModelReplied) and event.prompt_digest == view.digest


def prompt_of(moment: StepMoment, view: View | None = None) -> View:
    """The exact prompt that the step's reply answers; ``view`` is it where the state alone does not tell."""
    if moment.asked.start is not None:
        refuse_imported(moment.asked.start, "asked for the prompts that were sent")
    view = rendered(moment) if view is None else view
    if not proven(moment, view):
        raise RulesDiffer(
            f"record {moment.record.seq}: the prompt of step {moment.step} cannot be had, as today another one is "
            "rendered than was sent; stackmem replay tells more"
        )
    return view
