"""Performs effects: each one runs once, and its outcome becomes the event that answers it.

Rule 1: Recorded events are synced before an effect leaves the process.
Rule 2: ``perform`` returns one answer of a parallel effect at a time; call it again for the next one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from typing import Any, Protocol, assert_never

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core import facts, requests
from stackmem.core.conversation import upkeep
from stackmem.core.conversation.hook_facts import HookRan
from stackmem.core.errors import WorkspaceError
from stackmem.core.guidance.sizing import UNREAD
from stackmem.core.images import ImageBytes, ImageRef, no_image
from stackmem.core.jobs.calls import JobCall, ListJobs, ReadJob, StopJob
from stackmem.core.messages import summary_of
from stackmem.core.neighbors import neighbor
from stackmem.core.network import WebFetch, WebSearch
from stackmem.core.person_facts import PersonSaid, RecallFound
from stackmem.core.program_facts import SourceLoaded, ToolAnswered, UserAnswered, Waited
from stackmem.core.state import State
from stackmem.core.text import clip_bytes, mark_cut, tail
from stackmem.core.tools import EditFile, ListFiles, ReadFile, RunCommand, SearchFiles, WorkspaceCall, WriteFile
from stackmem.settings.tools.bounded_calls import next_of
from stackmem.workspace.clip import visible
from stackmem.workspace.outcome import ToolOutcome
from stackmem.workspace.secrets import scrub_value

from .companion.images import Eyes, read_file, with_pictures
from .companion.jobs import answer_job_call, numbers_of, start_job
from .companion.web import answer_web_call
from .limits import run_for_agent
from .ports import Checks, ModelPort, ParallelFrames, PersonPort, Returned, Unattended, UserFile, WorkspacePort
from .programs.tools import BUILT_IN, READS, ToolContext, use_built_in

JITTER = 0.25
"""Maximum random addition to a wait, as a share of it, so that many runs do not retry in the same moment."""
VERIFY_SECONDS = 30.0
INTERRUPTED = "interrupted by the user before it ended; its output is lost, and files may be half written"
_MAX_WAIT_SECONDS = 10_000_000.0
"""Seconds. The operating system does not accept an infinite wait."""


def _there_is_room() -> None:
    """Assume that there is enough disk space."""


def _no_own_tool(name: str, arguments: dict[str, Any]) -> tuple[str, bool, tuple[bytes | ImageRef, ...]]:
    return f"the tool {name} is not here any more", True, ()


def _no_hook(effect: requests.RunHook) -> HookRan:
    return HookRan(effect.hook, "failed", "hooks do not run here")


def _no_folder(state: State) -> facts.FolderChanged | None:
    return None


class Answering(Protocol):
    """A user-defined tool."""

    def answer(self, arguments: dict[str, Any]) -> ToolAnswered:
        """Return the tool's result."""


class ProgramWorld(Struct):
    """Dependencies of a program's effects, in addition to those of an agent."""

    context: ToolContext
    # reads a source, stores its text in the run directory and returns its digest
    load: Callable[[requests.LoadSource], SourceLoaded]
    own_tools: Mapping[str, Answering] = {}  # user-defined tools by name
    parallel: frozenset[str] = frozenset()  # names of the tools that may run in parallel
    # selects the branches of a parallel effect to run now; None runs all
    among: Callable[[requests.Parallel], requests.Parallel] | None = None


