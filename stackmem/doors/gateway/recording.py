"""Turns gateway traffic into runs, one per tree of conversations, while it happens.

A run's folder contains ``exchanges.jsonl``, the log, and ``trace.jsonl``, derived from it. The trace depends only
on the log, so after a kill the trace can be completed from the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from stackmem.core.errors import TraceError
from stackmem.core.machine import fold
from stackmem.core.version import VERSION
from stackmem.foreign.files import opener_of_regular
from stackmem.foreign.private import write_json
from stackmem.run.result import RunResult, result_fields, write_result
from stackmem.run.run_folder import EXCHANGES, RESULT, RUN, TRACE, new_run
from stackmem.trace.lock import Lock as RunLock
from stackmem.trace.record import Record
from stackmem.trace.store import TraceReader, TraceWriter, cut_torn_line, write_line
from stackmem.workspace.secrets import Scrubber, scrub_value

from .conversations import Placed
from .exchanges import AnswerPassed, ExchangeWriter, Passed, RequestPassed, RunClosed, read_exchanges
from .telling import Telling, opening_of

P = TypeVar("P", RequestPassed, AnswerPassed)

ORIGIN = f"gateway {VERSION}"
STRATEGY = "gateway"
_MAX_OPEN = 256
_PIECE_BYTES = 1 << 20
_LONGEST_SECRET = 64 << 10


class RunBeingTold:
    """A run's folder while requests are still coming in."""

    def __init__(self, runs_dir: Path, first: RequestPassed) -> None:
        """Create the folder; raise ``UsageError`` or ``TraceError`` if that fails."""
        self._lock = Lock()
        self.folder = new_run(runs_dir, opening_of(first)[1], STRATEGY)
        self.count = 0
        self.conversations: set[int] = set()
        self._at = first.at
        self._telling = Telling(ORIGIN)
        self._trace = TraceWriter(self.folder / TRACE, lambda: self._at)
        self._lines = ExchangeWriter(self.folder / EXCHANGES)

    def take(self, passed: Passed) -> None:
        """Log an event and append the derived events to the trace; raise ``TraceError`` if they cannot be written."""
        with self._lock:
            self._take(passed)

    def take_request(self, passed: RequestPassed) -> int:
        """Log a request under the next number and return the number; raise ``TraceError`` like ``take``."""
        with self._lock:
            self.count += 1
            self._take(msgspec.structs.replace(passed, number=self.count))
            return self.count

    def _take(self, passed: Passed) -> None:
        self._lines.append(passed)
        for fact in self._telling.take(passed):
            self._at = fact.at
            record = self._trace.append(fact.event)
            if record.seq == 1:
                write_json(self.folder / RUN, fact.event)

    def close(self, at: float) -> None:
        """End the run and write its result."""
        try:
            self.take(RunClosed(at))
            self._trace.sync()
        finally:
            self._lines.close()
            self._trace.close()
        write_result(outcome(self.folder), self.folder / RESULT)


def tell_to_end(folder: Path) -> bool:
    """Complete the run of a gateway that was killed; return whether there was anything to do.

    Raise TraceError if another process writes the run, a line is broken, or the trace does not follow from the lines.
    """
    lock = RunLock(folder / TRACE)
    try:
        if (folder / RESULT).exists():
            return False
        passed = list(read_exchanges(folder / EXCHANGES))
        if not passed:
            return False
        if not isinstance(passed[-1], RunClosed):
            passed.append(RunClosed(passed[-1].at))
            lines = ExchangeWriter(folder / EXCHANGES)
            lines.append(passed[-1])
            lines.close()
        trace_bytes = told_lines(passed)
        with open(folder / TRACE, "r+b", opener=opener_of_regular) as trace:
            size = cut_torn_line(trace.fileno())
            if not trace_bytes.startswith(trace.read(size)):
                raise TraceError(
                    f"the trace of {folder.name} does not follow from its {EXCHANGES}; restore an earlier copy"
                )
            trace.write(trace_bytes[size:])
        write_result(outcome(folder), folder / RESULT)
        return True
    except OSError as error:
        raise TraceError(f"{folder} cannot be written ({error.strerror}); free some space") from error
    finally:
        lock.close()


def told_lines(passed: Iterable[Passed]) -> bytes:
    """Derive a complete trace from logged events."""
    telling, digest, lines, number = Telling(ORIGIN), "", [], 0
    for exchange in passed:
        for fact in telling.take(exchange):
            number += 1
            line, digest = write_line(Record(number, round(fact.at, 3), fact.event), digest)
            lines.append(line)
    return b"".join(lines)


