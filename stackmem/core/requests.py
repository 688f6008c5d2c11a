"""Requests to the outside world, from the agent's rules or from a program, and the facts that answer them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct

from .conversation.hook_facts import Hook, HookRan
from .facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Ending,
    Event,
    FolderChanged,
    JobsEnded,
    ModelFailed,
    ModelReplied,
    RunForked,
    RunResumed,
    RunStarted,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from .images import ImageBytes, no_image
from .jobs.calls import JobCall
from .messages import ToolSpec, View
from .parallel.facts import FrameReturned, FramesMerged
from .person_facts import (
    PersonAccepted,
    PersonAttached,
    PersonCompacted,
    PersonDecided,
    PersonPlanned,
    PersonRan,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
    RecallFound,
    WordsAsked,
)
from .program_facts import ProgramStarted, SourceLoaded, ToolAnswered, UserAnswered, Waited
from .tools import WorkspaceCall


class AskModel(Struct, frozen=True):
    """Request one reply. Answered by ``ModelReplied`` or ``ModelFailed``."""

    view: View
    step: int  # the step number that this reply will have, from 1
    facts: int  # number of model facts (replies and failures) so far. A scripted model depends on the request and this
    attempt: int = 1  # 1 for the first try of this step
    wait_seconds: float = 0.0  # how long to wait before the request, without jitter
    frame: str = "root"  # name of the running frame
    depth: int = 0  # its depth; the root is 0
    chunks: tuple[str, ...] = ()  # names of the chunks on the heap
    model: str = ""  # the model to ask if it is not the run's own; otherwise empty
    # the seconds left for the run, including the wait before the request. None without a limit
    left_seconds: float | None = None
    # "call" if only a tool call continues the work, "any" if a plain answer would end the user's request, "text" if the
    # reply is not searched for calls
    expects: Literal["call", "any", "text"] = "call"
    reply_tokens: int | None = None  # the maximum length of the reply in this run. None uses the model's own limit
    announced: tuple[ToolSpec, ...] = ()  # tools that the conversation announced, in addition to those of the view
    reads_together: bool = False  # whether the reply may have several calls, if all of them only read
    parallel: str = ""  # name of the parallel frame that this run is; empty elsewhere
    facts_before: int = 0  # number of model facts before that frame; 0 elsewhere
    image: ImageBytes = no_image  # returns the bytes of the view's images. Set when the request is performed


class Compact(Struct, frozen=True):
    """Request a summary that replaces a frame's conversation. Answered by ``ContextCompacted`` or ``ModelFailed``."""

    ask: AskModel
    frame: str  # id of the running frame
    up_to_step: int  # the last reply that the summary covers, including its answer


class AskWords(Struct, frozen=True):
    """Ask the model which words of the user's request must outlive it. Answered by ``WordsAsked``, also on failure."""

    ask: AskModel


class UseTool(Struct, frozen=True):
    """Perform a workspace call. Answered by ``ToolReturned``."""

    call: WorkspaceCall | JobCall
    shown_bytes: int  # the text of the result is clipped to this many bytes of UTF-8
    sources: tuple[str, ...] = ()  # paths whose digests the answer includes
    # the model has not seen the file that it would change. If the file exists, it is shown instead
    unread: bool = False
    longest: int = 0  # maximum number of seconds that the model may request for a command; 0 if it may not request any


class UseOwnTool(Struct, frozen=True):
    """Call one of the user's own tools, outside the workspace. Answered by ``ToolReturned``.

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
    """Take the digests of the files that chunks describe. Answered by ``SourcesDigested``."""

    sources: tuple[str, ...]


class SearchForRecall(Struct, frozen=True):
    """Search earlier conversations about the folder. Answered by ``RecallFound``."""

    query: str


class ReadClock(Struct, frozen=True):
    """Read the run's wall time. Answered by ``ClockRead``."""


class RunChecks(Struct, frozen=True):
    """Let the task's own checks judge the workspace. Answered by ``ChecksReturned``."""


class InvokeTool(Struct, frozen=True):
    """Call a tool for a program, which gets the complete, unchanged result. Answered by ``ToolAnswered``.

    Built in: ``shell(command, working_directory?, env?)`` returns ``{stdout, stderr, exit_code}``; ``read_file(path)``
    the text; ``write_file(path, content)`` and ``make_directory(path)`` nothing; ``list_files(path?)`` a list of paths.
    Relative paths refer to the workspace. Every other name is one of the user's own tools.
    """

    tool: str
    arguments: dict[str, Any] = {}
    timeout_seconds: float | None = None  # time limit of a command, at most 3,600. None uses the run's own limit


class LoadSource(Struct, frozen=True):
    """Read a source (a program, a library, a configuration). Answered by ``SourceLoaded``."""

    path: str  # relative to the folder of ``beside``
    # the source that refers to this one; empty is the program itself. ``stackmem:NAME`` is a packaged one
    beside: str = ""
    listing: bool = False  # list a folder instead: one name per line, sorted


class AskUser(Struct, frozen=True):
    """Ask the user a question. Answered by ``UserAnswered``.

    Without an answer the run ends as ``input_needed`` and can be resumed.
    """

    question: str
    options: tuple[str, ...] = ()  # suggested answers. The user may answer something else


class AskPerson(Struct, frozen=True):
    """Ask the user for the next request. Answered by ``PersonSaid``; if the user leaves, the run ends as ``left``."""


