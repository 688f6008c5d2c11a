"""What is asked of the world, by the agent's rules or by a program, and which facts answer it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct

from .facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Ending,
    Event,
    ModelFailed,
    ModelReplied,
    RunForked,
    RunResumed,
    RunStarted,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from .messages import ToolSpec, View
from .person_facts import PersonDecided, PersonSaid, PersonSteppedIn, PersonStopped
from .program_facts import ProgramStarted, SourceLoaded, ToolAnswered, UserAnswered, Waited
from .tools import WorkspaceCall


class AskModel(Struct, frozen=True):
    """Ask for one reply. Answered by ``ModelReplied`` or ``ModelFailed``.

    Attributes:
        step: The step this reply will be, from 1.
        facts: Model facts (replies and failures) so far; a scripted model is a function of the request and this.
        attempt: 1 for the first try of this step.
        wait_seconds: What to wait before asking, without jitter.
        frame: Name of the running frame.
        depth: Its depth; the root is 0.
        chunks: Names of the chunks on the heap.
        model: The name of another model than the run's own; empty where its own is asked.
        left_seconds: What the run may still take, the wait before the request included; None where nothing bounds it.
        expects: "call" if only a tool call goes on with the work, "any" if a plain answer would end the user's request,
            "text" if the reply is not searched for calls.
        reply_tokens: The longest reply that this run wants; None is what the model's own limit is.
        announced: Tools that the conversation told of, beside those of the view.
    """

    view: View
    step: int
    facts: int
    attempt: int = 1
    wait_seconds: float = 0.0
    frame: str = "root"
    depth: int = 0
    chunks: tuple[str, ...] = ()
    model: str = ""
    left_seconds: float | None = None
    expects: Literal["call", "any", "text"] = "call"
    reply_tokens: int | None = None
    announced: tuple[ToolSpec, ...] = ()


class Compact(Struct, frozen=True):
    """Ask the model for a text that stands for a frame's conversation. Answered by ``ContextCompacted`` or
    ``ModelFailed``.

    Attributes:
        frame: Id of the running frame.
        up_to_step: The last reply that the text stands for, its answer included.
    """

    ask: AskModel
    frame: str
    up_to_step: int


class UseTool(Struct, frozen=True):
    """Perform a workspace call. Answered by ``ToolReturned``.

    Attributes:
        shown_bytes: The result's text is clipped to so many bytes of UTF-8.
        sources: Paths whose digests the answer carries.
        unread: The model has not seen the file that it would change. A file that exists is shown instead.
    """

    call: WorkspaceCall
    shown_bytes: int
    sources: tuple[str, ...] = ()
    unread: bool = False


class UseOwnTool(Struct, frozen=True):
    """Call a tool of the person's own, outside the workspace. Answered by ``ToolReturned``.

    Attributes:
        shown_bytes, sources: As in ``UseTool``.
    """

    name: str
    arguments: dict[str, Any]
    shown_bytes: int
    sources: tuple[str, ...] = ()


class Verify(Struct, frozen=True):
    """Run a frame's verify command. Answered by ``VerifyReturned``."""

    command: str
    sources: tuple[str, ...] = ()


class DigestSources(Struct, frozen=True):
    """Take the digests of files that chunks describe. Answered by ``SourcesDigested``."""

    sources: tuple[str, ...]


class ReadClock(Struct, frozen=True):
    """Read the run's wall time. Answered by ``ClockRead``."""


class RunChecks(Struct, frozen=True):
    """Let the task's own checks judge the workspace. Answered by ``ChecksReturned``."""


class InvokeTool(Struct, frozen=True):
    """A program calls a tool, whole and literal. Answered by ``ToolAnswered``.

    Built in: ``shell(command, working_directory?, env?)`` gives ``{stdout, stderr, exit_code}``; ``read_file(path)``
    the text; ``write_file(path, content)`` and ``make_directory(path)`` nothing; ``list_files(path?)`` a list of paths.
    Relative paths are of the workspace. Every other name is a tool of the person's own.

    Attributes:
        timeout_seconds: Of a command, at most 3,600; None is the run's own limit.
    """

    tool: str
    arguments: dict[str, Any] = {}
    timeout_seconds: float | None = None


class LoadSource(Struct, frozen=True):
    """Read a source (a program, a library, a configuration). Answered by ``SourceLoaded``.

    Attributes:
        path: Relative to ``beside``'s folder.
        beside: The source that names it; empty is the program itself. ``stackmem:NAME`` is a packaged one.
        listing: Read a folder instead: the text is one name a line, sorted.
    """

    path: str
    beside: str = ""
    listing: bool = False


