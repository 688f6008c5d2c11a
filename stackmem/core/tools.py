"""The tools, one class each. The docstring is the description that the model reads; the schema comes from the fields.

Rule 1: The effects of a call are declared once, on its class, and every other module reads them there.
Rule 2: A strategy offers a complete tool, or an ``Offer`` that hides some of its fields or rewords it.

A parameter's description adds what its name and type do not say. Numbers are ``{{slots}}``, filled from the budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, get_args

from msgspec import Meta, Struct

from .conversation.calls import CompactContext, ConversationSearch, Expand
from .conversation.standing import Kind
from .declarations import Behavior
from .jobs.calls import JobCall, KeepJob
from .memory_directory import Memory
from .network import WebCall, WebFetch, WebSearch


class StoreEntry(Struct, frozen=True):
    """An entry of ``store``, with the parameters of ``heap_alloc``."""

    name: str
    content: str
    description: str = ""
    source: str = ""


RESULT_WORDS = "The result; at most {{result_chars}} characters, the root's {{root_result_chars}}."
Name = Annotated[str, Meta(description="Letters, digits, _ . - /; at most {{name_chars}}.")]
Store = Annotated[
    tuple[StoreEntry, ...],
    Meta(description="Chunks to store in this step, all or none; existing names are overwritten."),
]
Prompt = Annotated[
    str,
    Meta(description="What to do and how to verify it, where things are, what to report; at most 4,000 characters."),
]


class ReadFile(Struct, frozen=True, tag="read_file"):
    """Read a text file, or its lines start_line to end_line (from 1, inclusive). A long result is clipped in the
    middle.
    """

    behavior: ClassVar[Behavior] = Behavior(reads_files=True, hidden=("pages",))

    path: str
    start_line: int | None = None
    end_line: int | None = None
    pages: str = ""


class WriteFile(Struct, frozen=True, tag="write_file"):
    """Write a whole file; creates its folder."""

    behavior: ClassVar[Behavior] = Behavior(changes_files=True, repeatable=True, bounded="content")

    path: str
    content: str


class EditFile(Struct, frozen=True, tag="edit_file"):
    """Replace old_string, which must occur once in the file, with new_string; replace_all replaces every occurrence.
    Copy old_string exactly, with white space. Prefer it to write_file for small changes.
    """

    behavior: ClassVar[Behavior] = Behavior(changes_files=True, bounded="new_string")

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class SearchFiles(Struct, frozen=True, tag="search_files"):
    """Search files for a regular expression, line by line; skips ignored files. At most 100 matches."""

    behavior: ClassVar[Behavior] = Behavior(reads_files=True)

    pattern: str
    path: str = "."
    glob: Annotated[str, Meta(description="Only files like *.py or src/**/*.ts.")] = ""
    context: Annotated[int, Meta(description="Lines shown before and after each match.")] = 0


class ListFiles(Struct, frozen=True, tag="list_files"):
    """List a folder, two levels deep; without a path, the workspace."""

    behavior: ClassVar[Behavior] = Behavior(reads_files=True)

    path: str = "."


class RunCommand(Struct, frozen=True, tag="run_command"):
    """Run a bash command line in the workspace. After {{command_seconds}} seconds it and all its processes are
    killed. Returns output and errors together, clipped in the middle, and the exit code.
    """

    behavior: ClassVar[Behavior] = Behavior(reads_files=True, changes_files=True, hidden=("seconds", "background"))

    command: str
    seconds: int | None = None
    background: bool = False


class PushFrame(Struct, frozen=True, tag="push_frame"):
    """Start a child frame for a phase of several steps. It sees only its registers, the context and the heap
    index; its result is the result of this call. Anything over a limit is refused.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="starts", blank=("objective", "return_spec"))

    name: Name
    objective: Annotated[
        str,
        Meta(description="R0: what to do and how to verify it, naming chunks; at most {{intent_chars}} characters."),
    ]
    context: Annotated[str, Meta(description="Paths, constraints, pointers; at most {{context_chars}} characters.")]
    return_spec: Annotated[
        str, Meta(description="R1: what the result must report; at most {{return_chars}} characters.")
    ]
    constraint: Annotated[
        str,
        Meta(
            description="R3: limits to enforce, like 'steps=20 tokens=30k seconds=120', or free text; "
            "at most {{constraint_chars}} characters."
        ),
    ] = ""
    verify: Annotated[
        str,
        Meta(
            description="A command run at the pop; its exit code is added to the result; "
            "at most {{verify_chars}} characters."
        ),
    ] = ""
    store: Store = ()


