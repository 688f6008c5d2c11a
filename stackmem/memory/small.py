"""The tools and prompt of a strategy for a small model: few tools with short descriptions, and a short prompt with one
example call.

The tools themselves are the strategy's; only their texts change. Memory tools are announced later
(``core/guidance/sizing.py``).
"""

from __future__ import annotations

from msgspec import Struct

from stackmem.core.strategy import MemoryStrategy
from stackmem.core.tools import (
    EditFile,
    HeapAlloc,
    HeapFree,
    HeapList,
    HeapLoad,
    HeapRead,
    HeapWrite,
    ListFiles,
    Offer,
    PopFrame,
    PushFrame,
    ReadFile,
    Recall,
    Remember,
    RunCommand,
    Tool,
    WriteFile,
    tool_name,
)

STRATEGIES_FOR_SMALL = ("adaptive", "full", "stackheap")
"""Strategies whose own prompt a small model can do without."""

_TOOLS: dict[str, Tool] = {
    tool_name(offer): offer
    for offer in (
        Offer(ReadFile, hidden=("pages",), text="Read a text file."),
        Offer(WriteFile, text="Write a whole file, new or old."),
        Offer(EditFile, text="Replace old_string with new_string; set replace_all if it recurs."),
        Offer(ListFiles, text="List the files of a folder."),
        Offer(RunCommand, hidden=("seconds", "background"), text="Run a bash command and read its output."),
        Offer(
            PopFrame,
            hidden=("store",),
            text="End the work. Call it last.",
            words=(("result", "What you changed, and how you tried it."),),
        ),
    )
}
_LATER = {
    tool_name(PushFrame): "Start a new conversation for a part of the work",
    tool_name(HeapAlloc): "Keep a fact under a name",
    tool_name(HeapRead): "Show what is kept under a name",
    tool_name(HeapWrite): "Change what is kept under a name",
    tool_name(HeapFree): "Forget what is kept under a name",
    tool_name(HeapList): "List what is kept",
    tool_name(HeapLoad): "Show what is kept under several names",
    tool_name(Remember): "Keep exact words of the user for all later requests",
    tool_name(Recall): "Search this conversation",
}


class SmallOffer(Struct, frozen=True):
    """The texts that a small model reads."""

    prompt: str  # name of the system prompt
    tools: tuple[Tool, ...]  # in every request
    later: tuple[Tool, ...]  # announced once half of the window is used


def has_small_size(strategy: MemoryStrategy) -> bool:
    return strategy.name.partition(":")[0] in STRATEGIES_FOR_SMALL


def small_offer(strategy: MemoryStrategy, optional: tuple[Tool, ...]) -> SmallOffer:
    """Return the offer for a strategy that has one."""
    every = (*strategy.tools, *optional)
    tools = sorted((tool for tool in every if tool_name(tool) not in _LATER), key=_ends)
    later = (tool for tool in every if tool_name(tool) in _LATER)
    edits = any(tool_name(tool) == tool_name(EditFile) for tool in optional)
    return SmallOffer(
        prompt="small+edit" if edits else "small",
        tools=tuple(_TOOLS.get(tool_name(tool), tool) for tool in tools),
        later=tuple(_in_one_line(tool) for tool in later),
    )


def _ends(tool: Tool) -> bool:
    """Return whether a tool ends the run. It is listed last."""
    return tool_name(tool) == tool_name(PopFrame)


def _in_one_line(tool: Tool) -> Offer:
    offer = tool if isinstance(tool, Offer) else Offer(tool, tool.behavior.hidden)
    return Offer(offer.call, offer.hidden, _LATER[tool_name(tool)], spelled=True)
