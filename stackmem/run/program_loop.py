"""The program loop: as ``controller.run``, with an interpreter beside the machine.

Rule 1: a fact is recorded before anything follows from it, and synced before the next effect that leaves the process.
Rule 2: what runs side by side is recorded as it arrives; the interpreter is answered once all of it is there.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import Any, Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.frames import so_far
from stackmem.core.machine import evolve
from stackmem.core.program_facts import PhaseEnded, SourceLoaded, ToolAnswered, UserAnswered, Waited
from stackmem.core.requests import AskModel, Effect
from stackmem.core.state import State
from stackmem.core.text import mark_cut
from stackmem.errors import WorkspaceError
from stackmem.languages.course import Asked, Course, Outside, Upcoming
from stackmem.languages.effects import AskUser, InvokeTool, LoadSource, Wait

from .interrupts import Interrupts
from .perform import JITTER, World, perform
from .programs.bench import Bench
from .programs.tools import BUILT_IN, READS, use_built_in

Record = Callable[[Event, State], None]
_LONGEST_WAIT = 10_000_000.0
"""Seconds; the system takes no endless wait."""


class Answering(Protocol):
    """A tool of the person's own."""

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """What the tool came to."""


class ProgramWorld(Struct):
    """What a program's effects are performed with, beside the machine's world.

    Attributes:
        load: Reads a source, keeps its text in the run's folder, and says which it is.
        ask_user: The person's answer, or None where nobody answers.
        own_tools: The person's own tools by name.
        parallel: Names of those that may run side by side.
        among: Of what is asked at once, what is asked now; None asks all of it.

    """

    world: World
    bench: Bench
    load: Callable[[LoadSource], SourceLoaded]
    ask_user: Callable[[str], str | None]
    own_tools: Mapping[str, Answering] = {}
    parallel: frozenset[str] = frozenset()
    among: Callable[[Outside], Outside] | None = None


def drive(
    first: Upcoming, state: State, course: Course, outer: ProgramWorld, record: Record, interrupts: Interrupts
) -> State:
    """Play a program's run to its end from ``state``, where ``first`` happens next.

    Raises:
        TraceError: A fact could not be kept; all before it are.

    """
    try:
        return _driven(first, state, course, outer, record, interrupts)
    finally:
        outer.bench.python.stop()


def _driven(
    first: Upcoming, state: State, course: Course, outer: ProgramWorld, record: Record, interrupts: Interrupts
) -> State:
    upcoming = first
    while upcoming is not None:
        for event in _facts(upcoming, state, outer, interrupts):
            after = evolve(state, event)
            record(event, after)
            course.saw(event, after)
            state = after
        if interrupts.signal and state.end is None:
            stopped = RunEnded("interrupted", so_far(state))
            state = evolve(state, stopped)
            record(stopped, state)
        upcoming = course.upcoming(state)
    return state


def _facts(upcoming: Upcoming, state: State, outer: ProgramWorld, interrupts: Interrupts) -> Iterator[Event]:
    """The facts that answer what is upcoming; the last one may be that the run was stopped."""
    if not isinstance(upcoming, Effect | Outside):
        if upcoming is not None:
            yield upcoming
        if isinstance(upcoming, PhaseEnded):  # it is recorded by now
            outer.world.sync()
        return
    if isinstance(upcoming, Outside):
        outer.world.sync()
        upcoming = outer.among(upcoming) if outer.among is not None else upcoming
    found = _outside(upcoming, outer) if isinstance(upcoming, Outside) else _machine(upcoming, outer.world)
    while True:
        try:
            with interrupts.allowed():
                event = next(found, None)
        except KeyboardInterrupt:
            yield RunEnded("interrupted", so_far(state))
            return
        except (WorkspaceError, OSError) as error:
            yield RunEnded("workspace_error", outer.world.scrub(str(error)))
            return
        if event is None:
            return
        yield event


def _machine(effect: Effect, world: World) -> Iterator[Event]:
    yield perform(effect, world)