class World(Struct):
    """Everything outside the state machine that a run uses."""

    model: ModelPort
    workspace: WorkspacePort
    checks: Checks | None  # None if the run has no checks
    scrub: Callable[[str], str]  # removes secrets from text before it is recorded
    sync: Callable[[], object]  # syncs the trace to disk; called before each request
    command_seconds: float
    # stores the current workspace and returns its tree id, or an empty string if files are not kept
    snapshot: Callable[[], str] = str
    # raises ``WorkspaceError`` if the disk only has room left for the end of the run
    must_have_room: Callable[[], None] = _there_is_room
    # calls a user-defined tool; returns its result as text and whether it failed
    own_tool: Callable[[str, dict[str, Any]], tuple[str, bool, tuple[bytes | ImageRef, ...]]] = _no_own_tool
    # computes the digest of a source outside the workspace; None for any other
    own_digest: Callable[[str], str | None] = dict[str, str]().get
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    started: float = 0.0  # value of ``clock()`` at the start of the run
    eyes: Eyes | None = None  # shows files as images, if the workspace is on disk
    image: ImageBytes = no_image  # returns the bytes of the run's images
    person: PersonPort = Unattended()  # the user who answers the run's questions
    attaching: list[UserFile] = []  # what the user attached and the run has not read yet
    program: ProgramWorld | None = None  # set only for a program run
    # takes the changes of the user's folder into the workspace, and returns what changed
    follow: Callable[[State], facts.FolderChanged | None] = _no_folder
    earlier: Callable[[str], RecallFound] = RecallFound  # searches earlier conversations about the folder
    hook: Callable[[requests.RunHook], HookRan] = _no_hook  # runs a hook of the user
    parallel: ParallelFrames | None = None  # None for files in memory, which cannot be merged
    under_way: Iterator[facts.Event] | None = None  # answers of the current parallel effect, as they arrive

    def digest(self, source: str) -> str:
        return self.own_digest(source) or self.workspace.digest(source)

    def close(self) -> None:
        """Stop processes that are waiting for the program's next call."""
        if self.parallel is not None:
            self.parallel.cancel()
        if self.program is not None:
            self.program.context.python.stop()


def perform(effect: requests.Effect, world: World) -> facts.Event:  # noqa: C901 - one match, every effect
    """Perform ``effect`` and return the event that answers it; for a parallel effect, the next answer.

    Raise WorkspaceError if the sandbox failed. The run can be resumed.
    """
    if not isinstance(effect, requests.RunChecks):
        world.must_have_room()
    match effect:
        case requests.AskModel():
            world.sync()
            return _ask(effect, world)
        case requests.UseTool():
            outcome = _shown_instead(effect, world) or _use(effect.call, effect.shown_bytes, world, effect.longest)
            digests = _digests(effect.sources, world)
            tree = world.snapshot() if effect.call.behavior.changes_files else ""
            text = world.scrub(outcome.text)
            return facts.ToolReturned(
                text, outcome.failed, outcome.exit_code, digests, tree, outcome.requests or UNSET, numbers_of(outcome),
                outcome.images, outcome.search,
            )  # fmt: skip
        case requests.Compact():
            return _compact(effect, world)
        case requests.AskWords():
            world.sync()
            return upkeep.fact_of_reply(_ask(effect.ask, world), world.scrub)
        case requests.UseOwnTool():
            world.sync()  # the tool may act outside this machine
            text, failed, pictures = world.own_tool(effect.name, effect.arguments)
            text = clip_bytes(visible(world.scrub(text)), effect.shown_bytes)
            text, images = with_pictures(world.eyes, text, pictures, f"{effect.name} result")
            return facts.ToolReturned(text, failed, None, _digests(effect.sources, world), images=images)
        case requests.Verify():
            outcome = world.workspace.run_command(effect.command, min(VERIFY_SECONDS, world.command_seconds), 8_192)
            text = tail(world.scrub(outcome.text), 10, 1_000)
            return facts.VerifyReturned(
                _verdict(outcome), text, _digests(effect.sources, world), world.snapshot(), outcome.requests or UNSET
            )
        case requests.DigestSources():
            return facts.SourcesDigested(_digests(effect.sources, world))
        case requests.SearchForRecall():
            return world.earlier(effect.query)
        case requests.ReadClock():
            return facts.ClockRead(round(max(0.0, world.clock() - world.started), 3))
        case requests.RunChecks():
            return judge(world)
        case requests.AskUser() | requests.AskPerson() | requests.AskPermission():
            world.sync()
            return _ask_person(effect, world)
        case requests.RunHook():
            world.sync()
            return world.hook(effect)
        case requests.InvokeTool() | requests.LoadSource() | requests.Wait():
            world.sync()
            return _answer(effect, world, _program(world))
        case requests.Parallel() | requests.RunFrames() | requests.MergeFrames():
            return _next_answer(effect, world)
        case _:
            assert_never(effect)