class FrameOrder(Struct, frozen=True):
    """One frame of ``push_frames``, with the parameters of ``push_frame``."""

    name: Name
    objective: str
    context: str
    return_spec: str
    constraint: str = ""
    verify: str = ""


class PushFrames(Struct, frozen=True, tag="push_frames"):
    """Start several child frames that run in parallel, each in its own copy of the files and the heap. Their changes
    are merged in order once all have popped, and you continue with all results. Use it for parts that do not need
    each other's results and change different files.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="starts")

    frames: Annotated[tuple[FrameOrder, ...], Meta(description="The frames, each with the parameters of push_frame.")]
    store: Store = ()


class PopFrame(Struct, frozen=True, tag="pop_frame"):
    """End the running frame: its conversation is discarded, its result goes to the parent. Popping the root ends the
    run.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="ends", while_closing=True)

    result: Annotated[
        str,
        Meta(
            description="Chunk names, not data; at most {{result_chars}} characters, the root's {{root_result_chars}}."
        ),
    ]
    store: Store = ()


class HeapAlloc(Struct, frozen=True, tag="heap_alloc"):
    """Store a new chunk."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    name: Name
    content: str
    description: Annotated[
        str,
        Meta(description="Its line in the index: what a reader will find; at most {{description_chars}} characters."),
    ] = ""
    source: Annotated[
        str, Meta(description="Workspace file that it describes; if the file changes, the index marks the chunk STALE.")
    ] = ""


class HeapRead(Struct, frozen=True, tag="heap_read"):
    """Load a chunk, or its lines start_line to end_line, into this frame's conversation."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True, hidden=("query",))

    name: str
    query: Annotated[str, Meta(description="For frame:NAME only: words to search for; default: its last words.")] = ""
    start_line: int | None = None
    end_line: int | None = None


class HeapLoad(Struct, frozen=True, tag="heap_load"):
    """Load several whole chunks in one step, instead of one heap_read for each."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    names: tuple[str, ...]


class HeapWrite(Struct, frozen=True, tag="heap_write"):
    """Replace a chunk's content. An omitted description or source is kept; STALE is cleared."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    name: str
    content: str
    description: str | None = None
    source: str | None = None


class HeapFree(Struct, frozen=True, tag="heap_free"):
    """Delete a chunk."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    name: str


class Delegate(Struct, frozen=True, tag="delegate"):
    """Give a part of the work to a sub-agent with a clean conversation. It sees only its prompt; of its work
    you see only its result, as the result of this call, and the files it leaves. At most {{depth}} sub-agents deep.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="starts")

    name: Name
    prompt: Prompt


class Branch(Struct, frozen=True, tag="branch"):
    """Start a branch for a part of the work. It continues this conversation with the prompt; when it returns, all its
    steps are folded away, and you continue from here with its result as the result of this call.
    At most {{depth}} branches deep.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="starts")

    name: Name
    prompt: Prompt


class Return(Struct, frozen=True, tag="return"):
    """End the branch: its steps are folded away, and the main conversation keeps only its result. Outside a branch it
    ends the run.
    """

    behavior: ClassVar[Behavior] = Behavior(frame="ends", while_closing=True)

    result: Annotated[str, Meta(description=RESULT_WORDS)]


class HeapList(Struct, frozen=True, tag="heap_list"):
    """Show the heap index: each chunk's name, size, description and steps."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)


