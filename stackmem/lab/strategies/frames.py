"""Variants of frames: ``fold``, ``isolated``, and ``stackheap`` with a part changed.

In ``fold`` and ``stackheap_fork`` a frame continues its parent's conversation from the moment of the push. Its prompt
begins with the parent's messages, byte by byte, and the frame's opening is the answer to the parent's push call. So the
provider's cache contains everything except the opening, and after the pop the parent continues from where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from msgspec.structs import replace

from stackmem.core.heap import Heap, index
from stackmem.core.messages import ToolResult, View
from stackmem.core.state import Frame, State
from stackmem.core.tools import END_RUN, Branch, Delegate, PopFrame, Return
from stackmem.memory.shared.constants import run_constants
from stackmem.memory.shared.conversation import (
    Conversation,
    Growing,
    extend,
    first_conversation,
    no_news,
    own_view,
    rolling_breakpoints,
)
from stackmem.memory.shared.offers import HEAP, POP_CLEAN, PUSH_CLEAN, PUSH_FORK, READ_FRAMES, WORKSPACE
from stackmem.memory.shared.opening import first_parts, opening, prompt_opening
from stackmem.memory.shared.parameters import parameters as parse
from stackmem.memory.stackheap import StackHeap, configured, heap_news


def stackheap_lossless(parameters: str) -> StackHeap:
    """``stackheap_lossless``: like ``stackheap``, and popped frames can still be searched.

    ``heap_read`` with the name ``frame:NAME`` and a query shows the passages of that frame's conversation that fit
    best. This recovers what clean frames lose, at the price of a call. It takes the parameters of ``stackheap``.
    Source: our own.
    """
    return configured("stackheap_lossless", parameters, READ_FRAMES, "+lossless")


def stackheap_fork(parameters: str) -> Growing:
    """``stackheap_fork``: like ``stackheap``, but a child continues a copy of its parent's conversation.

    A push loses no information, but every prompt of the child is as long as its parent's and its own together. Source:
    our own, ``stackheap`` with the branches of Context-Folding.
    """
    parse("stackheap_fork", parameters)
    return Growing("stackheap_fork", (*WORKSPACE, PUSH_FORK, PopFrame, *HEAP), _fork, "stackheap+inherits")


def _fork(state: State, name: str) -> View:
    budgets = state.begun.budgets
    return _inherited(
        state,
        name,
        lambda frame: opening(frame, budgets, index(frame.opened, budgets)),
        heap_news("on_change", budgets),
    )


def stack(parameters: str) -> Growing:
    """``stack``: frames with registers, without a heap. Compare it with ``stackheap`` to see what the heap adds.

    A child knows its registers, its context and what it finds in files. Only its result outlives it. Source: our own,
    an ablation of ``stackheap``.
    """
    parse("stack", parameters)
    return Growing("stack", (*WORKSPACE, PUSH_CLEAN, POP_CLEAN), _stack, "stack")


def _stack(state: State, name: str) -> View:
    return own_view(state, name, lambda: opening(state.running, state.begun.budgets))


def heap(parameters: str) -> Growing:
    """``heap``: the heap with its index, in a single frame. Compare it with ``stackheap`` to see what the stack adds.

    The conversation is never shortened, so chunks are only notes with a name. Source: our own, an ablation of
    ``stackheap``.
    """
    parse("heap", parameters)
    return Growing("heap", (*WORKSPACE, *HEAP, END_RUN), _heap, "heap")


def _heap(state: State, name: str) -> View:
    frame, budgets = state.running, state.begun.budgets
    news = heap_news("on_change", budgets)
    return own_view(state, name, lambda: f"TASK\n{frame.task}\n\n{index(frame.opened, budgets)}", news)


def isolated(parameters: str) -> Growing:
    """``isolated``: sub-agents with an empty conversation that see only their prompt; only the text of their result
    comes back.

    Source: the sub-agents of Claude Code and Codex. Their prompts are longer than a register (4,000 characters), and
    the only shared memory is files.
    """
    parse("isolated", parameters)
    return Growing("isolated", (*WORKSPACE, Delegate, POP_CLEAN), _isolated, "isolated")


def _isolated(state: State, name: str) -> View:
    return own_view(state, name, lambda: prompt_opening("SUB-AGENT", state.running, state.begun.budgets))


def fold(parameters: str) -> Growing:
    """``fold``: a branch continues the whole conversation before it, and is reduced to its result when it returns.

    Source: "Scaling Long-Horizon LLM Agent via Context-Folding" (2025): ``branch`` and ``return``; there the branch's
    prompt is appended to the main thread's context, and the main thread keeps only the returned result.
    """
    parse("fold", parameters)
    return Growing("fold", (*WORKSPACE, Branch, Return), _fold, "fold")


def _fold(state: State, name: str) -> View:
    return _inherited(state, name, lambda frame: prompt_opening("BRANCH", frame, state.begun.budgets), no_news)


def _inherited(
    state: State,
    name: str,  # the strategy's; distinguishes its conversations from others
    opening: Callable[[Frame], str],  # returns the opening of a frame
    news: Callable[[Heap, Heap], str],  # see ``Conversation.news``
) -> View:
    """Return the prompt with the running frame's conversation after those of its ancestors."""
    start = state.begun
    constants, thoughts = run_constants(start), start.thinking == "kept"
    key: Hashable = (name, constants, thoughts, start.budgets)
    conversation: Conversation | None = None

    def begin(frame: Frame, parent: Conversation | None) -> Conversation:
        if parent is None or not frame.call_id:  # a program's frame does not answer a call
            return first_conversation(
                first_parts(constants, frame, opening(frame)), frame.opened, news, thoughts=thoughts
            )
        answer = ToolResult(frame.call_id, opening(frame))
        return replace(parent, parts=(*parent.parts, answer), shown=frame.opened, heap=frame.opened)

    for frame in state.stack:
        conversation = frame.turns.fold_from(extend, partial(begin, frame, conversation), key)
    if conversation is None:
        raise IndexError("no frame is running")
    messages = conversation.close().messages
    marks = rolling_breakpoints(messages, len(messages[-1].parts), shared_parts=conversation.shared_parts)
    return View(start.system, start.tools, messages, marks)