def outcome(folder: Path) -> RunResult:
    """Compute the result of a run; raise ``TraceError`` if its trace is broken."""
    reader = TraceReader(folder / TRACE)
    records = list(reader)
    state = fold(record.event for record in records)
    return RunResult(
        run=folder.name,
        run_dir=str(folder),
        wall_seconds=round(records[-1].at - records[0].at, 3),
        isolation=state.begun.isolation,
        workspace=state.begun.workspace,
        records=len(records),
        digest=reader.digest,
        **result_fields(state),
    )


class Recording:
    """All runs of one gateway.

    ``forget`` is called with the conversations of a run that is closed because too many are open.
    """

    def __init__(
        self, runs_dir: Path, environ: Mapping[str, str], clock: Callable[[], float],
        forget: Callable[[Iterable[int]], None],
    ) -> None:  # fmt: skip
        self._runs_dir, self._environ, self._clock, self._forget = runs_dir, environ, clock, forget
        self._runs: OrderedDict[int, RunBeingTold] = OrderedDict()
        self._by_conversation: dict[int, RunBeingTold] = {}
        self._by_id: dict[tuple[bytes, str], RunBeingTold] = {}
        self._side: RunBeingTold | None = None
        self._scrubbers: OrderedDict[tuple[str, ...], Scrubber] = OrderedDict()
        self._names: list[str] = []
        self._lock = Lock()  # only for lookups and updates, because each run has its own lock

    @property
    def folders(self) -> Iterator[Path]:
        """Folders of all runs, in the order they began."""
        return (self._runs_dir / name for name in self._names)

    def add_request(self, placed: Placed, passed: RequestPassed, keys: tuple[str, ...]) -> tuple[RunBeingTold, int]:
        """Record a request; return its run and the exchange's number in it."""
        passed = self._scrubbed(passed, keys)
        with self._lock:
            run = self._run_of(placed, passed)
            forgotten = [self._forgotten(next(iter(self._runs.values()))) for _ in range(len(self._runs) - _MAX_OPEN)]
        for old_run in forgotten:
            old_run.close(self._clock())
        return run, run.take_request(passed)

    def add_answer(self, run: RunBeingTold, passed: AnswerPassed, keys: tuple[str, ...]) -> None:
        run.take(self._scrubbed(passed, keys))

    def close(self) -> None:
        """End every run."""
        with self._lock:
            runs = [self._forgotten(run) for run in list(self._runs.values())]
        for run in runs:
            run.close(self._clock())

    def _run_of(self, placed: Placed, passed: RequestPassed) -> RunBeingTold:
        family = placed.conversation if placed.parent is None else placed.parent
        run = self._by_conversation.get(placed.conversation) or self._by_conversation.get(family)
        ids = [(placed.group, name) for name in (placed.ids.parent, placed.ids.session, placed.ids.agent) if name]
        run = run or next((self._by_id[key] for key in ids if key in self._by_id), None)
        if run is None and placed.kind == "side" and not ids:
            run = self._side
        if run is None:
            run = RunBeingTold(self._runs_dir, passed)
            self._names.append(run.folder.name)
            self._runs[id(run)] = run
            self._side = run if placed.kind == "side" and not ids else self._side
        for key in ids:
            self._by_id.setdefault(key, run)
        run.conversations.add(placed.conversation)
        self._by_conversation[placed.conversation] = run
        self._runs.move_to_end(id(run))
        return run

    def _forgotten(self, run: RunBeingTold) -> RunBeingTold:
        """Remove a run from the lookup tables and return it."""
        del self._runs[id(run)]
        self._side = None if run is self._side else self._side
        for number in run.conversations:
            self._by_conversation.pop(number, None)
        self._by_id = {key: other for key, other in self._by_id.items() if other is not run}
        self._forget(run.conversations)
        return run

    def _scrubbed(self, passed: P, keys: tuple[str, ...]) -> P:
        """Replace the request's keys, the environment's keys, and anything shaped like a key."""
        scrubber = self._scrubber(keys)
        spelled = msgspec.json.encode(passed)
        if not _holds(scrubber, spelled):
            return passed
        return msgspec.convert(scrub_value(msgspec.json.decode(spelled), scrubber.scrub), type(passed))

    def _scrubber(self, keys: tuple[str, ...]) -> Scrubber:
        with self._lock:
            scrubber = self._scrubbers.get(keys)
            if scrubber is None:
                own = {f"GATEWAY_API_KEY_{number}": key for number, key in enumerate(keys)}
                scrubber = self._scrubbers[keys] = Scrubber({**self._environ, **own})
                if len(self._scrubbers) > 64:
                    self._scrubbers.popitem(last=False)
            return scrubber


def _holds(scrubber: Scrubber, spelled: bytes) -> bool:
    """Return whether a secret may be present; searches overlapping pieces so that other threads can run."""
    starts = range(0, len(spelled), _PIECE_BYTES)
    pieces = (spelled[start : start + _PIECE_BYTES + _LONGEST_SECRET].decode("utf-8", "ignore") for start in starts)
    return any(scrubber.holds(piece) for piece in pieces)
