"""The open resources of a running run, and the callbacks to its user."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.decider import AgentDecider, ProgramUnderWay, Tell, Watcher
from stackmem.core.facts import Event, RunStarted
from stackmem.core.requests import AskPermission, AskUser
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.history.history import History
from stackmem.history.late_repository import LateRepository
from stackmem.history.layer import Layer
from stackmem.run.companion.kept_heap import HeapKeeper
from stackmem.trace.signatures import Signer
from stackmem.trace.store import TraceWriter
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.workspace import WatchedFolder, Workspace

from .companion.git_inside import RepositoryPlaces
from .in_memory import NoHistory
from .interrupts import Interrupts
from .perform import World
from .ports import Clock, PersonPort, SpanSender
from .request import Request
from .stored_request import StoredRequest

Observe = Callable[[Event, State], None]

ObserveFrame = Callable[[str, Event | AskUser | AskPermission, State], None]
"""Called in the thread of a parallel frame, with its name, a fact of it or what it asks the user, and its state."""


ObserveReading = Callable[[int, int], object]
"""Called while a server reads a prompt, with the number of tokens read so far and the total."""


def nobody_answers(question: str) -> str | None:
    return None


def everybody_agrees(request: Request) -> None:
    """Agree without asking anyone."""


def nobody_listens(happened: tuple[Any, ...], state: State) -> None:
    """Ignore the notification."""


class Person(Struct, frozen=True):
    """Callbacks to the user of a run."""

    # returns the answer to a program's question, or None if nobody can answer
    ask: Callable[[str], str | None] = nobody_answers
    tell: Tell = nobody_listens  # called for everything that happens in a program, see ``languages.language.Happening``
    observe: Observe | None = None  # called for every recorded event with the resulting state
    observe_frame: ObserveFrame | None = None  # the same for a parallel frame
    observe_reading: ObserveReading | None = None
    stop: Callable[[int], object] = os._exit  # ends the process with an exit code at the second Ctrl-C
    # called with the request before anything is copied; raises ``UsageError`` to refuse
    agree: Callable[[Request], object] = everybody_agrees
    watch: Watcher | None = None  # a debugger for programs, if any
    notice: Callable[[str], object] = str  # receives a message when something takes long
    port: PersonPort | None = None  # the user of an agent; None if only questions are answered, by ``ask``
    clock: Clock = Clock()  # the clock of the run


class RunPlaces(Struct, frozen=True):
    """The directories of one run."""

    run: Path  # the run directory with its records
    work: Path  # the agent's workspace
    scratch: Path  # where checks create their copies
    layer: Layer | None = None  # how the workspace was created, once it exists; None in memory


class Opened(Struct):
    """A run with all its resources open."""

    start: RunStarted  # the first event of a new run; a resumed or forked run only compares with it
    strategy: MemoryStrategy
    world: World  # everything that the loop uses
    workspace: Workspace | MemoryWorkspace | WatchedFolder
    scrubber: Scrubber
    places: RunPlaces
    history: History | NoHistory
    stored: StoredRequest
    interrupts: Interrupts
    person: Person
    # writer, signer: None if nothing is recorded
    writer: TraceWriter | None = None
    signer: Signer | None = None
    keeper: HeapKeeper | None = None  # saves changes to a persistent heap; None if there is none
    folder: str = ""  # the user folder that the workspace copies; empty for a task
    apply: bool = False  # whether to apply the patch to the folder once the work is done
    seconds_before: float = 0.0  # wall time of the run before this process resumed it
    steps_with_secrets: tuple[int, ...] = ()  # earlier steps whose reply contains a secret
    missing: tuple[str, ...] = ()  # dependency folders that no longer exist anywhere; the workspace lacks them
    # decides the next step of a program run; None for an agent
    program: ProgramUnderWay | None = None
    agent: AgentDecider | None = None  # the agent of a resumed or forked run, with the programs that it had called
    live: SpanSender | None = None
    environ: Mapping[str, str] = {}
    repeats: bool = False  # whether the user allows repeating calls that a stopped process may have made
    late: LateRepository | None = None  # creates the repository of the workspace in the background, if there is one
    inside: RepositoryPlaces | None = None  # the places of that repository
