"""The state of a run: its whole memory, as immutable values."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from .budgets import Limits
from .conversation.hook_facts import HookDue, HookRan
from .conversation.standing import Changes, UserMessage
from .facts import (
    ChecksReturned,
    ContextCompacted,
    ModelFailed,
    ModelReplied,
    RunEnded,
    RunStarted,
    Stop,
    VerifyReturned,
)  # fmt: skip
from .heap import Heap
from .images import ImageRef, Images
from .jobs.calls import RunJobs
from .log import Log
from .memory_directory import Directory
from .messages import ReplyPart, ToolCall, Usage
from .parallel.facts import ParallelWork
from .person_facts import PersonDecided, RecallFound, SessionRules, WordsAsked
from .pricing import reply_usd
from .program_facts import ProgramState
from .tools import Call


class Registers(Struct, frozen=True):
    """Read-only registers, set when a frame is pushed. R2 is unassigned."""

    intent: str  # r0, why the frame exists
    return_spec: str  # r1, what its result must look like
    constraint: str = ""  # r3, free text or enforced limits


class Reply(Struct, frozen=True):
    """A turn of the model."""

    parts: tuple[ReplyPart, ...]
    stop: Stop
    step: int  # number of the reply in the run, from 1
    # the run's clock in seconds when the reply was requested; 0 if the clock is not read in this run
    seconds: float = 0.0


class Result(Struct, frozen=True):
    """The answer to one call."""

    call_id: str
    text: str
    failed: bool
    # heap, step: the heap and the step when the answer was given
    heap: Heap
    step: int
    read: tuple[str, ...] = ()  # the chunks that it added to the conversation
    images: Images = UNSET


class Notice(Struct, frozen=True):
    """A message from the harness that does not answer a call."""

    text: str
    heap: Heap
    images: Images = UNSET


class Compaction(Struct, frozen=True):
    """A summary by the model that replaces the conversation up to a reply and its answer."""

    text: str
    up_to_step: int
    # step, heap: number of replies of the run when it was written, and the heap then
    step: int
    heap: Heap
    # the provider's own summary, if the provider wrote it. It is sent back unchanged
    block: dict[str, Any] | None = None


Turn = Reply | Result | Notice | Compaction


class Frame(Struct, frozen=True):
    """One scope of work, with its own conversation."""

    # id, depth: ``frame-N``, and 0 for the root ``frame-0``
    id: str
    name: str
    depth: int
    registers: Registers
    context: str
    opened: Heap  # the heap at the push
    turns: Log[Turn]  # its conversation, oldest first. Kept after the pop
    task: str = ""  # the whole task text in the root, empty elsewhere
    verify: str = ""
    # names of chunks that its objective or context mentions but that did not exist at the push
    missing: tuple[str, ...] = ()
    parent: str = ""  # the id of the frame that pushed it. Empty for the root
    call_id: str = ""  # the parent's call that its result answers
    # started_step, started_tokens, started_seconds: totals of the run at the push, from which its limits count
    started_step: int = 0
    started_tokens: int = 0
    started_seconds: float = 0.0
    opened_chars: int = 0  # estimated characters of this frame's prompt before any turn
    prompt_tokens: int = 0  # prompt tokens of the last reply in this frame; 0 before the first and after a compaction
    chars: int = 0  # characters added to the prompt since that reply, or of the whole prompt if there is none
    refused: int = 0  # calls refused since the frame was closed
    told: frozenset[str] = frozenset()  # codes of the notices that this frame has received
    # ``steps`` if a program continues in this frame, ``work`` if the agent works in it for a program. Empty if no
    # program pushed it
    program: str = ""
    schema: str = ""  # JSON text of the schema that its result must fit, or empty
    unfit: int = 0  # number of results so far that did not fit the schema
    pushed_at: int = 0  # depth from which the agent's own pushes count: 0, or that of the program's frame
    model: str = ""  # the model of this frame and of those pushed from it. Empty for the run's own
    window_tokens: int = 0  # the window of that model, known after its first reply; otherwise 0
    request: bool = False  # whether the frame handles a user's request, which is its task
    related: str = ""  # earlier requests that may matter for a user's request, as it shows them
    standing: str = ""  # the user's standing words at the push, for a frame that the agent pushed
    standing_seen: int = 0  # number of changes of them that its prompt contains; -1 if a summary replaced them
    standing_step: int = 0  # number of replies of the run when its prompt last got some of them
    caller: ProgramState | None = None  # the program that runs below the one of this frame, if any

    @property
    def context_tokens(self) -> int:
        """Estimated prompt tokens of the next request: the last reply's count plus the characters since then / 2.5."""
        return self.prompt_tokens + int(self.chars / 2.5)


