"""The tools, one class each: the docstring is what the model reads, the schema derives from the fields.

A parameter's description says what the name and the type do not; one that needs none has none. Numbers stand as
``{{slots}}`` and are filled from the run's budgets; what has a budget names it as ``at most N``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


class StoreEntry(Struct, frozen=True):
    """The parameters of ``heap_alloc``, which say what each is."""

    name: str
    content: str
    description: str = ""
    source: str = ""


Name = Annotated[str, Meta(description="Letters, digits, _ . - /; at most {{name_chars}}.")]
Objective = Annotated[
    str, Meta(description="R0: what to do and how to verify it; at most {{intent_chars}} characters.")
]
PointedObjective = Annotated[
    str,
    Meta(description="R0: what to do and how to verify it, naming chunks; at most {{intent_chars}} characters."),
]
Context = Annotated[str, Meta(description="Paths, constraints, pointers; at most {{context_chars}} characters.")]
ReturnSpec = Annotated[str, Meta(description="R1: what the result must report; at most {{return_chars}} characters.")]
Constraint = Annotated[
    str,
    Meta(
        description="R3: limits to enforce, like 'steps=20 tokens=30k seconds=120', or free text; "
        "at most {{constraint_chars}} characters."
    ),
]
Verify = Annotated[
    str,
    Meta(
        description="A command run at the pop; its exit code is stamped on the result; "
        "at most {{verify_chars}} characters."
    ),
]
Store = Annotated[
    tuple[StoreEntry, ...],
    Meta(description="Chunks to store in this step, all or none; existing names are overwritten."),
]
Prompt = Annotated[
    str,
    Meta(description="What to do and how to verify it, where things are, what to report; at most 4,000 characters."),
]
Result = Annotated[
    str, Meta(description="The result; at most {{result_chars}} characters, the root's {{root_result_chars}}.")
]
PointedResult = Annotated[
    str,
    Meta(description="Chunk names, not data; at most {{result_chars}} characters, the root's {{root_result_chars}}."),
]
ChunkLine = Annotated[
    str, Meta(description="Its line in the index: what a reader will find; at most {{description_chars}} characters.")
]
Source = Annotated[
    str, Meta(description="Workspace file that it describes; once that changes, the index marks the chunk STALE.")
]


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a text file, whole or its lines start_line to end_line (from 1, inclusive). A long result is clipped in
    the middle.
    """

    path: str
    start_line: int | None = None
    end_line: int | None = None


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Write a whole file; its folder must exist."""

    path: str
    content: str


class ListFiles(Struct, frozen=True, tag="list_files"):
    """List a folder, two levels deep; without a path, the workspace."""

    path: str = "."


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a bash command line in the workspace. After {{command_seconds}} seconds it and all that it started
    are killed. Output and errors come together, clipped in the middle, with the exit code.
    """

    command: str


class PushFrame(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees its registers, the context and the heap index, nothing
    else; its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    objective: PointedObjective
    context: Context
    return_spec: ReturnSpec
    constraint: Constraint = ""
    verify: Verify = ""
    store: Store = ()


class PopFrame(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded, its result goes to the parent. Popping the root ends the
    run.
    """

    result: PointedResult
    store: Store = ()


class EndRun(Struct, frozen=True, tag="pop_frame"):
    """End the run with its result. Call it once the task is done and verified, or cannot be done."""

    result: Annotated[
        str,
        Meta(description="What was done, how it was verified, what is open; at most {{root_result_chars}} characters."),
    ]


class HeapAlloc(Struct, frozen=True, tag="heap_alloc"):
    """Store a new chunk."""

    name: Name
    content: str
    description: ChunkLine = ""
    source: Source = ""


class HeapRead(Struct, frozen=True, tag="heap_read"):
    """Load a chunk, or its lines start_line to end_line, into this frame's conversation."""

    name: str
    start_line: int | None = None
    end_line: int | None = None


class HeapWrite(Struct, frozen=True, tag="heap_write"):
    """Replace a chunk's content. A description or source that is left out stays; STALE is cleared."""

    name: str
    content: str
    description: str | None = None
    source: str | None = None


class HeapFree(Struct, frozen=True, tag="heap_free"):
    """Delete a chunk."""

    name: str


class PushClean(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees its registers and the context, nothing else;
    its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    objective: Objective
    context: Context
    return_spec: ReturnSpec
    constraint: Constraint = ""
    verify: Verify = ""


class PushUnstored(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees its registers, the context and the heap index, nothing
    else; its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    objective: PointedObjective
    context: Context
    return_spec: ReturnSpec
    constraint: Constraint = ""
    verify: Verify = ""


class PushContext(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees the task of the run, the context and the heap index,
    nothing else; its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    context: Context
    store: Store = ()


class PushBare(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees the task of the run, the context and the heap index,
    nothing else; its result comes back as the result of this call. Anything over budget is refused.
    """

    name: Name
    context: Context


class PushFork(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It goes on from a copy of your conversation as it stands, with
    registers and a context of its own; you go on with its result alone, which comes back as the result of this call.
    Anything over budget is refused.
    """

    name: Name
    objective: PointedObjective
    context: Context
    return_spec: ReturnSpec
    constraint: Constraint = ""
    verify: Verify = ""
    store: Store = ()


class Delegate(Struct, frozen=True, tag="delegate"):
    """Give a part of the work to a sub-agent with a clean conversation. It sees its prompt and nothing of your
    conversation; its result comes back as the result of this call, and you see nothing else of its work but the files
    it leaves. At most {{depth}} sub-agents deep.
    """

    name: Name
    prompt: Prompt


class Branch(Struct, frozen=True, tag="branch"):
    """Branch off for a part of the work. The branch goes on from this conversation with the prompt; when it returns,
    all its steps are folded away, and you go on from here with its result as the result of this call.
    At most {{depth}} branches deep.
    """

    name: Name
    prompt: Prompt


class PopClean(Struct, frozen=True, tag="pop_frame"):
    """End your own conversation: it is discarded, and the result goes to whoever started it. At the root it ends the
    run.
    """

    result: Result


class PopUnstored(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded, its result goes to the parent. Popping the root ends the
    run.
    """

    result: PointedResult


class Return(Struct, frozen=True, tag="return"):
    """End the branch: its steps are folded away and its result is all that the main conversation keeps. Outside of any
    branch it ends the run.
    """

    result: Result


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
WorkspaceCall = ReadFile | WriteFile | ListFiles | RunCommand
HeapCall = HeapAlloc | HeapRead | HeapWrite | HeapFree
PushCall = PushFrame | PushLess
PopCall = PopFrame | EndRun | PopLess
Call = WorkspaceCall | PushCall | Prompted | PopCall | HeapCall | LookupCall


def tool_name(call: type[Call] | Call) -> str:
    return str(call.__struct_config__.tag)
