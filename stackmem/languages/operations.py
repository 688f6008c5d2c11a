"""The operations that a program yields, and the answers it receives: the interface between languages and the machine.

A program is a generator. It yields an operation and receives its answer, or yields a note (an event of
``core.program_facts``) and receives None. It returns its value or raises ``Halted``. Replay runs it again with the
recorded answers, so it must be deterministic: it reads no clock, file or random number and never iterates over a set.

The operations that are effects (``InvokeTool LoadSource AskUser Wait``) are defined in ``core.requests``.
``languages.program`` settles the others with an event, from the state, or with another effect.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec import Struct

from stackmem.core.messages import Breakpoint, Message, Text, Usage
from stackmem.core.program_facts import Note, ToolFailure
from stackmem.core.requests import AskUser, InvokeTool, LoadSource, Wait

RUN_PROGRAM_TOOL = "run_program"
"""Name of the tool that runs another program; see ``languages.calling``."""


class ToolAnswer(Struct, frozen=True):
    """The result of a tool call."""

    # a JSON value. A command that failed with ``exit`` or was killed still has its output here
    value: Any = None
    failed: ToolFailure = ""  # kind of failure; empty on success
    detail: str = ""  # one sentence about the failure


class Complete(Struct, frozen=True):
    """Request one completion from the model, without tools. Answered by ``Completion``."""

    messages: tuple[Message, ...]  # the last one is the user's
    system: str = ""
    # JSON Schema for the reply. A reply that does not fit is rejected with its first fault and requested again, up to
    # three replies in all.
    schema: dict[str, Any] | None = None
    breakpoints: tuple[Breakpoint, ...] = ()  # where the provider may cache; see ``core.messages``
    name: str = ""  # short purpose of the request; a script may match it as the frame's name
    model: str = ""  # name of another model, in the format of ``--model``; empty for the run's own model


class Completion(Struct, frozen=True):
    """The model's reply."""

    text: str
    value: Any = None  # the parsed reply, if a schema was given
    stop: str = "end"  # stop reason, as in ``ModelReplied``
    # ``misfit`` (three replies did not fit the schema), ``window`` (the prompt exceeds the model's window),
    # ``truncated`` or ``refused``; otherwise empty. Any other provider failure ends the run.
    failed: str = ""
    detail: str = ""
    usage: Usage = Usage()


class RunFrame(Struct, frozen=True):
    """Delegate work to the agent in a new frame, under the run's strategy. Answered by ``FrameAnswer``."""

    name: str
    task: str  # the complete task
    inputs: dict[str, Any] = {}  # name to value, shown in the frame's first message
    returns: str = ""  # description of the result in words
    schema: dict[str, Any] | None = None  # JSON Schema for the result
    using: tuple[str, ...] = ()  # hints on how to do the work
    model: str = ""  # as in ``Complete``; frames pushed from this frame inherit it


class ReplyRefused(Struct, frozen=True):
    """A completion's reply did not fit its schema and is requested again. Listeners receive it; the trace does not."""

    name: str
    fault: str


class FrameAnswer(Struct, frozen=True):
    """The result of a frame."""

    result: str
    value: Any = None  # the parsed result, if a schema was given
    failed: str = ""  # ``misfit``, ``window``, ``constraint`` or ``stalled``; ``result`` is then the frame's last text
    detail: str = ""
    plan: str = ""  # text of the frame's first reply


class EnterFrame(Struct, frozen=True):
    """Push one of the program's own frames onto the shared stack, so that its completions count there.

    Receives None.
    """

    name: str
    intent: str


class LeaveFrame(Struct, frozen=True):
    """Pop the frame that was pushed last. Receives None."""

    result: str


class Say(Struct, frozen=True):
    """Print a text for the user. Receives None."""

    text: str


class Source(Struct, frozen=True):
    """A loaded source file."""

    path: str  # absolute, in the form a later ``beside`` expects
    text: str = ""
    digest: str = ""
    failed: str = ""  # why the source could not be read; empty on success


class KeepChunk(Struct, frozen=True):
    """Store a chunk on the heap, replacing a chunk of the same name. Answered by ``ChunkAnswer``."""

    # Characters that are not allowed in a chunk name become ``_``. The operation fails if the result equals the chunk
    # name of another name.
    name: str
    content: str
    description: str = ""
    source: str = ""  # the workspace file that the chunk describes, if any


class ReadChunk(Struct, frozen=True):
    """Read a chunk, including one that the agent stored. Answered by ``ChunkAnswer``."""

    name: str


class ReadHistory(Struct, frozen=True):
    """Read the conversation of the agent that called the program. Answered by a tuple of ``HistoryStep``."""


class HistoryStep(Struct, frozen=True):
    """A reply of the agent with its answer, as they were recorded."""

    step: int
    reply: str  # text and calls
    results: str  # also what the user said


class DropChunk(Struct, frozen=True):
    """Remove a chunk from the heap. Answered by ``ChunkAnswer``."""

    name: str


class ListChunks(Struct, frozen=True):
    """List the heap. Receives a tuple of ``(name, characters, description)`` in allocation order."""


class ChunkAnswer(Struct, frozen=True):
    """A chunk's content, or the refusal that an agent would read."""

    content: str = ""
    failed: str = ""


class ReadSpending(Struct, frozen=True):
    """Read the run's usage so far. Answered by ``Spending``. It changes no state and is not reported to listeners."""

    seconds: bool = False  # also read the clock, which is recorded as an event


class Spending(Struct, frozen=True):
    """The run's usage so far."""

    usd: float | None  # cost of everything that has a price; None if no price is known
    seconds: float  # as of the last clock reading


class Group(Struct, frozen=True):
    """Several operations to run in parallel. Receives a tuple of their answers, in the given order."""

    # tools, completions, sources and frames; operations that cannot run in parallel run one by one
    operations: tuple[InvokeTool | Complete | RunFrame | LoadSource, ...]
    most: int = 4  # maximum number running at the same time


Single = InvokeTool | Complete | RunFrame | LoadSource
Operation = (
    Single | EnterFrame | LeaveFrame | Say | AskUser | Wait | KeepChunk | ReadChunk | DropChunk | ListChunks
    | ReadHistory | ReadSpending | Group
)  # fmt: skip
Answer = Any
"""Depends on the operation: each operation's docstring names its answer.

Use ``answer: ToolAnswer = yield InvokeTool(...)``.
"""
Value = Any
"""A JSON value."""

Program = Generator[Operation | Note, Answer, Value]
Routine = Generator[Any, Any, Any]
"""A part of a program's work, for ``yield from``. Each docstring documents the return value."""


def prompt(text: str) -> tuple[Message, ...]:
    """Return the messages of a completion with a single user text."""
    return (Message("user", (Text(text),)),)
