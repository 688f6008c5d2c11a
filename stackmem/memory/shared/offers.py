"""Sets of tools that several strategies share, and tools with hidden fields or their own wording."""

from __future__ import annotations

from stackmem.core.tools import (
    END_RUN,
    RESULT_WORDS,
    Branch,
    HeapAlloc,
    HeapFree,
    HeapRead,
    HeapWrite,
    ListFiles,
    Offer,
    PopFrame,
    PushFrame,
    ReadFile,
    RunCommand,
    Tool,
    WriteFile,
)

WORKSPACE: tuple[Tool, ...] = (ReadFile, WriteFile, ListFiles, RunCommand)
ONE_FRAME: tuple[Tool, ...] = (*WORKSPACE, END_RUN)
HEAP: tuple[Tool, ...] = (HeapAlloc, HeapRead, HeapWrite, HeapFree)

_TASK_ALONE = (
    "Start a child frame for a phase of several steps. It sees only the task of the run, the context and the heap "
    "index; its result is the result of this call. Anything over a limit is refused."
)
_REGISTERS = ("objective", "return_spec", "constraint", "verify")

PUSH_UNSTORED = Offer(PushFrame, hidden=("store",))
PUSH_CONTEXT = Offer(PushFrame, hidden=_REGISTERS, text=_TASK_ALONE)
PUSH_BARE = Offer(PushFrame, hidden=(*_REGISTERS, "store"), text=_TASK_ALONE)
PUSH_CLEAN = Offer(
    PushFrame,
    hidden=("store",),
    text="Start a child frame for a phase of several steps. It sees only its registers and the context; its "
    "result is the result of this call. Anything over a limit is refused.",
    words=(("objective", "R0: what to do and how to verify it; at most {{intent_chars}} characters."),),
)
PUSH_FORK = Offer(
    PushFrame,
    text="Start a child frame for a phase of several steps. It continues from a copy of your conversation so far, with "
    "its own registers and context; you continue with only its result, which is the result of this call. Anything over "
    "a limit is refused.",
)
POP_UNSTORED = Offer(PopFrame, hidden=("store",))
POP_CLEAN = Offer(
    PopFrame,
    hidden=("store",),
    text="End your own conversation: it is discarded, and its result goes to whoever started it. At the root it ends "
    "the run.",
    words=(("result", RESULT_WORDS),),
)
READ_FRAMES = Offer(
    HeapRead,
    text="Load a chunk's content into this frame's conversation; it stays until the frame pops. With the name "
    "`frame:NAME`, show the excerpts of a popped frame's conversation that fit the query best, at most 4,000 "
    "characters.",
    words=(
        ("name", "Chunk name, as in the index; or frame:NAME, the name of a popped frame."),
        ("start_line", "First line of a chunk to show, from 1."),
        ("end_line", "Last line of a chunk to show."),
    ),
)


def inherits(tools: tuple[Tool, ...]) -> bool:
    """Return whether a child continues its parent's conversation."""
    return Branch in tools or PUSH_FORK in tools


PUSH_SHORT = Offer(PushFrame, text="Start a frame that sees only this, chunks it names and the index", spelled=True)
POP_SHORT = Offer(PopFrame, text="End the frame or run", spelled=True)
HEAP_SHORT: tuple[Tool, ...] = (
    Offer(HeapAlloc, text="Store", spelled=True),
    Offer(HeapRead, hidden=("start_line", "end_line"), text="Show; name `frame:` searches other frames", spelled=True),
    Offer(HeapWrite, hidden=("description", "source"), text="Replace", spelled=True),
    Offer(HeapFree, text="Delete", spelled=True),
)


_PUSH_ALONE = (
    "Start a child frame for a phase of several steps: from here on, work from the objective and the context in this "
    "call's answer, and from the heap. pop_frame ends it. Anything over a limit is refused."
)
_POP_ALONE = "End the open frame: its conversation no longer counts; its result and what it left on the heap do."


def without_workspace(push: Tool, pop: Tool) -> tuple[Offer, Offer]:
    """Return both tools for an external agent, whose commands stackmem does not run and whose steps it does not
    count.
    """
    begins, ends = (tool if isinstance(tool, Offer) else Offer(tool) for tool in (push, pop))
    words = (("result", "Chunk names, not data; at most {{result_chars}} characters."),)
    return (
        Offer(begins.call, (*begins.hidden, "constraint", "verify"), _PUSH_ALONE, begins.words),
        Offer(ends.call, ends.hidden, _POP_ALONE, words),
    )
