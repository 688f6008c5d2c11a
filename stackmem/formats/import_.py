"""Import another agent's recording as a run that can be viewed, measured and costed, but not replayed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from stackmem.core.errors import UsageError
from stackmem.core.machine import evolve
from stackmem.core.messages import Usage
from stackmem.core.pricing import Answerer, Price, cost_usd
from stackmem.core.state import State
from stackmem.foreign.databases import MAX_DATABASE_BYTES, SQLITE_START
from stackmem.foreign.files import digest_of_regular, read_regular, read_start
from stackmem.foreign.private import write_json
from stackmem.formats.recordings import IMPORTERS, guess, is_sqlite
from stackmem.formats.recordings.facts import TimedFact, facts
from stackmem.formats.recordings.session import RecordedReply, RecordedSession, RecordedSummary, RecordingFile
from stackmem.models.catalog import lookup
from stackmem.run.assemble import scrubber_of
from stackmem.run.result import RunResult, write_result
from stackmem.run.run_folder import RESULT, RUN, TRACE, new_run, removed_on_failure
from stackmem.trace.imported import IMPORTED, by_format
from stackmem.trace.long_work import counted
from stackmem.trace.store import TraceWriter
from stackmem.workspace.secrets import scrubbed_struct

MAX_RECORDING_BYTES = 1 << 30


class ImportedRun(Struct, frozen=True):
    """The result of an import, which is also the content of ``imported.json``."""

    run: str
    run_dir: str
    origin: str  # the format, and the program that wrote the recording
    file: str  # path of the recording
    sha256: str  # of the file
    session: str
    models: tuple[str, ...]  # every model that replied, in order of first reply
    steps: int
    frames: int
    usage: Usage
    # From the known prices of the models; if one is unknown, from the recording; otherwise None.
    cost_usd: float | None
    recorded_usd: float | None  # the total cost that the recording states
    left_out: tuple[str, ...]  # content of the recording that the trace does not contain, one sentence each
    strategy: str = ""  # the memory strategy that the recording names; empty if it names none


def import_file(file: Path, spelled: str | None, runs_dir: Path, session_id: str = "") -> tuple[ImportedRun, ...]:
    """Import each session of the file as a new run, without the secrets in it.

    ``spelled`` is the format; None detects it from the content. ``session_id`` is the only session to import; empty
    imports all. Raise UsageError if the file cannot be read or does not match its format. The failed session leaves no
    files. Raise TraceError if a trace cannot be written.
    """
    if spelled is not None and spelled not in IMPORTERS:
        raise UsageError(f"no format {spelled!r}; known: {', '.join(sorted(IMPORTERS))}")
    content, scrub = _read(file), scrubber_of(os.environ).scrub
    sha256, imported_runs = _digest(file, content), []
    try:
        format_name, sessions = _sessions(file, content, spelled, session_id)
        if not any(True for session in sessions for _ in session.replies()):
            raise UsageError(
                f"{file} has the format {format_name}, but no reply of a model; there is nothing to import"
            )
        for number, session in enumerate(sessions, 1):
            work = f"facts of session {number:,} of {len(sessions):,}"
            run_dir = new_run(runs_dir, scrub(session.name or session.id), format_name)
            with removed_on_failure(run_dir):
                imported_runs.append(_keep(session, file, sha256, run_dir, scrub, work))
    except RecursionError as error:
        raise UsageError(f"{file} nests agents too deeply; import a part of it") from error
    return tuple(imported_runs)


def sessions_of(file: Path) -> Iterator[tuple[RecordedSession, tuple[TimedFact, ...]]]:
    """Yield the sessions of a recording with their facts, without storing them.

    Raise UsageError if the file cannot be read, or its format is unknown.
    """
    try:
        for session in read_sessions(file):
            yield session, facts_of(session)
    except RecursionError as error:
        raise UsageError(f"{file} nests agents too deeply; import a part of it") from error


def read_sessions(file: Path) -> list[RecordedSession]:
    """Return the sessions of a recording."""
    return _sessions(file, _read(file), None)[1]


def facts_of(session: RecordedSession) -> tuple[TimedFact, ...]:
    """Return the facts of a session, with the prices of its models."""
    return tuple(_facts(session))


def _sessions(
    file: Path, content: bytes, spelled: str | None, session_id: str = ""
) -> tuple[str, list[RecordedSession]]:
    """Return the name of the format and the sessions. A session without a task name gets the file's name."""
    recording = RecordingFile(content, str(file), lambda: _subagents(file), file, session_id)
    format_name = spelled or guess(recording)
    sessions = IMPORTERS[format_name](recording)
    if session_id:
        sessions = [session for session in sessions if session.id == session_id]
        if not sessions:
            raise UsageError(f"{file} does not contain a session {session_id!r} with a reply; name another one")
    for session in sessions:
        session.name = session.name or file.name.split(".", 1)[0]
    return format_name, sessions


def _read(file: Path) -> bytes:
    """Return the content of a file; of a database only its first bytes."""
    try:
        start = read_start(file, len(SQLITE_START))
        return start if is_sqlite(start) else read_regular(file, MAX_RECORDING_BYTES)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); name the recording's file") from error


