"""Replays a run from its folder, and lets its checks judge once more what it left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import UNSET, Struct

from stackmem.errors import UsageError
from stackmem.run.perform import judge
from stackmem.run.result import TraceEnd
from stackmem.tools.plugins import load_plugins
from stackmem.trace.lineage import RunReader
from stackmem.trace.open_run import Run
from stackmem.trace.program import sources_of
from stackmem.trace.signatures import SignedRecords, Vouched
from stackmem.trace.verify import verify

from .recorded_world import Recorded, rehearse


class Replayed(Struct, frozen=True):
    """What a replay found to hold.

    Attributes:
        prompts: Prompt digests that were compared and are equal.
        outcome: ``running`` where the run was cut short.
        torn_bytes: Bytes after the last whole record.
        result_is_unread: Whether there is a ``result.json`` that cannot be read, so that nothing is held against it.
        redacted_of: Of a redacted copy, the digest of the original's last record; else empty.
        signed: Whose signatures vouch for it; None where nobody asked.
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
        trusted: Keys that must have signed it to its end, by name. None requires no signature; those that are there
            must still agree with the run.

    Raises:
        TraceError: A line is broken, the run's result was written after another trace than this one, a signature
            contradicts the run, or a required signature is missing.
        RulesDiffer: The rules derive something else today.
    """
    load_plugins()
    reader = RunReader(run_dir)
    end = TraceEnd(run_dir)
    records = end.passing(reader)
    signed = SignedRecords(run_dir, trusted)
    found = verify(signed.passing(records, reader), sources_of(run_dir))
    state = found.state
    end.refuse_other(state)
    vouched = signed.vouched() if trusted is not None else None
    if trusted is None:
        signed.refuse_contradictions(ended=state.outcome != "running", unread=end.result_is_unread)
    redacted = state.begun.redacted
    return Replayed(
        run=run_dir.name,
        events=found.events,
        prompts=found.prompts,
        same_rules=found.same_rules,
        outcome=state.outcome,
        steps=state.step,
        frames=state.pushes,
        torn_bytes=reader.torn_bytes,
        result_is_unread=end.result_is_unread,
        redacted_of=redacted.digest if redacted is not UNSET else "",
        signed=vouched,
    )


class ChecksAgain(Struct, frozen=True):
    """What the checks say today of a run's last files.

    Attributes:
        isolation: The level in force now.
        recorded, now: Rewards by name; empty where the checks gave none.
        error: Why they gave no verdict now; empty otherwise.
        missing: Dependency folders that are nowhere any more; the workspace was without them.
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
        UsageError: No checks judged the run, its task is gone, or it kept no files.
        TraceError: The trace is broken, or lacks its files.
        WorkspaceError: The workspace, or its isolation, cannot be had.
    """
    state, last = run.state, 0
    if state.checks is None:
        raise UsageError(f"no checks judged {run.id}; stackmem replay RUN verifies its trace")
    for record in run.records():
        last = record.seq
    with rehearse(run, state, last, environ, Recorded()) as opened:
        verdict = judge(opened.parts.world)
        return ChecksAgain(
            run.id, opened.parts.workspace.level, state.checks.rewards, verdict.rewards, verdict.error, opened.missing
        )