class AskPermission(Struct, frozen=True):
    """Ask the user for permission for a call. Answered by ``PersonDecided``."""

    tool: str  # the tool's name
    about: str  # the command, the path or the arguments of the call
    detail: str = ""  # the new content of a file, or its change. Empty for other calls
    outside: bool = False  # whether the call leaves the sandbox
    rule: str = ""  # the permission rule that asks, as messages spell it. Empty if none does
    frame: str = ""  # the parallel frame that makes the call, as the user sees it. Empty for other frames


class RunHook(Struct, frozen=True):
    """Run a hook, a command of the user. Answered by ``HookRan``."""

    hook: Hook
    given: str  # the input of the command, as JSON
    sources: tuple[str, ...] = ()  # as in ``UseTool``, for a hook that runs in the workspace


class Wait(Struct, frozen=True):
    """Wait. Answered by ``Waited``."""

    seconds: float


class Parallel(Struct, frozen=True):
    """Run several effects of one program in parallel. Answered by one fact per branch, in any order."""

    # number of each branch (the ``branch`` of its fact) and its effect, in the order requested. Effects that must not
    # overlap with others run separately
    branches: tuple[tuple[int, AskModel | InvokeTool | LoadSource], ...]
    most: int = 4  # how many may run at a time


class RunFrames(Struct, frozen=True):
    """Run parallel frames, each in a run of its own. Answered by ``FrameReturned``, first for the first of them."""

    frames: tuple[str, ...]  # ids of the frames that have not returned, in push order


class ReturnedFiles(Struct, frozen=True):
    """The files of a parallel frame: its name, its run, and the tree in that run's history."""

    name: str
    run: str
    tree: str


class MergeFrames(Struct, frozen=True):
    """Merge the files of parallel frames into the workspace. Answered by ``FramesMerged``."""

    frames: tuple[ReturnedFiles, ...]  # in push order
    tree: str  # the workspace when they began
    sources: tuple[str, ...] = ()  # as in ``UseTool``


Effect = (
    AskModel | UseTool | Compact | AskWords | UseOwnTool | Verify | DigestSources | SearchForRecall | ReadClock
    | RunChecks | InvokeTool | LoadSource | AskUser | AskPerson | AskPermission | RunHook | Wait | Parallel
    | RunFrames | MergeFrames
)  # fmt: skip

ANSWERS: dict[type[Effect], tuple[type[Event], ...]] = {
    AskModel: (ModelReplied, ModelFailed),
    Compact: (ContextCompacted, ModelFailed),
    AskWords: (WordsAsked,),
    UseTool: (ToolReturned,),
    UseOwnTool: (ToolReturned,),
    Verify: (VerifyReturned,),
    DigestSources: (SourcesDigested,),
    SearchForRecall: (RecallFound,),
    ReadClock: (ClockRead,),
    RunChecks: (ChecksReturned,),
    InvokeTool: (ToolAnswered,),
    LoadSource: (SourceLoaded,),
    AskUser: (UserAnswered,),
    AskPerson: (PersonSaid,),
    AskPermission: (PersonDecided,),
    RunHook: (HookRan,),
    Wait: (Waited,),
    Parallel: (ModelReplied, ModelFailed, ToolAnswered, SourceLoaded),
    RunFrames: (FrameReturned,),
    MergeFrames: (FramesMerged,),
}
"""The facts that may answer each effect. ``perform`` returns them; replay and resume look for them."""

EXTERNAL = (
    RunStarted, RunResumed, RunForked, ProgramStarted, PersonSteppedIn, PersonStopped, PersonRan,
    PersonAttached, PersonPlanned, PersonAccepted, PersonCompacted, FolderChanged, JobsEnded,
)  # fmt: skip
"""Facts that do not follow from earlier ones. Together with the answers, they are all that comes from outside."""

STOPS_WITH_PARTIAL: tuple[Ending, ...] = ("interrupted", "limit:seconds")
"""Those of ``STOPS`` whose result is what the run had so far."""

STOPS: tuple[Ending, ...] = (*STOPS_WITH_PARTIAL, "workspace_error", "input_needed", "left")
"""How a run ends from outside instead of an answer to an effect. A program's run may also end so between two facts.

The run's seconds may expire while an effect is performed. In all other cases the rules detect this when the clock is
read.
"""


def answers(kind: type[Effect], event: Event, branch: int | None = None) -> bool:
    """Return whether ``event`` answers an effect of this kind, as ``branch`` of a parallel effect or without one."""
    if not isinstance(event, ANSWERS[kind]):
        return False
    match event:
        case ModelReplied() | ModelFailed():
            return event.branch == (UNSET if branch is None else branch)
        case ToolAnswered() | SourceLoaded():
            return event.branch == (branch or 0)
        case _:
            return True


def match_effect(effect: Effect, event: Event) -> Effect | None:
    """Return what ``event`` answers: the effect, or a branch of a parallel effect. None if it answers neither."""
    if isinstance(effect, Parallel):
        return next((each for branch, each in effect.branches if answers(type(each), event, branch)), None)
    if isinstance(effect, RunFrames) and isinstance(event, FrameReturned) and event.frame != effect.frames[0]:
        return None
    return effect if answers(type(effect), event) else None


def effects_of(upcoming: Event | Effect | None) -> tuple[Effect, ...]:
    """Return the effect, or the branches of a parallel effect. Empty if a fact comes next."""
    if isinstance(upcoming, Parallel):
        return tuple(each for _, each in upcoming.branches)
    return (upcoming,) if isinstance(upcoming, Effect) else ()
