"""What the machine asks of the world. Each effect names the facts that can answer it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from .messages import View
from .tools import WorkspaceCall


class AskModel(Struct, frozen=True):
    """Ask for one reply. Answered by ``ModelReplied`` or ``ModelFailed``.

    Attributes:
        step: The step this reply will be, from 1.
        facts: Model facts (replies and failures) so far; a scripted model is a function of the request and this.
        attempt: 1 for the first try of this step.
        wait_seconds: What to wait before asking, without jitter.
        frame: Name of the running frame.
        depth: Its depth; the root is 0.
        chunks: Names of the chunks on the heap.
        model: The name of another model than the run's own; empty where its own is asked.

    """

    view: View
    step: int
    facts: int
    attempt: int = 1
    wait_seconds: float = 0.0
    frame: str = "root"
    depth: int = 0
    chunks: tuple[str, ...] = ()
    model: str = ""


class Compact(Struct, frozen=True):
    """Ask the model for a text that stands for a frame's conversation. Answered by ``ContextCompacted`` or
    ``ModelFailed``.

    Attributes:
        frame: Id of the running frame.
        up_to_step: The last reply that the text stands for, its answer included.

    """

    ask: AskModel
    frame: str
    up_to_step: int


class UseTool(Struct, frozen=True):
    """Perform a workspace call. Answered by ``ToolReturned``.

    Attributes:
        shown_bytes: The result's text is clipped to so many bytes of UTF-8.
        sources: Paths whose digests the answer carries.

    """

    call: WorkspaceCall
    shown_bytes: int
    sources: tuple[str, ...] = ()


class UseOwnTool(Struct, frozen=True):
    """Call a tool of the person's own, outside the workspace. Answered by ``ToolReturned``.

    Attributes:
        shown_bytes, sources: As in ``UseTool``.

    """

    name: str
    arguments: dict[str, Any]
    shown_bytes: int
    sources: tuple[str, ...] = ()


class Verify(Struct, frozen=True):
    """Run a frame's verify command. Answered by ``VerifyReturned``."""

    command: str
    sources: tuple[str, ...] = ()


class DigestSources(Struct, frozen=True):
    """Take the digests of files that chunks describe. Answered by ``SourcesDigested``."""

    sources: tuple[str, ...]


class ReadClock(Struct, frozen=True):
    """Read the run's wall time. Answered by ``ClockRead``."""


class RunChecks(Struct, frozen=True):
    """Let the task's own checks judge the workspace. Answered by ``ChecksReturned``."""


Effect = AskModel | Compact | UseTool | UseOwnTool | Verify | DigestSources | ReadClock | RunChecks
