"""``replay --checks``: a run's verdict once more, in a fresh copy of the files that it ended with."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from stackmem.errors import UsageError
from stackmem.run.perform import judge
from stackmem.trace.open_run import Run

from .recorded_world import Recorded
from .rehearsal import rehearse


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
