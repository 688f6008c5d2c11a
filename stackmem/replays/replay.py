"""Replays a run from its folder, and lets its checks judge its final files again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import UNSET, Struct

from stackmem.errors import UsageError
from stackmem.run.perform import judge
from stackmem.run.result import TraceEnd
from stackmem.run.run_folder import TRACE
from stackmem.tools.plugins import load_plugins
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import current_outcome
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.signatures import SignedRecords, Vouched
from stackmem.trace.verify import verify

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


def replay_run(run_dir: Path, trusted: Mapping[str, str] | None = None) -> Replayed:
    """Verify every event and prompt of a run.

    Args:
        trusted: Trusted keys with their names. The run must be signed to its end by them. None requires no signature;
            existing signatures must still match the run.

    Raises:
        TraceError: A line is broken, the run's result belongs to a different trace, a signature contradicts the run, or
            a required signature is missing.
        RulesDiffer: The rules derive something else today.
    """
    load_plugins()
    reader = RunReader(run_dir)
    end = TraceEnd(run_dir)
    records = end.passing(reader)
    signed = SignedRecords(run_dir, trusted)
    verified = verify(signed.passing(records, reader), sources_of(run_dir))
    state = verified.state
    end.refuse_other(state)
    vouched = signed.vouched() if trusted is not None else None
    if trusted is None:
        signed.refuse_contradictions(ended=state.outcome != "running", unread=end.result_is_unread)
    redacted = state.begun.redacted
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
    )


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