def _ask(effect: requests.AskModel, world: World) -> facts.ModelReplied | facts.ModelFailed:
    waited = effect.wait_seconds
    if waited:
        waited *= random.uniform(1, 1 + JITTER)  # noqa: S311 - spreads retries, guards nothing
    if effect.left_seconds is not None:
        waited = min(waited, effect.left_seconds)
        effect = replace(effect, left_seconds=effect.left_seconds - waited)
    if waited:
        world.sleep(waited)
    answer = world.model.reply(replace(effect, image=world.image))
    if isinstance(answer, facts.ModelFailed):
        answer = replace(answer, detail=world.scrub(answer.detail))
    else:
        answer = neighbor("providers: mend the arguments of calls")(answer, effect)
    mended = answer.mended if answer.mended is UNSET else tuple(world.scrub(note) for note in answer.mended)
    return replace(answer, mended=mended, prompt_digest=effect.view.digest)


def _compact(effect: requests.Compact, world: World) -> facts.ContextCompacted | facts.ModelFailed:
    """Return the text of the reply, or the provider's own summary; calls and thinking in it are ignored."""
    world.sync()
    answer = _ask(effect.ask, world)
    if isinstance(answer, facts.ModelFailed):
        return answer
    text, block = summary_of(answer.parts)
    return facts.ContextCompacted(
        effect.frame, effect.up_to_step, world.scrub(text), answer.usage, answer.prompt_digest, answer.stop,
        answer.detail, answer.reply_id, mended=answer.mended, block=UNSET if block is None else block,
    )  # fmt: skip


def _shown_instead(effect: requests.UseTool, world: World) -> Returned | None:
    """Return the file if the model wants to change it without having read it, or None if there is no such file."""
    if not effect.unread or not isinstance(effect.call, WriteFile | EditFile):
        return None
    file = world.workspace.read_file(effect.call.path, None, None, effect.shown_bytes)
    if file.failed or not file.text.strip():
        return None
    # The file comes last: small models copy a closing sentence into the file that they write next.
    return ToolOutcome(f"{effect.call.path!r} {UNREAD}. This is the file; change it now:\n{file.text}", failed=True)


def _use(call: WorkspaceCall | JobCall, shown_bytes: int, world: World, longest: int) -> Returned:
    workspace = world.workspace
    match call:
        case RunCommand(background=False):  # most calls are commands
            return run_for_agent(call, workspace, world.command_seconds, shown_bytes, longest)
        case RunCommand():
            return start_job(call, workspace, shown_bytes)
        case ReadFile():
            return read_file(workspace, world.eyes, call, shown_bytes)
        case WriteFile():
            return workspace.write_file(call.path, call.content)
        case EditFile():
            return workspace.edit_file(call.path, call.old_string, call.new_string, every=call.replace_all)
        case SearchFiles():
            return workspace.search_files(call.pattern, call.path, call.glob, call.context, shown_bytes)
        case ListFiles():
            return workspace.list_files(call.path, shown_bytes)
        case ListJobs() | ReadJob() | StopJob():
            return answer_job_call(call, workspace, shown_bytes)
        case WebFetch() | WebSearch():
            return answer_web_call(call, world.model, getattr(workspace, "listed", None), shown_bytes)
        case _:
            assert_never(call)


def _digests(sources: tuple[str, ...], world: World) -> dict[str, str]:
    return {path: world.digest(path) for path in sources}


def _verdict(outcome: Returned) -> str:
    return (outcome.reason or "killed") if outcome.exit_code is None else f"exit {outcome.exit_code}"


def judge(world: World) -> facts.ChecksReturned:
    """Return the verdict of the run's checks on the current workspace; it includes failures of the checks."""
    if world.checks is None:
        return facts.ChecksReturned({}, "the run has no checks")
    try:
        verdict = world.checks.judge()
    except (WorkspaceError, OSError) as error:
        verdict = facts.ChecksReturned({}, f"the checks could not be run: {error}")
    return replace(verdict, text=world.scrub(verdict.text), error=world.scrub(verdict.error))


def _program(world: World) -> ProgramWorld:
    assert world.program is not None  # noqa: S101 - only programs request this, and their world has a ``program``
    return world.program


