"""Tools of the strategies beside ``stackheap``: the same rules as in ``calls.py``, a class each.

A class with the tag of another one is the same tool with less (or more) to it; a strategy offers one of them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .entries import Store

_Name = Annotated[str, Meta(description="Short name: letters, digits, _ . - / (at most {{name_chars}}).")]
_Pointed = Annotated[
    str,
    Meta(
        description="R0: what to accomplish and how to verify it, with heap pointers "
        "(at most {{intent_chars}} characters)."
    ),
]
_Objective = Annotated[
    str, Meta(description="R0: what to accomplish and how to verify it (at most {{intent_chars}} characters).")
]
_Context = Annotated[
    str, Meta(description="Paths, constraints, pointers; no large data (at most {{context_chars}} characters).")
]
_ReturnSpec = Annotated[str, Meta(description="R1: what the result must report (at most {{return_chars}} characters).")]
_Constraint = Annotated[
    str,
    Meta(
        description="R3: free text, or enforced limits such as 'steps=20 tokens=30k seconds=120' "
        "(at most {{constraint_chars}} characters)."
    ),
]
_Verify = Annotated[
    str,
    Meta(
        description="A command run when the frame pops; its exit code is stamped on the result "
        "(at most {{verify_chars}} characters)."
    ),
]
_Task = Annotated[
    str,
    Meta(description="What to do and how to verify it, where things are, what to report (at most 4,000 characters)."),
]
_Result = Annotated[
    str, Meta(description="The result (at most {{result_chars}} characters; the root's {{root_result_chars}}).")
]


class PushClean(Struct, frozen=True, tag="push_frame"):
    """Start a child frame with a clean conversation for a distinct phase of several steps. The child sees its
    registers and the context, and nothing of your conversation; its result comes back as the result of this call.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: _Name
    objective: _Objective
    context: _Context
    return_spec: _ReturnSpec
    constraint: _Constraint = ""
    verify: _Verify = ""


class PushUnstored(Struct, frozen=True, tag="push_frame"):
    """Start a child frame with a clean conversation for a distinct phase of several steps. The child sees its
    registers, the context and the heap index, and nothing of your conversation; its result comes back as the result of
    this call.
    Store on the heap what it needs before you push, and name the chunks in the objective.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: _Name
    objective: _Pointed
    context: _Context
    return_spec: _ReturnSpec
    constraint: _Constraint = ""
    verify: _Verify = ""


class PushContext(Struct, frozen=True, tag="push_frame"):
    """Start a child frame with a clean conversation for a distinct phase of several steps. The child sees the task of
    the run, the context and the heap index, and nothing of your conversation; its result comes back as the result of
    this call.
    Store on the heap what it needs, in this same call by `store`, and name the chunks in the context.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: _Name
    context: _Context
    store: Store = ()


class PushBare(Struct, frozen=True, tag="push_frame"):
    """Start a child frame with a clean conversation for a distinct phase of several steps. The child sees the task of
    the run, the context and the heap index, and nothing of your conversation; its result comes back as the result of
    this call.
    Store on the heap what it needs before you push, and name the chunks in the context.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: _Name
    context: _Context


class PushFork(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a distinct phase of several steps. The child goes on from a copy of your conversation, as
    it stands now, with registers and a context of its own; you go on with its result alone, which comes back as the
    result of this call.
    Store on the heap, in this same call by `store`, what frames other than the child will need.
    At most {{depth}} frames deep. Anything over its budget is refused.
    """

    name: _Name
    objective: _Pointed
    context: _Context
    return_spec: _ReturnSpec
    constraint: _Constraint = ""
    verify: _Verify = ""
    store: Store = ()


class Delegate(Struct, frozen=True, tag="delegate"):
    """Give a part of the work to a sub-agent with a clean conversation. It sees its prompt and nothing of your
    conversation; its result comes back as the result of this call, and you see nothing else of its work but the files
    it leaves. At most {{depth}} sub-agents deep.
    """

    name: _Name
    prompt: _Task


