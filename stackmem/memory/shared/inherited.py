"""The conversation of a frame that goes on from its parent's, as the parent left it when it pushed.

The parent's messages stand first, to the byte; what opens the frame is the answer to the parent's own push call. So the
provider's cache holds all but the opening, and once the frame has popped, the parent goes on from where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec.structs import replace

from stackmem.core.heap import Heap
from stackmem.core.log import Log
from stackmem.core.messages import ToolResult, View
from stackmem.core.state import Frame, State

from .constants import run_constants
from .conversation import Conversation, extend, rolling_breakpoints
from .opening import first_parts


def inherited_view(
    state: State,
    name: str,
    opening: Callable[[Frame], str],
    news: Callable[[Heap, Heap], str],
) -> View:
    """The prompt with the running frame's conversation, those of the frames above it first.

    Args:
        name: The strategy's; tells its conversations from others.
        opening: What opens a frame.
        news: As ``Conversation.news``.
    """
    start = state.begun
    constants, thoughts = run_constants(start), start.thinking == "kept"
    key: Hashable = (name, constants, thoughts)
    conversation: Conversation | None = None
    shared = 1
    for frame in state.stack:
        if conversation is None or not frame.call_id:  # a program's frame is no answer to a call
            parts = first_parts(constants, frame, opening(frame))
            shared = len(parts) - 1
            begun = Conversation(Log(), parts, frame.opened, frame.opened, news, thoughts)
        else:
            answer = ToolResult(frame.call_id, opening(frame))
            begun = replace(conversation, parts=(*conversation.parts, answer), shown=frame.opened, heap=frame.opened)
        conversation = frame.turns.fold(extend, begun, key)
    if conversation is None:
        raise IndexError("no frame is running")
    messages = conversation.close().messages
    marks = rolling_breakpoints(messages, len(messages[-1].parts), shared_parts=shared)
    return View(start.system, start.tools, messages, marks)
