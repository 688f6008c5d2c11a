"""Replays a run from its folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET, Struct

from stackmem.run.result import TraceEnd
from stackmem.tools.plugins import load_plugins
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import sources_of
from stackmem.trace.verify import verify


class Replayed(Struct, frozen=True):
    """What a replay found to hold.

    Attributes:
        prompts: Prompt digests that were compared and are equal.
        outcome: ``running`` where the run was cut short.
        torn_bytes: Bytes after the last whole record.
        redacted_of: Of a redacted copy, the digest of the original's last record; else empty.
    """

    run: str
    events: int
    prompts: int
    same_rules: bool
    outcome: str
    steps: int
    frames: int
    torn_bytes: int
    redacted_of: str = ""


def replay_run(run_dir: Path) -> Replayed:
    """Verify every event and prompt of a run.

    Raises:
        TraceError: A line is broken, or the run's result was written after another trace than this one.
        RulesDiffer: The rules derive something else today.
    """
    load_plugins()
    reader = RunReader(run_dir)
    end = TraceEnd(run_dir)
    found = verify(end.passing(reader), sources_of(run_dir))
    end.refuse_other(found.state)
    state = found.state
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
        redacted_of=redacted.digest if redacted is not UNSET else "",
    )