class AddNote(Struct, frozen=True, tag="add_note"):
    """Append a note to the scratchpad, which every prompt shows. Notes are never changed or removed; their total limit
    is {{heap_chars}} characters.
    """

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    text: Annotated[str, Meta(description="What to remember, short and true.")]


class Remember(Struct, frozen=True, tag="remember"):
    """Keep words of the user in every later prompt: a rule, a correction, a decision or a preference that outlives the
    request. Copy them exactly from the user's message.
    """

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    words: str
    kind: Kind = "rule"
    replaces: Annotated[int, Meta(description="Number of the entry that the user just contradicted.")] = 0


class Recall(Struct, frozen=True, tag="recall"):
    """Search everything said, done and found in this conversation, also what is not shown any more."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    query: str


class AskQuestion(Struct, frozen=True, tag="ask_user"):
    """Ask the user one question and wait for the answer. Ask only what you cannot find out and must know to go on."""

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    question: str
    options: Annotated[tuple[str, ...], Meta(description="Answers to choose from; the user may give another.")] = ()


WorkspaceCall = RunCommand | ReadFile | WriteFile | EditFile | SearchFiles | ListFiles | WebCall  # run/perform.py
HeapCall = HeapAlloc | HeapRead | HeapLoad | HeapWrite | HeapFree
StartCall = Delegate | Branch
"""Start a frame without registers, from a prompt."""
PopCall = PopFrame | Return
LookupCall = HeapList | AddNote | Expand | ConversationSearch | CompactContext | Memory | Remember | Recall | KeepJob
"""Answered by ``memory_tools.py`` from the state."""
Call = WorkspaceCall | JobCall | PushFrame | PushFrames | StartCall | PopCall | HeapCall | LookupCall | AskQuestion


class Offer(Struct, frozen=True):
    """A tool with hidden fields or its own wording."""

    call: type[Call]  # the tool
    hidden: tuple[str, ...] = ()  # fields that the model does not see. A call with one of them is refused
    text: str = ""  # the description for the model, in place of the docstring
    words: tuple[tuple[str, str], ...] = ()  # pairs of a field and its description, which replaces the original
    # list the fields after the text, as in ``{name, store[]?}``, with a schema that accepts any object, in a fifth of
    # the schema's tokens. The call is still checked
    spelled: bool = False


Tool = type[Call] | Offer
END_RUN = Offer(
    PopFrame,
    hidden=("store",),
    text="End the run with its result. Call it once the task is done and verified, or cannot be done.",
    words=(("result", "What was done, how it was verified, what is open; at most {{root_result_chars}} characters."),),
)


class Refusal(Struct, frozen=True):
    """Why a call is not made."""

    code: str  # one word per cause
    reason: str  # what is wrong
    way_out: str = ""  # what to do instead

    @property
    def text(self) -> str:
        """The text that the model reads."""
        joint = "" if not self.way_out else " " if self.reason.endswith(".") else "; "
        return f"{self.reason}{joint}{self.way_out}"


def tool_name(tool: Tool | Call) -> str:
    return str((tool.call if isinstance(tool, Offer) else tool).__struct_config__.tag)


CALLS: dict[str, type[Call]] = {tool_name(call): call for call in get_args(Call)}
"""Every tool by its name."""

OPTIONAL_TOOLS: dict[str, type[Call]] = {
    tool_name(kind): kind
    for kind in (EditFile, SearchFiles, AskQuestion, HeapLoad, Remember, Recall, WebFetch, WebSearch)
}
"""Tools that a strategy does not offer itself. A run offers those that its settings name, see ``RunStarted.tools``."""


def tools_that(holds: Callable[[Behavior], object]) -> frozenset[str]:
    """Return the names of the tools whose behavior satisfies a condition."""
    return frozenset(name for name, call in CALLS.items() if holds(call.behavior))
