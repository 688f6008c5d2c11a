"""Inspecting any trace with a valid chain raises only documented errors."""

import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stackmem import StackmemError
from stackmem.core.budgets import Limits
from stackmem.core.facts import (
    CallRejected,
    ChecksReturned,
    ChunkAllocated,
    ChunkFreed,
    ChunkRead,
    ChunkSet,
    ClockRead,
    FramePopped,
    FramePushed,
    NoticeGiven,
    RunEnded,
    RunForked,
    RunResumed,
    ToolReturned,
    VerifyReturned,
)
from stackmem.review.diff import diff_runs
from stackmem.review.kept.pack import pack
from stackmem.review.step_view import view_step
from stackmem.trace.open_run import Run
from tests.build import alloc, call, do, failed, pop, push, reply, started
from tests.trace.kept import keep

EVENTS = st.lists(
    st.sampled_from(
        [
            alloc("spec"), push(), pop(), do("heap_read", name="spec"), do("run_command", command="x"), failed(),
            reply("no call"), reply(call("pop_frame")), ChunkAllocated("spec", 12), ChunkRead("gone", 1),
            ChunkFreed("spec", 1), FramePushed("frame-1", "child", "", "", "", ""), FramePopped("frame-1", "x"),
            FramePopped("frame-0", "x"), ToolReturned("out", tree="0" * 40), ToolReturned("out", tree="../x"),
            VerifyReturned("exit 0", ""), CallRejected("closed", "no"), NoticeGiven("window", "full"), ClockRead(3.0),
            ChecksReturned({"reward": 1.0}), RunEnded("popped", "x"), RunEnded("interrupted", ""),
            RunResumed(Limits(), "bubblewrap", "0"), started(strategy="full"), started(),
            RunForked("other", 3, "0" * 64, started("full"), (ChunkSet("a", "b"),), ("spec",)),
        ]
    ),
    max_size=12,
)  # fmt: skip


@given(EVENTS, EVENTS, st.booleans())
def test_looking_at_any_records_raises_only_what_is_documented(events, others, headless):
    with tempfile.TemporaryDirectory() as place:
        run = Run(keep(Path(place) / "a", events if headless else [started(), *events]))
        other = Run(keep(Path(place) / "b", [started(), *others]))
        for look in (
            lambda: list(run.steps),
            lambda: run.frames,
            lambda: run.cost,
            lambda: run.state,
            lambda: [view_step(run, step) for step in range(1, 4)],
            lambda: [run.files_at(step).keys() for step in range(4)],
            lambda: [run.prompt(step).digest for step in range(1, 4)],
            lambda: diff_runs(run, other),
            lambda: pack(run.folder, Path(place) / "x.zip"),
        ):
            with suppress(StackmemError):
                look()
