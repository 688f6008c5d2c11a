"""The facts of parallel frames, and the values in them.

Each frame of a group is a run of its own, forked from the parent's run at ``FramesPushed``. The parent's trace
records their results in push order, and then the merge.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..declarations import Voice
from ..messages import Usage
from ..text import quantity

MergeKind = Literal["merged", "marked", "beside", "kept", "restored"]


class ParallelFrame(Struct, frozen=True):
    """A frame of a group.

    Attributes:
        frame, name, intent, return_spec, constraint, context, missing: As in ``FramePushed``.
    """

    frame: str
    name: str
    intent: str
    return_spec: str
    constraint: str
    context: str
    missing: tuple[str, ...] = ()


class FramesPushed(Struct, frozen=True, tag=True):
    """Several child frames began, which run in parallel; their parent waits.

    Attributes:
        frames: The frames in push order.
        stored: As in ``FramePushed``.
    """

    frames: tuple[ParallelFrame, ...]
    stored: tuple[str, ...] = ()

    @property
    def voice(self) -> Voice:
        names = ", ".join(f"{each.frame} {each.name}" for each in self.frames)
        return Voice("frame", f"pushed in parallel: {names}", "\n".join(each.intent for each in self.frames))


class ReturnedChunk(Struct, frozen=True):
    """A chunk that a parallel frame stored or replaced."""

    name: str
    content: str
    description: str = ""
    source: str = ""
    digest: str = ""


class FrameReturned(Struct, frozen=True, tag=True):
    """A parallel frame ended. Recorded in push order, whichever frame ended first.

    Attributes:
        frame: Its id in the group.
        run: Id of its run, whose trace has its steps.
        digest: The digest of the last record of that run.
        ending: How that run ended: ``popped`` if the frame popped.
        text: The text that the parent reads.
        tree: Its files at the end, as an id in the history of that run.
        steps, usage, usd, unpriced: Its use, counted as in the state.
        chunks, freed: Its changes to the heap.
    """

    frame: str
    run: str
    digest: str
    ending: str
    text: str
    tree: str
    steps: int
    usage: Usage
    usd: float = 0.0
    unpriced: int = 0
    chunks: tuple[ReturnedChunk, ...] = ()
    freed: tuple[str, ...] = ()

    @property
    def voice(self) -> Voice:
        line = f"{self.frame} returned after {quantity(self.steps, 'step')} (run {self.run})"
        line = line if self.ending == "popped" else f"{line}: {self.ending}"
        return Voice("frame", line, self.text, failed=self.ending != "popped")


class MergedFile(Struct, frozen=True):
    """A file that two frames of a group changed, or a frame and its parent's other work.

    Attributes:
        frame: The later frame.
        kind: ``merged`` if their lines are merged; ``marked`` if the file has both versions between conflict markers;
            ``beside`` if the later version is in the file ``other``; ``kept`` if only the later frame deleted it, and
            ``restored`` if only the earlier one did: in both cases the changed version is there.
    """

    path: str
    frame: str
    kind: MergeKind
    other: str = ""


class FramesMerged(Struct, frozen=True, tag=True):
    """The files of a group of parallel frames were merged into the workspace, in push order.

    Attributes:
        tree, digests: As in ``ToolReturned``.
        files: The files that more than one side had changed.
    """

    tree: str
    digests: dict[str, str] = {}
    files: tuple[MergedFile, ...] = ()

    @property
    def voice(self) -> Voice:
        files = [each for each in self.files if each.kind != "merged"]
        conflicts = [f"conflict in {each.path}: {each.kind} (frame {each.frame})" for each in files]
        line = f"merged the frames, {quantity(len(conflicts), 'conflict')}" if conflicts else "merged the frames"
        return Voice("frame", line, "\n".join(conflicts), failed=bool(conflicts))


class ParallelGroup(Struct, frozen=True):
    """Parallel frames that are not merged yet.

    Attributes:
        frames: The frames in push order.
        tree: The workspace when they began.
        returned: The results of the first of them.
        opening: In a run that is one of these frames: its id, until it is pushed.
    """

    frames: tuple[ParallelFrame, ...]
    tree: str = ""
    returned: tuple[FrameReturned, ...] = ()
    opening: str = ""


class ParallelWork(Struct, frozen=True):
    """The part of a state about parallel frames.

    Attributes:
        group: The group that the running frame waits for.
        child: In a run that is a parallel frame: the id of this frame. Empty elsewhere.
        name, facts: Its name, and the number of model facts before it.
        steps: Steps of all parallel frames so far, which are in other runs.
    """

    group: ParallelGroup | None = None
    child: str = ""
    name: str = ""
    facts: int = 0
    steps: int = 0


ParallelEvent = FramesPushed | FrameReturned | FramesMerged
