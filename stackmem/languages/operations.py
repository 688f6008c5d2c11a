"""What a program does by asking, and what it is sent: the seam between every language and the machine.

A program is a generator. It yields an operation and is sent its answer, or yields a note (a fact of
``core.program_facts``) and is sent None; it returns its value, or raises ``Halted``. It is replayed by running it
again against the recorded answers, so it reads no clock, no file and no random number, and iterates over no set.

Operations that are effects as they stand (``InvokeTool LoadSource AskUser Wait``) are defined in ``core.requests``;
``languages.program`` settles the others, by a fact, from the state, or by another effect.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from msgspec import Struct

from stackmem.core.messages import Breakpoint, Message, Text, Usage
from stackmem.core.program_facts import Note, ToolFailure
from stackmem.core.requests import AskUser, InvokeTool, LoadSource, Wait


class ToolAnswer(Struct, frozen=True):
    """What a tool came to."""

    # a JSON value. A command that failed with ``exit`` or was killed has its output here all the same
    value: Any = None
    failed: ToolFailure = ""  # empty where it did what was asked
    detail: str = ""  # one sentence on the failure


class Complete(Struct, frozen=True):
    """Ask the model for one completion without tools; answered by ``Completion``."""

    messages: tuple[Message, ...]  # they end with the user's
    system: str = ""
    # a JSON Schema that the reply must fit as JSON. One that does not is refused with its first fault and asked for
    # again, three times
    schema: dict[str, Any] | None = None
    breakpoints: tuple[Breakpoint, ...] = ()  # where the provider may cache, see ``core.messages``
    name: str = ""  # what it is for, in short; a script may ask for it as the frame's name
    model: str = ""  # the name of another model than the run's own, as ``--model`` takes it; empty is the run's own


class Completion(Struct, frozen=True):
    """The model's reply."""

    text: str
    value: Any = None  # the reply as JSON where a schema was given
    stop: str = "end"  # why it ended, as in ``ModelReplied``
    # ``misfit`` (three replies did not fit the schema), ``window`` (the prompt is longer than the model takes),
    # ``truncated`` or ``refused``; else empty. Any other failure of the provider ends the run
    failed: str = ""
    detail: str = ""
    usage: Usage = Usage()


class RunFrame(Struct, frozen=True):
    """Hand work to the agent in a frame of its own, under the run's strategy; answered by ``FrameAnswer``."""

    name: str
    task: str  # what to do, whole
    inputs: dict[str, Any] = {}  # name to value, shown in the frame's first message
    returns: str = ""  # what the result must be, in words
    schema: dict[str, Any] | None = None  # a JSON Schema that the result must fit as JSON
    using: tuple[str, ...] = ()  # hints on how to do it
    model: str = ""  # as in ``Complete``; the frames that are pushed from this one have it, too


class ReplyRefused(Struct, frozen=True):
    """A completion's reply did not fit its schema and is asked for again; whoever listens is told, the trace is not."""

    name: str
    fault: str


class FrameAnswer(Struct, frozen=True):
    """What the frame came to."""

    result: str
    value: Any = None  # the result as JSON where a schema was given
    failed: str = ""  # ``misfit``, ``window``, ``constraint`` or ``stalled``; ``result`` is then the frame's last words
    detail: str = ""
    plan: str = ""  # the text of its first reply


class EnterFrame(Struct, frozen=True):
    """Open a frame of the program's own on the shared stack; sent None. Its completions are counted there."""

    name: str
    intent: str


class LeaveFrame(Struct, frozen=True):
    """Close the frame that was opened last; sent None."""

    result: str


class Say(Struct, frozen=True):
    """Tell the person something; sent None."""

    text: str


class Source(Struct, frozen=True):
    """A source."""

    path: str  # absolute, as a later ``beside`` takes it
    text: str = ""
    digest: str = ""
    failed: str = ""  # why there is no text; empty where there is


class KeepChunk(Struct, frozen=True):
    """Put a chunk on the heap, over what has its name; answered by ``ChunkAnswer``."""

    name: str  # characters that no chunk's name has become ``_``; a name that becomes another one's is refused
    content: str
    description: str = ""
    source: str = ""  # the workspace file it describes, if any


class ReadChunk(Struct, frozen=True):
    """Read a chunk, also one that the agent stored; answered by ``ChunkAnswer``."""

    name: str


class DropChunk(Struct, frozen=True):
    """Take a chunk from the heap; answered by ``ChunkAnswer``."""

    name: str


class ListChunks(Struct, frozen=True):
    """The heap's index; sent a tuple of ``(name, characters, description)`` in order of allocation."""


class ChunkAnswer(Struct, frozen=True):
    """A chunk's content, or why there is none (the refusal an agent would read)."""

    content: str = ""
    failed: str = ""


class ReadSpending(Struct, frozen=True):
    """Look at what the run has used so far; answered by ``Spending``. Nobody is told of it: it changes nothing."""

    seconds: bool = False  # the clock is looked at, too, which is a fact of its own


class Spending(Struct, frozen=True):
    """What the run has used."""

    usd: float | None  # for all that has a price; None as long as nothing has one
    seconds: float  # up to the last look at the clock


class Group(Struct, frozen=True):
    """Several operations at once; sent a tuple of their answers, in the order asked."""

    # tools, completions, sources and frames; what must not run beside another is run by itself
    operations: tuple[InvokeTool | Complete | RunFrame | LoadSource, ...]
    most: int = 4  # how many may run at a time


Single = InvokeTool | Complete | RunFrame | LoadSource
Operation = (
    Single | EnterFrame | LeaveFrame | Say | AskUser | Wait | KeepChunk | ReadChunk | DropChunk | ListChunks
    | ReadSpending | Group
)  # fmt: skip
Answer = Any
"""Depends on the operation; each one's docstring names it. Use ``answer: ToolAnswer = yield InvokeTool(...)``."""
Value = Any
"""A JSON value."""

Program = Generator[Operation | Note, Answer, Value]
Routine = Generator[Any, Any, Any]
"""A part of a program's work, for ``yield from``; what it returns stands in each docstring."""


def prompt(text: str) -> tuple[Message, ...]:
    """The messages of a completion that asks one thing."""
    return (Message("user", (Text(text),)),)