class PoppedFrame(Struct, frozen=True):
    """A frame that ended, with its result."""

    frame: Frame
    result: str
    step: int
    forced: str = ""
    verified: str = ""


class Pending(Struct, frozen=True):
    """A reply whose calls are not answered yet."""

    calls: tuple[ToolCall, ...]
    stop: Stop
    call: Call | None = None  # the first call as an instance of its tool's class. None if it is invalid
    # digests, verified: digests of the sources that it names, and the outcome of the verify command, once known
    digests: dict[str, str] | None = None
    verified: VerifyReturned | None = None
    # decided, earlier, hooked: the user's decision, the result of a search, and the hooks that ran before the call
    decided: PersonDecided | None = None
    earlier: RecallFound | None = None
    hooked: tuple[HookRan, ...] = ()
    first: bool = False  # whether the first call is performed and the others are answered as not performed
    # whether the calls only read and are all answered (guidance/reading.py). Answered ones are left out
    together: bool = False
    used: int = 0  # bytes of the results of the same reply so far
    words: tuple[str, ...] = ()  # notices that follow the last result
    refused: bool = False  # whether an earlier call of the reply was refused because the frame is closed


class Grant(Struct, frozen=True):
    """A permission for longer than one call."""

    tool: str
    pattern: str  # as in ``PersonDecided``
    frame: str  # id of the frame with which it ends. Empty if it is valid for the session


class Session(Struct, frozen=True):
    """The status of a conversation with a user."""

    rules: SessionRules
    # requests, request: number of requests so far, and a request that has no frame yet
    requests: int = 0
    request: str = ""
    working: bool = False  # whether a request is in progress or about to start
    stopped: bool = False  # whether the user stopped the request and its frames still have to be popped
    grants: tuple[Grant, ...] = ()
    standing: Changes = ()  # the user's standing words, as changes from the first to the last
    said: Log[UserMessage] = field(default_factory=Log)  # what the user said, without commands
    # planning, steps: whether plan mode is on; the requests for steps of an accepted plan that have not started
    planning: bool = False
    steps: tuple[str, ...] = ()
    unasked: str = ""  # a request that the model must still be asked about (conversation/upkeep.py)
    # ran, images: commands of the user, and attached files and images, which the model has not read yet
    ran: tuple[str, ...] = ()
    images: tuple[ImageRef, ...] = ()
    compacting: bool = False  # whether the user asked for a summary that is not written yet


