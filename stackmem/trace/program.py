"""Reads a program's run back: loads its sources and runs its interpreter again over the records."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from stackmem.core.decider import AgentDecider, Decider, OpenCall, ProgramUnderWay, Watcher
from stackmem.core.errors import TraceError
from stackmem.core.facts import Event, RunStarted
from stackmem.core.machine import evolve
from stackmem.core.messages import View
from stackmem.core.neighbors import neighbor
from stackmem.core.program_facts import ProgramCalled, ProgramStarted
from stackmem.core.requests import AskModel, Effect, match_effect
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import owners
from stackmem.memory import open_strategy

from .lineage import sources
from .record import Record

SOURCES = "sources"
TextOf = Callable[[str], str]
"""Returns the text of a source for its digest."""


def no_sources(digest: str) -> str:
    raise TraceError(f"the text of the source {digest[:16]}… is not available, because only records were passed")


def keep_source(run_dir: Path, text: str) -> str:
    """Store the text of a source in the run's folder and return its digest.

    Raise TraceError if the source cannot be written.
    """
    return keep_bytes(run_dir / SOURCES, text.encode(), "source")


def keep_bytes(folder: Path, raw: bytes, label: str) -> str:
    """Store content in a folder of the run under its digest, and return the digest."""
    digest = hashlib.sha256(raw).hexdigest()
    path = folder / digest
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            new = path.with_name(f"{digest}.{os.getpid()}.{threading.get_ident()}")
            with open(new, "wb", opener=owners) as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)  # after a crash either the complete text is there or none, never a part under its digest
    except OSError as error:
        raise TraceError(f"the {label} cannot be stored at {path} ({error.strerror}); free disk space there") from error
    return digest


def sources_of(run_dir: Path) -> TextOf:
    """Return a reader of the sources stored by a run or by the runs it was forked from.

    The reader raises ``TraceError`` if a source is missing or was changed.
    """

    def text_of(digest: str) -> str:
        for folder, _, _ in reversed(sources(run_dir)):
            try:
                raw = read_regular(folder / SOURCES / digest)
            except OSError:
                continue
            if hashlib.sha256(raw).hexdigest() != digest:
                raise TraceError(f"the source {folder / SOURCES / digest} was changed; restore the original")
            return raw.decode()
        raise TraceError(f"{run_dir / SOURCES} lacks the source {digest[:16]}…; restore it")

    return text_of


def program_of(
    event: ProgramStarted,
    start: RunStarted,
    strategy: MemoryStrategy,
    text_of: TextOf,
    *,
    keep: bool = True,
    watch: Watcher | None = None,
) -> ProgramUnderWay:
    """Return the recorded program in its initial state. ``watch`` receives its lines.

    Raise TraceError if its language is not installed, or its text is missing.
    """
    opened: ProgramUnderWay = neighbor("languages: open a program")(
        event, start, strategy, text_of, keep=keep, watch=watch
    )
    return opened


def called_programs(text_of: TextOf) -> OpenCall:
    """Return the function that opens a program which an agent called."""

    def open_call(event: ProgramCalled, state: State, strategy: MemoryStrategy) -> Decider:
        opened: Decider = neighbor("languages: open a called program")(event, state, strategy, text_of)
        return opened

    return open_call


class Completions:
    """Finds the exact prompts of a program's completions while the run's records are passed in order.

    ``take`` returns the prompt that a record answers, or None if it does not answer a completion.
    """

    def __init__(self, text_of: TextOf) -> None:
        self._text_of = text_of
        self._program: Decider | None = None
        # the effect that the last record answers; None if it does not answer the program
        self.question: Effect | None = None

    def take(self, event: Event, before: State, after: State) -> View | None:
        """Process the next record.

        Raise TraceError if the program's language is not installed, or a source is missing.
        """
        program = self._program
        if program is None:
            if isinstance(event, ProgramStarted):
                strategy = open_strategy(before.begun.strategy)
                self._program = program_of(event, before.begun, strategy, self._text_of, keep=True)
            if isinstance(event, ProgramCalled):
                self._program = AgentDecider(open_strategy(before.begun.strategy), called_programs(self._text_of))
                self._program.note(event, after)
            return None
        upcoming = program.decide(before)
        asks = isinstance(upcoming, Effect) and bool(before.stack) and before.running.program == "steps"
        self.question = match_effect(upcoming, event) if asks and isinstance(upcoming, Effect) else None
        program.note(event, after)
        return self.question.view if isinstance(self.question, AskModel) else None


def completion_of(folder: Path, records: Iterable[Record], seq: int) -> View:
    """Return the prompt of a program's completion that record ``seq`` answers.

    Raise TraceError if the records are not those of a program's run, or today's interpreter makes a different request.
    """
    state, completions = State(), Completions(sources_of(folder))
    for record in records:
        after = evolve(state, record.event)
        view = completions.take(record.event, state, after)
        if record.seq == seq and view is not None:
            return view
        state = after
    raise TraceError(f"record {seq} does not answer a completion that the program requests; stackmem replay shows more")