def _outside(outside: Outside, outer: ProgramWorld) -> Iterator[Event]:
    """Each answer as it arrives."""
    together = [pair for pair in outside.asked if _may_run_beside(pair[1], outer)]
    if outside.most > 1 and len(together) > 1:
        yield from _side_by_side(together, outside.most, outer)
        alone = [pair for pair in outside.asked if pair not in together]
    else:
        alone = list(outside.asked)
    for branch, effect in alone:
        yield _answer(branch, effect, outer)


def _may_run_beside(effect: Asked, outer: ProgramWorld) -> bool:
    match effect:
        case AskModel() | LoadSource():
            return True
        case InvokeTool():
            return effect.tool in READS or effect.tool in outer.parallel
        case _:
            return False


def _side_by_side(pairs: list[tuple[int | None, Asked]], most: int, outer: ProgramWorld) -> Iterator[Event]:
    """Each answer as it arrives; a call that never returns does not keep the process from ending."""
    left = deque(pairs)
    arrived: SimpleQueue[Event | BaseException] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                branch, effect = left.popleft()
            except IndexError:
                return
            try:
                arrived.put(_answer(branch, effect, outer))
            except BaseException as error:  # noqa: BLE001 - it is raised where the answers are waited for
                arrived.put(error)

    for _ in range(min(most, len(pairs), 32)):
        threading.Thread(target=work, name="beside", daemon=True).start()
    try:
        for _ in pairs:
            found = arrived.get()
            if isinstance(found, BaseException):
                raise found
            yield found
    finally:
        left.clear()


def _answer(branch: int | None, effect: Asked, outer: ProgramWorld) -> Event:
    """The fact that answers one effect, performed once."""
    match effect:
        case AskModel():
            return _completed(branch, effect, outer.world)
        case InvokeTool():
            return replace(_used(effect, outer), branch=branch or 0)
        case LoadSource():
            return replace(outer.load(effect), branch=branch or 0)
        case Wait():
            seconds = min(_LONGEST_WAIT, max(0.0, effect.seconds))  # what is no number counts as 0
            outer.world.sleep(seconds)
            return Waited(seconds)
        case AskUser():
            told = outer.ask_user(effect.question)
            if told is None:
                return RunEnded("input_needed", mark_cut(effect.question, 4_000))
            return UserAnswered(outer.world.scrub(told))


def _completed(branch: int | None, effect: AskModel, world: World) -> ModelReplied | ModelFailed:
    if effect.wait_seconds:
        world.sleep(effect.wait_seconds * random.uniform(1, 1 + JITTER))  # noqa: S311 - spreads retries, guards nothing
    answer = world.model.reply(effect)
    if isinstance(answer, ModelFailed):
        answer = replace(answer, detail=world.scrub(answer.detail))
    return replace(answer, prompt_digest=effect.view.digest, branch=UNSET if branch is None else branch)


def _used(effect: InvokeTool, outer: ProgramWorld) -> ToolAnswered:
    if effect.tool in BUILT_IN:
        return use_built_in(effect, outer.bench)
    own = outer.own_tools.get(effect.tool)
    if own is None:
        known = ", ".join([*BUILT_IN, *outer.own_tools])
        return ToolAnswered(None, "unknown_tool", f"there is no tool {effect.tool[:80]!r}; known: {known}")
    return _scrubbed(own.answer(effect.arguments), outer.world.scrub)


def _scrubbed(answer: ToolAnswered, scrub: Callable[[str], str]) -> ToolAnswered:
    return replace(answer, value=scrubbed(answer.value, scrub), detail=scrub(answer.detail))


def scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    """The value without secrets, wherever a text of it stands."""
    match value:
        case str():
            return scrub(value)
        case list():
            return [scrubbed(each, scrub) for each in value]
        case dict():
            return {scrub(str(name)): scrubbed(each, scrub) for name, each in value.items()}
        case _:
            return value
