"""Whether a run offers ``push_frames``, and how the model reads it."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from stackmem.core.errors import UsageError
from stackmem.core.messages import ToolSpec
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.tools import Offer, PushFrame, PushFrames, Tool, tool_name
from stackmem.settings.settings import Settings

from ..in_memory import MEMORY

_LEAST = 2


def parallel_offer(settings: Settings, strategy: MemoryStrategy) -> tuple[Tool, ...]:
    """Return the tool that starts several frames together, if the user wants it.

    Raise UsageError if it is not possible in this run.
    """
    most = settings.parallel_frames
    if not most:
        return ()
    if most < _LEAST:
        raise UsageError(f"--parallel-frames {most} is too small; pass at least {_LEAST}, or 0 for none")
    if settings.isolation == MEMORY:
        raise UsageError("--parallel-frames needs files on disk; omit --isolation memory")
    if settings.model == "human":
        raise UsageError("--parallel-frames asks for several replies at a time; choose another model than human")
    push = next((tool for tool in strategy.tools if tool_name(tool) == tool_name(PushFrame)), None)
    if push is None or (isinstance(push, Offer) and push.hidden):
        raise UsageError(
            f"the strategy {strategy.name} cannot start several frames together; omit --parallel-frames, or use "
            "--strategy stackheap"
        )
    text = f"{PushFrames.__doc__ or ''} At most {most} frames."
    return (Offer(PushFrames, text=" ".join(text.split())),)


def refuse_small(settings: Settings, model: str) -> None:
    """Refuse parallel frames in a run of the small size, which offers no frames at the start.

    Raise UsageError if the user wants parallel frames.
    """
    if settings.parallel_frames:
        raise UsageError(
            f"--parallel-frames needs the full size, and {model[:80]} gets the small one; pass --size full, or omit "
            "--parallel-frames"
        )


def most_frames(settings: Settings, tools: tuple[ToolSpec, ...]) -> int | UnsetType:
    """Return how many frames a run may start together, for ``RunStarted``."""
    offered = any(tool.name == tool_name(PushFrames) for tool in tools)
    return settings.parallel_frames if offered else UNSET