class Branch(Struct, frozen=True, tag="branch"):
    """Branch off for a part of the work. The branch goes on from this conversation with the prompt; when it returns,
    all its steps are folded away, and you go on from here with its result as the result of this call.
    At most {{depth}} branches deep.
    """

    name: _Name
    prompt: _Task


class PopClean(Struct, frozen=True, tag="pop_frame"):
    """End your own conversation: it is discarded, and the result goes to whoever started it. At the root it ends the
    run.
    """

    result: _Result


class PopUnstored(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded and the result goes to its parent. Popping the root ends the
    run. Store first whatever a later frame would have to find out again.
    """

    result: Annotated[
        str,
        Meta(
            description="Status, with heap pointers instead of data "
            "(at most {{result_chars}} characters; the root's {{root_result_chars}})."
        ),
    ]


class Return(Struct, frozen=True, tag="return"):
    """End the branch: its steps are folded away and its result is all that the main conversation keeps. Outside of any
    branch it ends the run.
    """

    result: _Result


class HeapList(Struct, frozen=True, tag="heap_list"):
    """Show the heap index: each chunk's name, size, description and steps."""


class HeapReadFrame(Struct, frozen=True, tag="heap_read"):
    """Load a chunk's content into this frame's conversation; it stays until the frame pops. With the name
    `frame:NAME`, show excerpts from the conversation of a popped frame: those that fit the query best, at most 4,000
    characters.
    """

    name: Annotated[str, Meta(description="Chunk name, as in the index; or frame:NAME, the name of a popped frame.")]
    query: Annotated[str, Meta(description="For frame:NAME only: words to look for; left out, its last words.")] = ""
    start_line: Annotated[int | None, Meta(description="First line of a chunk to show, from 1.")] = None
    end_line: Annotated[int | None, Meta(description="Last line of a chunk to show.")] = None


class AddNote(Struct, frozen=True, tag="add_note"):
    """Append a note to the scratchpad, which stands in every prompt. Notes are never changed or removed; together they
    hold {{heap_chars}} characters.
    """

    text: Annotated[str, Meta(description="What to remember, short and true.")]


class Expand(Struct, frozen=True, tag="expand"):
    """Show a shortened tool result again, whole as it was recorded."""

    index: Annotated[int, Meta(description="The number that stands where the result was.")]


MemoryCommand = Literal["view", "create", "str_replace", "insert", "delete", "rename"]


class Memory(Struct, frozen=True, tag="memory"):
    """Keep notes in the directory /memories, which outlives this conversation: at most 64 files with 100,000 characters
    together. Nothing of it is shown until you view it.
    view: a folder's files, or a file with line numbers. create: a new file with file_text. str_replace: old_str, which
    occurs once, by new_str. insert: insert_text after line insert_line (0 for the start). delete: a file or folder.
    rename: old_path to new_path.
    """

    command: Annotated[MemoryCommand, Meta(description="What to do.")]
    path: Annotated[str | None, Meta(description="Of all commands but rename: a path under /memories.")] = None
    file_text: Annotated[str | None, Meta(description="create: the file's text.")] = None
    old_str: Annotated[str | None, Meta(description="str_replace: text that occurs exactly once.")] = None
    new_str: Annotated[str | None, Meta(description="str_replace: what stands there from then on.")] = None
    insert_line: Annotated[int | None, Meta(description="insert: the line after which to insert, from 0.")] = None
    insert_text: Annotated[str | None, Meta(description="insert: the text.")] = None
    old_path: Annotated[str | None, Meta(description="rename: the path now.")] = None
    new_path: Annotated[str | None, Meta(description="rename: the path then.")] = None


PushLess = PushClean | PushUnstored | PushContext | PushBare | PushFork
Prompted = Delegate | Branch
PopLess = PopClean | PopUnstored | Return
LookupCall = HeapList | HeapReadFrame | AddNote | Expand | Memory