def _digest(file: Path, content: bytes) -> str:
    if not is_sqlite(content):
        return hashlib.sha256(content).hexdigest()
    try:
        return digest_of_regular(file, MAX_DATABASE_BYTES)
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); name the recording's file") from error


def _subagents(file: Path) -> Iterator[tuple[str, str]]:
    """Yield a session's subagents, which Claude Code stores in ``SESSION/subagents/agent-ID.jsonl``."""
    for path in sorted((file.with_suffix("") / "subagents").glob("agent-*.jsonl")):
        yield path.stem.removeprefix("agent-"), _read(path).decode("utf-8-sig", "replace")


def _keep(
    session: RecordedSession, file: Path, sha256: str, run_dir: Path, scrub: Callable[[str], str], work: str
) -> ImportedRun:
    facts = counted((_scrubbed(fact, scrub) for fact in _facts(session)), work)
    state, seconds, writer = _write(facts, run_dir / TRACE)
    cost = _cost(session)
    imported = ImportedRun(
        run=run_dir.name,
        run_dir=str(run_dir),
        origin=session.origin,
        file=str(file.absolute()),
        sha256=sha256,
        session=session.id,
        models=tuple(dict.fromkeys(reply.model for reply in session.replies() if reply.model)),
        steps=state.step,
        frames=state.pushes,
        usage=state.usage,
        cost_usd=session.usd if cost is None else round(cost, 6),
        recorded_usd=session.usd,
        left_out=session.losses(),
        strategy=session.strategy,
    )
    imported = scrubbed_struct(imported, scrub)
    for name, value in ((IMPORTED, imported), (RUN, state.begun)):
        write_json(run_dir / name, value)
    write_result(_result(imported, state, seconds, writer), run_dir / RESULT)
    return imported


def _scrubbed(fact: TimedFact, scrub: Callable[[str], str]) -> TimedFact:
    return TimedFact(fact.at, scrubbed_struct(fact.event, scrub))


def _write(timed_facts: Iterable[TimedFact], trace: Path) -> tuple[State, float, TraceWriter]:
    """Write the trace. Returns the final state, the seconds from the first fact to the last, and the closed writer."""
    state, began, at = State(), 0.0, 0.0
    writer = TraceWriter(trace, lambda: at)
    try:
        for fact in timed_facts:
            at = fact.at
            began = began if state.start is not None else at
            state = evolve(state, fact.event)
            writer.append(fact.event)
        writer.sync()
    finally:
        writer.close()
    return state, max(0.0, at - began), writer


def _prices(session: RecordedSession) -> list[tuple[Usage, Price | None]]:
    """Return the usage of each reply and summary with the price of its model. Those without usage are skipped."""
    sessions = (session, *session.children())
    summaries = (turn.reply for each in sessions for turn in each.turns if isinstance(turn, RecordedSummary))
    replies = (*session.replies(), *summaries)
    used = [(reply.usage, lookup(reply.model)) for reply in replies if reply.usage.total]
    return [(usage, row.price if row else None) for usage, row in used]


def _facts(session: RecordedSession) -> Iterator[TimedFact]:
    """Yield the facts of a recording, under a single price if all replies share it, otherwise one per model."""
    prices = [price for _, price in _prices(session)]
    if all(price == prices[0] for price in prices):
        return facts(session, prices[0] if prices else None, _window(session))
    row = lookup(session.model)
    own = row.price if row else None

    def by(reply: RecordedReply) -> Answerer | UnsetType:
        if own is not None and reply.model in ("", session.model):
            return UNSET
        model_row = lookup(reply.model)
        return Answerer(reply.model or "unknown", *((model_row.price, model_row.window_tokens) if model_row else ()))

    return facts(session, own, _window(session), by)


def _cost(session: RecordedSession) -> float | None:
    costs = [cost_usd(usage, price) if price else None for usage, price in _prices(session)]
    known_costs = [cost for cost in costs if cost is not None]
    return sum(known_costs) if known_costs and len(known_costs) == len(costs) else None


def _window(session: RecordedSession) -> int:
    """Return the model's window. If it is unknown, return the length of the longest prompt."""
    row = lookup(session.model)
    return row.window_tokens if row else max((reply.usage.prompt for reply in session.replies()), default=0) or 1


def _result(imported: ImportedRun, state: State, seconds: float, writer: TraceWriter) -> RunResult:
    start, ended = state.begun, state.end
    return RunResult(
        run=imported.run,
        run_dir=imported.run_dir,
        task=start.task_name,
        model=start.model,
        strategy=imported.strategy or by_format(imported.origin),
        ending=ended.ending if ended else "interrupted",
        outcome=state.outcome,
        steps=state.step,
        frames=state.pushes,
        usage=state.usage,
        cost_usd=imported.cost_usd,
        wall_seconds=round(seconds, 3),
        isolation=start.isolation,
        result=ended.result if ended else "",
        workspace=start.workspace,
        records=writer.count,
        digest=writer.digest,
    )