def _answer(
    effect: requests.InvokeTool | requests.LoadSource | requests.Wait,
    world: World,
    program: ProgramWorld,
) -> facts.Event:
    """Return the event that answers one effect of a program."""
    match effect:
        case requests.InvokeTool():
            return _invoke(effect, world, program)
        case requests.LoadSource():
            return program.load(effect)
        case requests.Wait():
            seconds = min(_MAX_WAIT_SECONDS, max(0.0, effect.seconds))  # NaN counts as 0
            world.sleep(seconds)
            return Waited(seconds)
        case _:
            assert_never(effect)


def _ask_person(effect: requests.AskUser | requests.AskPerson | requests.AskPermission, world: World) -> facts.Event:
    match effect:
        case requests.AskUser():
            text = world.person.answer(effect)
            if text is None:
                return facts.RunEnded("input_needed", mark_cut(effect.question, 4_000))
            return UserAnswered(world.scrub(text))
        case requests.AskPerson():
            return PersonSaid(world.scrub(world.person.request()))
        case requests.AskPermission():
            decided = world.person.decide(effect)
            return replace(decided, words=world.scrub(decided.words))
        case _:
            assert_never(effect)


def _invoke(call: requests.InvokeTool, world: World, program: ProgramWorld) -> ToolAnswered:
    if call.tool in BUILT_IN:
        return use_built_in(call, program.context)
    own = program.own_tools.get(call.tool)
    if own is None:
        names = ", ".join([*BUILT_IN, *program.own_tools])
        return ToolAnswered(None, "unknown_tool", f"unknown tool {call.tool[:80]!r}; known: {names}")
    answer = own.answer(call.arguments)
    return replace(answer, value=scrub_value(answer.value, world.scrub), detail=world.scrub(answer.detail))


def _next_answer(effect: requests.Parallel | requests.RunFrames | requests.MergeFrames, world: World) -> facts.Event:
    """Return the next answer of the current parallel effect, starting the effect if necessary."""
    if not isinstance(effect, requests.Parallel):  # the loop passes these to ``world.parallel``, if there is one
        raise WorkspaceError("parallel frames cannot run here")
    event = None if world.under_way is None else next(world.under_way, None)
    if event is None:
        program = _program(world)
        world.sync()
        world.under_way = _answers(effect if program.among is None else program.among(effect), world, program)
        event = next(world.under_way)
    return event


def _answers(effect: requests.Parallel, world: World, program: ProgramWorld) -> Iterator[facts.Event]:
    """Yield the answer of each branch as it arrives.

    Branches that must not run in parallel run one after another, after the parallel ones.
    """
    concurrent = [pair for pair in effect.branches if _may_run_beside(pair[1], program)]
    if effect.most > 1 and len(concurrent) > 1:
        yield from _side_by_side(concurrent, effect.most, world, program)
    else:
        concurrent = []
    for pair in effect.branches:
        if pair not in concurrent:
            yield _branch_answer(pair, world, program)


def _may_run_beside(
    effect: requests.AskModel | requests.InvokeTool | requests.LoadSource, program: ProgramWorld
) -> bool:
    return not isinstance(effect, requests.InvokeTool) or effect.tool in READS or effect.tool in program.parallel


Branch = tuple[int, requests.AskModel | requests.InvokeTool | requests.LoadSource]


def _side_by_side(branches: list[Branch], most: int, world: World, program: ProgramWorld) -> Iterator[facts.Event]:
    """Yield each answer as it arrives. Daemon threads, so that a hanging call does not keep the process alive."""
    queue = deque(branches)
    arrived: SimpleQueue[facts.Event | BaseException] = SimpleQueue()

    def work() -> None:
        while True:
            try:
                branch = queue.popleft()
            except IndexError:
                return
            try:
                arrived.put(_branch_answer(branch, world, program))
            except BaseException as error:  # noqa: BLE001 - re-raised in the thread that waits for the answers
                arrived.put(error)

    for _ in range(min(most, len(branches), 32)):
        threading.Thread(target=work, name="beside", daemon=True).start()
    try:
        for _ in branches:
            answer = next_of(arrived)
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        queue.clear()


def _branch_answer(branch: Branch, world: World, program: ProgramWorld) -> facts.Event:
    number, effect = branch
    if isinstance(effect, requests.AskModel):
        return replace(_ask(effect, world), branch=number)
    answer = _invoke(effect, world, program) if isinstance(effect, requests.InvokeTool) else program.load(effect)
    return replace(answer, branch=number)
