"""The tools for what a conversation no longer shows, and the one that shortens it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from ..declarations import Behavior


class Expand(Struct, frozen=True, tag="expand"):
    """Show a shortened tool result in full, as it was recorded."""

    behavior: ClassVar[Behavior] = Behavior()

    index: Annotated[int, Meta(description="The number shown where the result was.")]


class ConversationSearch(Struct, frozen=True, tag="conversation_search"):
    """Search all of this conversation, including what is no longer shown; returns the best passages, oldest first."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    query: Annotated[str, Meta(description="Words to search for.")]


class CompactContext(Struct, frozen=True, tag="compact_context"):
    """Replace all of this conversation before this call, except the task, by a summary."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    summary: Annotated[str, Meta(description="All that later steps need; at most 16,000 characters.")]
