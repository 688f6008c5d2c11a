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
    """Read-only registers, set when a frame is pushed. R2 is unassigned.

    Attributes:
        intent: R0, why the frame exists.
        return_spec: R1, what its result must look like.
        constraint: R3, free text or enforced limits.
    """

    intent: str
    return_spec: str
    constraint: str = ""


class Reply(Struct, frozen=True):
    """A turn of the model.

    Attributes:
        step: Number of the reply in the run, from 1.
        seconds: The run's clock in seconds when the reply was requested; 0 if the clock is not read in this run.
    """

    parts: tuple[ReplyPart, ...]
    stop: Stop
    step: int
    seconds: float = 0.0


class Result(Struct, frozen=True):
    """The answer to one call.

    Attributes:
        heap, step: The heap and the step when the answer was given.
        read: The chunks that it added to the conversation.
    """

    call_id: str
    text: str
    failed: bool
    heap: Heap
    step: int
    read: tuple[str, ...] = ()
    images: Images = UNSET


class Notice(Struct, frozen=True):
    """A message from the harness that does not answer a call."""

    text: str
    heap: Heap
    images: Images = UNSET


class Compaction(Struct, frozen=True):
    """A summary by the model that replaces the conversation up to a reply and its answer.

    Attributes:
        step, heap: Number of replies of the run when it was written, and the heap then.
        block: The provider's own summary, if the provider wrote it. It is sent back unchanged.
    """

    text: str
    up_to_step: int
    step: int
    heap: Heap
    block: dict[str, Any] | None = None


Turn = Reply | Result | Notice | Compaction


class Frame(Struct, frozen=True):
    """One scope of work, with its own conversation.

    Attributes:
        id, depth: ``frame-N``, and 0 for the root ``frame-0``.
        task: The whole task text in the root, empty elsewhere.
        missing: Names of chunks that its objective or context mentions but that did not exist at the push.
        parent: The id of the frame that pushed it. Empty for the root.
        call_id: The parent's call that its result answers.
        opened: The heap at the push.
        turns: Its conversation, oldest first. Kept after the pop.
        started_step, started_tokens, started_seconds: Totals of the run at the push, from which its limits count.
        opened_chars: Estimated characters of this frame's prompt before any turn.
        prompt_tokens: Prompt tokens of the last reply in this frame; 0 before the first and after a compaction.
        chars: Characters added to the prompt since that reply, or of the whole prompt if there is none.
        refused: Calls refused since the frame was closed.
        told: Codes of the notices that this frame has received.
        program: ``steps`` if a program continues in this frame, ``work`` if the agent works in it for a program. Empty
            if no program pushed it.
        schema: JSON text of the schema that its result must fit, or empty.
        unfit: Number of results so far that did not fit the schema.
        pushed_at: Depth from which the agent's own pushes count: 0, or that of the program's frame.
        model: The model of this frame and of those pushed from it. Empty for the run's own.
        window_tokens: The window of that model, known after its first reply; otherwise 0.
        request: Whether the frame handles a user's request, which is its task.
        related: Earlier requests that may matter for a user's request, as it shows them.
        standing: The user's standing words at the push, for a frame that the agent pushed.
        standing_seen: Number of changes of them that its prompt contains; -1 if a summary replaced them.
        standing_step: Number of replies of the run when its prompt last got some of them.
    """

    id: str
    name: str
    depth: int
    registers: Registers
    context: str
    opened: Heap
    turns: Log[Turn]
    task: str = ""
    verify: str = ""
    missing: tuple[str, ...] = ()
    parent: str = ""
    call_id: str = ""
    started_step: int = 0
    started_tokens: int = 0
    started_seconds: float = 0.0
    opened_chars: int = 0
    prompt_tokens: int = 0
    chars: int = 0
    refused: int = 0
    told: frozenset[str] = frozenset()
    program: str = ""
    schema: str = ""
    unfit: int = 0
    pushed_at: int = 0
    model: str = ""
    window_tokens: int = 0
    request: bool = False
    related: str = ""
    standing: str = ""
    standing_seen: int = 0
    standing_step: int = 0
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
    """A reply whose calls are not answered yet.

    Attributes:
        call: The first call as an instance of its tool's class. None if it is invalid.
        digests, verified: Digests of the sources that it names, and the outcome of the verify command, once known.
        decided, earlier, hooked: The user's decision, the result of a search, and the hooks that ran before the call.
        first: Whether the first call is performed and the others are answered as not performed.
        together: Whether the calls only read and are all answered (guidance/reading.py). Answered ones are left out.
        used: Bytes of the results of the same reply so far.
        words: Notices that follow the last result.
        refused: Whether an earlier call of the reply was refused because the frame is closed.
    """

    calls: tuple[ToolCall, ...]
    stop: Stop
    call: Call | None = None
    digests: dict[str, str] | None = None
    verified: VerifyReturned | None = None
    decided: PersonDecided | None = None
    earlier: RecallFound | None = None
    hooked: tuple[HookRan, ...] = ()
    first: bool = False
    together: bool = False
    used: int = 0
    words: tuple[str, ...] = ()
    refused: bool = False


class Grant(Struct, frozen=True):
    """A permission for longer than one call.

    Attributes:
        pattern: As in ``PersonDecided``.
        frame: Id of the frame with which it ends. Empty if it is valid for the session.
    """

    tool: str
    pattern: str
    frame: str


class Session(Struct, frozen=True):
    """The status of a conversation with a user.

    Attributes:
        requests, request: Number of requests so far, and a request that has no frame yet.
        working: Whether a request is in progress or about to start.
        stopped: Whether the user stopped the request and its frames still have to be popped.
        standing: The user's standing words, as changes from the first to the last.
        said: What the user said, without commands.
        ran, images: Commands of the user, and attached files and images, which the model has not read yet.
        planning, steps: Whether plan mode is on; the requests for steps of an accepted plan that have not started.
        unasked: A request that the model must still be asked about (conversation/upkeep.py).
        compacting: Whether the user asked for a summary that is not written yet.
    """

    rules: SessionRules
    requests: int = 0
    request: str = ""
    working: bool = False
    stopped: bool = False
    grants: tuple[Grant, ...] = ()
    standing: Changes = ()
    said: Log[UserMessage] = field(default_factory=Log)
    planning: bool = False
    steps: tuple[str, ...] = ()
    unasked: str = ""
    ran: tuple[str, ...] = ()
    images: tuple[ImageRef, ...] = ()
    compacting: bool = False


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