class AskUser(Struct, frozen=True):
    """Ask the person. Answered by ``UserAnswered``; where nobody answers, the run ends ``input_needed``, resumable.

    Attributes:
        options: Answers to choose from; she may say something else.
    """

    question: str
    options: tuple[str, ...] = ()


class AskPerson(Struct, frozen=True):
    """Ask the person what is to be done next. Answered by ``PersonSaid``; who leaves ends the run ``left``."""


class AskPermission(Struct, frozen=True):
    """Ask the person whether a call may be made. Answered by ``PersonDecided``.

    Attributes:
        tool: The tool's name.
        about: The command, the path or the arguments that it is called with.
        detail: What a file is to hold, or to be changed to; empty for other calls.
        outside: Whether it leaves the sandbox.
    """

    tool: str
    about: str
    detail: str = ""
    outside: bool = False


class Wait(Struct, frozen=True):
    """Wait. Answered by ``Waited``."""

    seconds: float


class Parallel(Struct, frozen=True):
    """Several effects of one program at once. Answered by one fact for each branch, in whatever order they come.

    Attributes:
        branches: Number of the branch (a fact's ``branch``) and its effect, in the order asked; what must not run
            beside another runs by itself.
        most: How many may run at a time.
    """

    branches: tuple[tuple[int, AskModel | InvokeTool | LoadSource], ...]
    most: int = 4


Effect = (
    AskModel | Compact | UseTool | UseOwnTool | Verify | DigestSources | ReadClock | RunChecks
    | InvokeTool | LoadSource | AskUser | AskPerson | AskPermission | Wait | Parallel
)  # fmt: skip

ANSWERS: dict[type[Effect], tuple[type[Event], ...]] = {
    AskModel: (ModelReplied, ModelFailed),
    Compact: (ContextCompacted, ModelFailed),
    UseTool: (ToolReturned,),
    UseOwnTool: (ToolReturned,),
    Verify: (VerifyReturned,),
    DigestSources: (SourcesDigested,),
    ReadClock: (ClockRead,),
    RunChecks: (ChecksReturned,),
    InvokeTool: (ToolAnswered,),
    LoadSource: (SourceLoaded,),
    AskUser: (UserAnswered,),
    AskPerson: (PersonSaid,),
    AskPermission: (PersonDecided,),
    Wait: (Waited,),
    Parallel: (ModelReplied, ModelFailed, ToolAnswered, SourceLoaded),
}
"""Which facts answer which effect. ``perform`` gives them, replay and resume look for them."""

GIVEN = (RunStarted, RunResumed, RunForked, ProgramStarted, PersonSteppedIn, PersonStopped)
"""What a run is given: facts that nothing before them says. With the answers, they are what comes from outside."""

STOPS_WITH_PARTIAL: tuple[Ending, ...] = ("interrupted", "limit:seconds")
"""Of ``STOPS``, those whose result is what the run had so far."""

STOPS: tuple[Ending, ...] = (*STOPS_WITH_PARTIAL, "workspace_error", "input_needed", "left")
"""How a run ends from outside, in place of an effect's answer; a program's run also between two of its facts.

The seconds of a run may be over while the world is asked; else the rules say so, once the clock was read.
"""


def answers(kind: type[Effect], event: Event, branch: int | None = None) -> bool:
    """Whether ``event`` answers an effect of that kind, asked as ``branch`` of a parallel one or alone."""
    if not isinstance(event, ANSWERS[kind]):
        return False
    match event:
        case ModelReplied() | ModelFailed():
            return event.branch == (UNSET if branch is None else branch)
        case ToolAnswered() | SourceLoaded():
            return event.branch == (branch or 0)
        case _:
            return True


def answered(effect: Effect, event: Event) -> Effect | None:
    """What ``event`` answers: the effect, or of a parallel one that of the branch; None where it answers neither."""
    if isinstance(effect, Parallel):
        return next((each for branch, each in effect.branches if answers(type(each), event, branch)), None)
    return effect if answers(type(effect), event) else None


def effects_of(upcoming: Event | Effect | None) -> tuple[Effect, ...]:
    """What is asked: the effect, or of a parallel one its branches; nothing where a fact comes next."""
    if isinstance(upcoming, Parallel):
        return tuple(each for _, each in upcoming.branches)
    return (upcoming,) if isinstance(upcoming, Effect) else ()
