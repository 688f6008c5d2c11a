"""Recorded answers from outside the workspace, for running a run again: from the user's own tools, the user, and
sources. No external system is used a second time.

The files of a moment are put into a fresh temporary workspace at the run's isolation level. They are deleted
afterwards, and no model can be called there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunEnded, ToolReturned
from stackmem.core.images import ImageRef, listed
from stackmem.core.person_facts import (
    PersonAttached,
    PersonDecided,
    PersonRan,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
)
from stackmem.core.program_facts import SourceLoaded, ToolAnswered, UserAnswered
from stackmem.core.requests import (
    AskModel,
    AskPermission,
    AskUser,
    InvokeTool,
    LoadSource,
    Parallel,
    UseOwnTool,
    answers,
)
from stackmem.core.state import State
from stackmem.run.interrupts import Interrupts
from stackmem.run.open import open_run
from stackmem.run.opened import Opened, Person
from stackmem.run.plan import Rehearsed, must_be_original, plan_kept
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.ports import Left, Unattended, UserCommand, UserFile
from stackmem.run.prepare import prepare_kept
from stackmem.run.programs.tools import BUILT_IN
from stackmem.run.stored_request import read_request
from stackmem.trace.open_run import Run
from stackmem.trace.record import Record
from stackmem.trace.walk import WalkedRecord


class RecordedModel:
    """Answers every request with the next recorded fact."""

    def __init__(self, facts: Iterable[ModelReplied | ModelFailed]) -> None:
        self._facts = iter(facts)

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        """Return the next fact, or a failure of kind ``script`` if there are no more."""
        none = ModelFailed("script", f"the run recorded no reply to this request, for step {request.step}")
        return next(self._facts, none)


class RecordedTool:
    """One of the user's own tools, with its recorded answers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._said: deque[ToolAnswered] = deque()

    def keep(self, answer: ToolAnswered) -> None:
        self._said.append(answer)

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """Return the next answer, whatever the arguments are."""
        if self._said:
            return self._said.popleft()
        return ToolAnswered(None, "error", f"the run recorded no further answer of {self._name}")


class RecordedPerson(Unattended):
    """The user of a conversation, who says each recorded text at its recorded position between the facts."""

    def __init__(self, tail: list[Record], facts: list[Any]) -> None:
        """Start with the records in ``tail``. ``facts`` has the facts so far, one for each record."""
        self._tail, self._facts = tail, facts

    def _next(self) -> Event | None:
        return self._tail[len(self._facts)].event if len(self._facts) < len(self._tail) else None

    def request(self) -> str:
        event = self._next()
        if isinstance(event, PersonSaid):
            return event.text
        raise Left

    def answer(self, request: AskUser) -> str | None:
        event = self._next()
        if isinstance(event, RunEnded) and event.ending == "left":
            raise Left
        return event.text if isinstance(event, UserAnswered) else None

    def decide(self, request: AskPermission) -> PersonDecided:
        event = self._next()
        if isinstance(event, PersonDecided):
            return event
        raise Left

    def poll_user(self) -> PersonSteppedIn | PersonStopped | None:
        event = self._next()
        if isinstance(event, PersonRan):
            raise UserCommand(event.command)
        if isinstance(event, PersonAttached):
            raise UserFile(
                event.path, event.start_line, event.end_line, recorded=None if event.given is UNSET else event
            )
        return event if isinstance(event, PersonSteppedIn | PersonStopped) else None


class Recorded(Struct):
    """The answers of a run, each kind in its order."""

    tools: dict[str, RecordedTool] = {}
    calls: deque[ToolReturned] = field(default_factory=deque)  # results of the agent's calls of own tools
    people: deque[str] = field(default_factory=deque)
    sources: dict[LoadSource, deque[SourceLoaded]] = {}  # by request

    def keep(self, step: WalkedRecord) -> None:
        """Store an answer."""
        match step.effect, step.record.event:
            case UseOwnTool(), ToolReturned() as returned:
                self.calls.append(returned)
            case InvokeTool(tool=name), ToolAnswered() as answer if name not in BUILT_IN:
                self.tools.setdefault(name, RecordedTool(name)).keep(answer)
            case LoadSource() as asked, SourceLoaded() as loaded:
                self.sources.setdefault(asked, deque()).append(loaded)
            case _, UserAnswered(text):
                self.people.append(text)

    def own_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool, tuple[bytes | ImageRef, ...]]:
        """Return what the agent received from one of the user's own tools."""
        if self.calls:
            returned = self.calls.popleft()
            return returned.text, returned.failed, listed(returned.images)
        return f"the run recorded no further answer of {name}", True, ()

    def load(self, source: LoadSource) -> SourceLoaded:
        """Return the recorded result of loading a source. The run stores its text."""
        recorded = self.sources.get(source)
        if recorded:
            return recorded.popleft()
        return SourceLoaded(source.path, failed="the run did not read it then")

    def person(self, question: str) -> str | None:
        """Return the user's next text, or None if there are no more."""
        return self.people.popleft() if self.people else None


def in_recorded_order(tail: list[Record], facts: list[Any], effect: Parallel) -> Parallel:
    """Return only the branch that was answered next in the recording, so that the runs can be compared fact by fact.

    ``tail`` are the recorded events. ``facts`` are the facts so far, one per record.
    """
    event: Event | None = tail[len(facts)].event if len(facts) < len(tail) else None
    candidates = (each for each in effect.branches if event is not None and answers(type(each[1]), event, each[0]))
    return Parallel((next(candidates, effect.branches[0]),))


@contextmanager
def rehearse(run: Run, state: State, at: int, environ: Mapping[str, str], recorded: Recorded) -> Iterator[Opened]:
    """Yield the world of one of the run's states: the one after record ``at``.

    ``recorded`` answers everything outside the run's workspace.

    Raises:
        UsageError: The run's task is gone, or its files were not kept.
        TraceError: Its history or its request is missing.
        WorkspaceError: The workspace or its isolation is not available.
    """
    load_plugins()
    must_be_original(run, "executed again")
    base, stored = state.begun, read_request(run.folder)
    nobody = {"model": "human", "base_url": None, "window_tokens": None, "isolation": base.isolation}
    request = prepare_kept(stored, run.folder.parent, base, nobody, environ)
    plan = replace(plan_kept(request, stored, base, environ), begins=Rehearsed(stored, run, state, at))
    with open_run(plan, environ, Interrupts(), Person(recorded.person)) as opened:
        world = opened.world
        world.sleep, world.own_tool = _no_wait, recorded.own_tool
        if world.program is not None:
            world.program.load, world.program.own_tools = recorded.load, recorded.tools
        yield opened


def _no_wait(seconds: float) -> None:
    """Return immediately, because recorded answers need no wait."""
