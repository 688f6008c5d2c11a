"""Sets of tools that several strategies share, and tools with hidden fields or their own wording."""

from __future__ import annotations

from stackmem.core.tools import (
    END_RUN,
    RESULT_WORDS,
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
    "Start a child frame for a phase of several steps. It sees the task of the run, the context and the heap index, "
    "nothing else; its result comes back as the result of this call. Anything over budget is refused."
)
_REGISTERS = ("objective", "return_spec", "constraint", "verify")

PUSH_UNSTORED = Offer(PushFrame, hidden=("store",))
PUSH_CONTEXT = Offer(PushFrame, hidden=_REGISTERS, text=_TASK_ALONE)
PUSH_BARE = Offer(PushFrame, hidden=(*_REGISTERS, "store"), text=_TASK_ALONE)
PUSH_CLEAN = Offer(
    PushFrame,
    hidden=("store",),
    text="Start a child frame for a phase of several steps. It sees its registers and the context, nothing else; "
    "its result comes back as the result of this call. Anything over budget is refused.",
    words=(("objective", "R0: what to do and how to verify it; at most {{intent_chars}} characters."),),
)
PUSH_FORK = Offer(
    PushFrame,
    text="Start a child frame for a phase of several steps. It goes on from a copy of your conversation as it stands, "
    "with registers and a context of its own; you go on with its result alone, which comes back as the result of this "
    "call. Anything over budget is refused.",
)
POP_UNSTORED = Offer(PopFrame, hidden=("store",))
POP_CLEAN = Offer(
    PopFrame,
    hidden=("store",),
    text="End your own conversation: it is discarded, and the result goes to whoever started it. At the root it ends "
    "the run.",
    words=(("result", RESULT_WORDS),),
)
READ_FRAMES = Offer(
    HeapRead,
    text="Load a chunk's content into this frame's conversation; it stays until the frame pops. With the name "
    "`frame:NAME`, show excerpts from the conversation of a popped frame: those that fit the query best, at most 4,000 "
    "characters.",
    words=(
        ("name", "Chunk name, as in the index; or frame:NAME, the name of a popped frame."),
        ("start_line", "First line of a chunk to show, from 1."),
        ("end_line", "Last line of a chunk to show."),
    ),
)

PUSH_SHORT = Offer(PushFrame, text="Start a frame that sees only this, chunks it names and the index", spelled=True)
POP_SHORT = Offer(PopFrame, text="End the frame or run", spelled=True)
HEAP_SHORT: tuple[Tool, ...] = (
    Offer(HeapAlloc, text="Store", spelled=True),
    Offer(HeapRead, hidden=("start_line", "end_line"), text="Show; name `frame:` searches other frames", spelled=True),
    Offer(HeapWrite, hidden=("description", "source"), text="Replace", spelled=True),
    Offer(HeapFree, text="Delete", spelled=True),
)


_PUSH_ALONE = (
    "Start a child frame for a phase of several steps: from here on work by the objective and the context that this "
    "call answers with, and by the heap. pop_frame ends it. Anything over budget is refused."
)
_POP_ALONE = (
    "End the open frame: nothing that was said in it counts any more; its result, and what it left on the heap, do."
)


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
