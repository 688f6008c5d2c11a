"""Replays a run from its folder, and lets its checks judge its final files again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import UNSET, Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.parallel.facts import FrameReturned, FramesPushed
from stackmem.run.perform import judge
from stackmem.run.plugins.loading import load_plugins
from stackmem.run.result import TraceEnd
from stackmem.run.run_folder import TRACE, frame_parent
from stackmem.trace.lineage import RunReader, begun_by
from stackmem.trace.lock import current_outcome
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.record import Record
from stackmem.trace.signatures import SignedRecords, Vouched
from stackmem.trace.store import TraceReader
from stackmem.trace.verify import FrameGroup, verify

from .recorded_world import Recorded, rehearse


class Replayed(Struct, frozen=True):
    """The result of a replay.

    Attributes:
        prompts: Number of prompt digests that were compared and are equal.
        outcome: ``running`` if the run has no end yet, ``interrupted`` if it has none and no process writes it.
        torn_bytes: Bytes after the last complete record.
        result_is_unread: Whether ``result.json`` exists but cannot be read, so that it was not compared.
        redacted_of: For a redacted copy, the digest of the original's last record. Otherwise empty.
        signed: The signatures that cover the run. None if they were not requested.
        parallel: Runs of parallel frames that were verified with it.
        missing_frames: Runs of parallel frames that no longer exist.
    """

    run: str
    events: int
    prompts: int
    same_rules: bool
    outcome: str
    steps: int
    frames: int
    torn_bytes: int
    result_is_unread: bool = False
    redacted_of: str = ""
    signed: Vouched | None = None
    parallel: int = 0
    missing_frames: tuple[str, ...] = ()


def replay_run(run_dir: Path, trusted: Mapping[str, str] | None = None) -> Replayed:
    """Verify every event and prompt of a run and of its parallel frames.

    ``trusted`` are trusted keys with their names. The run must be signed to its end by them. None requires no
    signature; existing signatures must still match the run. Raise TraceError if a line is broken, the run's result
    belongs to a different trace, a signature contradicts the run, a required signature is missing, or the run of a
    parallel frame is not the one that returned. Raise RulesDiffer if the rules derive something else today.
    """
    load_plugins()
    reader = RunReader(run_dir)
    end = TraceEnd(run_dir)
    records = end.passing(reader)
    signed = SignedRecords(run_dir, trusted)
    pushes: dict[int, str] = {}
    verified = verify(_noting_pushes(signed.passing(records, reader), reader, pushes), sources_of(run_dir))
    state = verified.state
    end.refuse_other(state)
    vouched = signed.vouched() if trusted is not None else None
    if trusted is None:
        signed.refuse_contradictions(ended=state.outcome != "running", unread=end.result_is_unread)
    redacted = state.begun.redacted
    # the frames of the original are not those of a redacted copy
    groups = verified.groups if redacted is UNSET else []
    returned = [(group, each) for group in groups for each in group.returned.values()]
    missing = tuple(each.run for group, each in returned if not _verify_frame(run_dir, each, group, pushes[group.at]))
    return Replayed(
        run=run_dir.name,
        events=verified.events,
        prompts=verified.prompts,
        same_rules=verified.same_rules,
        outcome=current_outcome(run_dir / TRACE, state.outcome),
        steps=state.step,
        frames=state.pushes,
        torn_bytes=reader.torn_bytes,
        result_is_unread=end.result_is_unread,
        redacted_of=redacted.digest if redacted is not UNSET else "",
        signed=vouched,
        parallel=len(returned) - len(missing),
        missing_frames=missing,
    )


def _noting_pushes(records: Iterable[Record], reader: RunReader, pushes: dict[int, str]) -> Iterator[Record]:
    """Pass the records on. ``pushes`` receives the digest of each record that pushed parallel frames."""
    for record in records:
        if isinstance(record.event, FramesPushed):
            pushes[record.seq] = reader.digest
        yield record


def _verify_frame(run_dir: Path, returned: FrameReturned, group: FrameGroup, digest: str) -> bool:
    """Verify the run of a parallel frame from its push on. Return False if that run no longer exists.

    Raise TraceError if the run is broken, or is not the one that returned. Raise RulesDiffer if the rules derive
    something else today.
    """
    folder = run_dir.resolve().parent / returned.run
    if not frame_parent(returned.run) or "/" in returned.run or not (folder / TRACE).is_file():
        return False
    fork = begun_by(folder)
    # a packed fork of the parent has the records before the push in the frame's own file
    own = fork is not None and (fork.at, fork.digest) == (group.at, digest)
    reader = TraceReader(folder / TRACE) if own else RunReader(folder)
    digests = set[str]()
    verify(_noting_digests(reader, digests), sources_of(folder), since=group.state if own else None)
    if returned.digest not in digests:
        raise TraceError(f"the run {folder.name} is not the parallel frame that returned; restore the original")
    return True


def _noting_digests(reader: TraceReader | RunReader, digests: set[str]) -> Iterator[Record]:
    for record in reader:
        digests.add(reader.digest)
        yield record


class ChecksAgain(Struct, frozen=True):
    """The verdict of the checks on a run's final files today.

    Attributes:
        isolation: The current isolation level.
        recorded, now: Rewards by name. Empty if the checks gave none.
        error: Why they gave no verdict now. Otherwise empty.
        missing: Dependency folders that no longer exist and were missing from the workspace.
    """

    run: str
    isolation: str
    recorded: dict[str, float]
    now: dict[str, float]
    error: str = ""
    missing: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return self.recorded == self.now and not self.error


def replay_checks(run: Run, environ: Mapping[str, str]) -> ChecksAgain:
    """Judge a run again.

    Raises:
        UsageError: The run was not judged by checks, its task no longer exists, or it stored no files.
        TraceError: The trace is broken, or lacks its files.
        WorkspaceError: The workspace, or its isolation, is not available.
    """
    state, last = run.state, 0
    if state.checks is None:
        raise UsageError(f"{run.id} was not judged by checks; stackmem replay RUN verifies its trace")
    for record in run.records():
        last = record.seq
    with rehearse(run, state, last, environ, Recorded()) as opened:
        verdict = judge(opened.world)
        return ChecksAgain(
            run.id, opened.workspace.level, state.checks.rewards, verdict.rewards, verdict.error, opened.missing
        )