class State(Struct, frozen=True):
    """The whole memory of a run.

    Attributes:
        stack: Frames, root first; the last one is running. Empty before the start and after the root's pop.
        popped: Frames that ended, oldest first.
        limits: The current limits, from the start or the last resume.
        notes: The scratchpad, oldest first.
        directory: The files of the memory tool.
        tree: The workspace after the last call that may have changed it.
        step, facts: Number of model replies so far, and of model replies, compactions and failures.
        pushes: Number of frames pushed so far, used to name the next one.
        failures: The provider's failures since the last reply, newest last.
        idle, several: Replies in a row without a usable call, and with several calls.
        usage, usd: Tokens of all replies and compactions, and the cost of those with a known price.
        unpriced: Number of replies and compactions without a known price.
        seconds: The last clock reading.
        clock_fresh: Whether the clock was read since the last model fact.
        heard: Texts from the user that the model has not read yet.
        result: The root's result; in a conversation that of the last request.
        program: The status of the program. None in other runs.
        session: The status of the conversation. None in other runs.
        due: The hooks that run next, after a call or a request.
        folder: The number of the last change of the user's folder that the workspace has.
        jobs: The jobs that run in the background, as far as known.
        parallel: The frames that run in parallel, and what they have used so far.
    """

    start: RunStarted | None = None
    stack: tuple[Frame, ...] = ()
    popped: Log[PoppedFrame] = field(default_factory=Log)
    heap: Heap = Heap()
    notes: Log[str] = field(default_factory=Log)
    directory: Directory = Directory()
    limits: Limits = Limits()
    tree: str = ""
    step: int = 0
    facts: int = 0
    pushes: int = 0
    pending: Pending | None = None
    failures: tuple[ModelFailed, ...] = ()
    idle: int = 0
    several: int = 0
    usage: Usage = Usage()
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0
    clock_fresh: bool = False
    heard: tuple[str, ...] = ()
    result: str = ""
    end: RunEnded | None = None
    checks: ChecksReturned | None = None
    program: ProgramState | None = None
    session: Session | None = None
    due: HookDue | None = None
    folder: int = 0
    jobs: RunJobs = RunJobs()
    parallel: ParallelWork = ParallelWork()

    @property
    def begun(self) -> RunStarted:
        """The fact that started the run.

        Raises:
            ValueError: The run has not started.
        """
        if self.start is None:
            raise ValueError("the run has not started: fold RunStarted first")
        return self.start

    @property
    def cost_usd(self) -> float | None:
        """The cost so far. None if a price is unknown."""
        priced = not self.unpriced and (self.usd or self.begun.price is not None)
        return self.usd if priced else None

    def with_cost(self, event: ModelReplied | ContextCompacted | WordsAsked) -> State:
        """Return the state with the tokens and the cost of a reply or a compaction, and without earlier failures."""
        usd = reply_usd(event.usage, self.begun.price, event.answerer)
        return replace(
            self, facts=self.facts + 1, failures=(), usage=self.usage + event.usage, usd=self.usd + (usd or 0.0),
            unpriced=self.unpriced + (usd is None), clock_fresh=False,
        )  # fmt: skip

    def with_failure(self, event: ModelFailed) -> State:
        """Return the state with a failed attempt, and with its tokens and cost if a reply was cut off."""
        usage = Usage() if event.usage is UNSET else event.usage
        usd = reply_usd(usage, self.begun.price, UNSET) if usage.total and self.start else 0.0
        return replace(
            self, facts=self.facts + 1, failures=(*self.failures, event), usage=self.usage + usage,
            usd=self.usd + (usd or 0.0), clock_fresh=False,
        )  # fmt: skip

    @property
    def window_tokens(self) -> int:
        """The context window of the model in the running frame."""
        return (self.stack[-1].window_tokens if self.stack else 0) or self.begun.window_tokens

    @property
    def shown_bytes(self) -> int:
        """Maximum bytes of one tool result as the model sees it.

        32 KiB, an eighth of the window, or the setting for a small model, whichever is least. The results of one reply
        together have twice as many.
        """
        limit, small, pending = self.written_bytes, self.begun.small, self.pending
        limit = limit if small is UNSET else min(limit, small.result_bytes)
        return limit if pending is None or not pending.together else max(0, min(limit, 2 * limit - pending.used))

    @property
    def written_bytes(self) -> int:
        """Maximum bytes of text that one call may write: 32 KiB, or an eighth of the window if that is less."""
        return min(32_768, int(self.window_tokens / 8 * 2.5))

    @property
    def running(self) -> Frame:
        return self.stack[-1]

    @property
    def solved(self) -> bool | None:
        """The verdict of the checks. None if they have not run."""
        if self.checks is None:
            return None
        rewards = self.checks.rewards
        if self.checks.error or not rewards:
            return False
        if "reward" in rewards:
            return rewards["reward"] >= 1.0
        return all(reward >= 1.0 for reward in rewards.values())

    @property
    def outcome(self) -> str:
        """``solved`` or ``unsolved`` if checks ran, otherwise the ending.

        ``finished`` stands for the endings in which the root popped or the user left.
        """
        if self.end is None:
            return "running"
        if self.solved is not None:
            return "solved" if self.solved else "unsolved"
        return "finished" if self.end.ending in ("popped", "left") else self.end.ending
