"""What is true now: the whole memory of a run, as values that never change."""

from __future__ import annotations

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from .budgets import Limits
from .facts import (
    ChecksReturned,
    ContextCompacted,
    ModelFailed,
    ModelReplied,
    RunEnded,
    RunStarted,
    Stop,
    VerifyReturned,
)
from .heap import Heap
from .log import Log
from .memory_directory import Directory
from .messages import ReplyPart, ToolCall, Usage
from .person_facts import PersonDecided, SessionRules
from .pricing import reply_usd
from .program_facts import ProgramHalted, ProgramReturned, ProgramStarted
from .tools import Call


class Registers(Struct, frozen=True):
    """Read-only slots, set when a frame is pushed. R2 is unassigned.

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
        step: Counts the run's replies from 1.
        seconds: The run's clock when it was asked for, in seconds; 0 in a run whose clock is not read.
    """

    parts: tuple[ReplyPart, ...]
    stop: Stop
    step: int
    seconds: float = 0.0


class Result(Struct, frozen=True):
    """The answer to one call.

    Attributes:
        heap, step: Those of the moment it was given.
        read: The chunks that it brought into the conversation.
    """

    call_id: str
    text: str
    failed: bool
    heap: Heap
    step: int
    read: tuple[str, ...] = ()


class Notice(Struct, frozen=True):
    """What the harness tells the frame by itself."""

    text: str
    heap: Heap


class Compaction(Struct, frozen=True):
    """A text by the model that stands for what the conversation held up to a reply and its answer.

    Attributes:
        step: The run's replies when it was written.
        heap: As it was then.
    """

    text: str
    up_to_step: int
    step: int
    heap: Heap


Turn = Reply | Result | Notice | Compaction


class Frame(Struct, frozen=True):
    """One scope of work with a conversation of its own.

    Attributes:
        id: ``frame-N``; the root is ``frame-0``.
        depth: 0 for the root.
        task: The whole task text in the root, empty elsewhere.
        missing: Chunk names its objective or context mentions that did not exist at the push.
        parent: The id of the frame that pushed it; empty for the root.
        call_id: The parent's call that its result answers.
        opened: The heap at the push.
        turns: Its conversation, oldest first; kept after the pop.
        started_step, started_tokens, started_seconds: Run totals at the push; what is spent counts from there.
        opened_chars: Characters of a prompt of this frame before any turn, near enough.
        prompt_tokens: Prompt tokens of the last reply in this frame, 0 before the first and after a compaction.
        chars: Characters added to the prompt since that reply; where there is none, of the whole prompt.
        refused: Calls refused since the frame was told to close.
        told: Codes of the notices given to this frame.
        program: Of a frame that a program pushed: ``steps`` where the program goes on in it, ``work`` where the agent
            does; empty elsewhere.
        schema: JSON text of the schema that its result must fit, or empty.
        unfit: Results that did not fit so far.
        pushed_at: Depth from which the agent's own pushes count: 0, or that of the program's frame.
        model: The model that works in it, and in those pushed from it; empty where that is the run's own.
        window_tokens: The window of that model, once it has replied; else 0.
        request: Whether it is for a person's request, which is its task.
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

    @property
    def context_tokens(self) -> int:
        """Estimated prompt tokens of the next request: the last reply's own count, and characters / 2.5 since."""
        return self.prompt_tokens + int(self.chars / 2.5)


class PoppedFrame(Struct, frozen=True):
    """A frame that ended, with what it returned."""

    frame: Frame
    result: str
    step: int
    forced: str = ""
    verified: str = ""


class Pending(Struct, frozen=True):
    """A reply whose calls are not answered yet.

    Attributes:
        call: The first of them as its tool's class; None where it cannot be one.
        digests: Digests of the sources it names, once taken.
        verified: The outcome of the frame's verify command, once run.
        decided: What the person decided of it, once asked.
        first: Whether the first call counts and the others are answered that they were not performed.
    """

    calls: tuple[ToolCall, ...]
    stop: Stop
    call: Call | None = None
    digests: dict[str, str] | None = None
    verified: VerifyReturned | None = None
    decided: PersonDecided | None = None
    first: bool = False


class Grant(Struct, frozen=True):
    """What the person allowed for longer than one call.

    Attributes:
        pattern: As in ``PersonDecided``.
        frame: Id of the frame with which it ends; empty where it holds for the session.
    """

    tool: str
    pattern: str
    frame: str


class Session(Struct, frozen=True):
    """Where a conversation with a person stands.

    Attributes:
        requests: So many she made.
        request: One that has no frame yet.
        working: Whether one is worked on, or about to be.
        stopped: Whether she ended it, and its frames are still to be popped.
    """

    rules: SessionRules
    requests: int = 0
    request: str = ""
    working: bool = False
    stopped: bool = False
    grants: tuple[Grant, ...] = ()


class ProgramState(Struct, frozen=True):
    """Where a program stands.

    Attributes:
        path: Of the step that was entered last.
        entered: Steps entered so far.
        said: Texts said so far.
        halted, returned: How it ended, once it has; a resumed run takes back a halt.
    """

    start: ProgramStarted
    path: str = ""
    entered: int = 0
    said: int = 0
    halted: ProgramHalted | None = None
    returned: ProgramReturned | None = None


class State(Struct, frozen=True):
    """The whole memory of a run.

    Attributes:
        stack: Frames, root first; the last one is running. Empty before the start and after the root's pop.
        popped: Frames that ended, oldest first.
        limits: Those in force: the start's, or those it was resumed with.
        notes: The scratchpad, oldest first.
        directory: The files of the memory tool.
        tree: The workspace after the last call that may have changed it.
        step: Model replies so far.
        facts: Model replies, compactions and failures so far.
        pushes: Frames pushed so far; names the next one.
        failures: The provider's failures since the last reply, newest last.
        idle: Replies in a row without a usable call.
        several: Replies in a row with several calls.
        usage: Tokens of all replies and compactions.
        usd: The cost of those whose price is known.
        unpriced: Replies and compactions whose price is not known.
        seconds: The last clock reading.
        clock_fresh: The clock was read since the last model fact.
        heard: What a person said meanwhile and the model was not told yet.
        result: The root's result; in a conversation that of the last request.
        program: Of a program's run; None elsewhere.
        session: Of a conversation with a person; None elsewhere.
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

    @property
    def begun(self) -> RunStarted:
        """The start of a run that has one."""
        if self.start is None:
            raise ValueError("the run has not started: fold RunStarted first")
        return self.start

    @property
    def cost_usd(self) -> float | None:
        """The cost so far; None where a price is unknown."""
        known = not self.unpriced and (self.usd or self.begun.price is not None)
        return self.usd if known else None

    def with_cost(self, event: ModelReplied | ContextCompacted) -> State:
        """With the tokens and the cost of a reply or a compaction, and the provider's failures forgotten."""
        usd = reply_usd(event.usage, self.begun.price, event.answerer)
        return replace(
            self,
            facts=self.facts + 1,
            failures=(),
            usage=self.usage + event.usage,
            usd=self.usd + (usd or 0.0),
            unpriced=self.unpriced + (usd is None),
            clock_fresh=False,
        )

    def with_failure(self, event: ModelFailed) -> State:
        """With a failed attempt, and with the tokens and the cost of one that was cut."""
        usage = Usage() if event.usage is UNSET else event.usage
        usd = reply_usd(usage, self.begun.price, UNSET) if usage.total and self.start else 0.0
        return replace(
            self,
            facts=self.facts + 1,
            failures=(*self.failures, event),
            usage=self.usage + usage,
            usd=self.usd + (usd or 0.0),
            clock_fresh=False,
        )

    @property
    def window_tokens(self) -> int:
        """The context window of the model that works in the running frame."""
        own = self.stack[-1].window_tokens if self.stack else 0
        return own or self.begun.window_tokens

    @property
    def shown_bytes(self) -> int:
        """How much of one tool result the model is shown: 32 KiB, an eighth of its window, or what a small model gets,
        whichever is less.
        """
        small = self.begun.small
        return self.written_bytes if small is UNSET else min(self.written_bytes, small.result_bytes)

    @property
    def written_bytes(self) -> int:
        """The longest text that one call may write: 32 KiB, or an eighth of the window if that is less."""
        return min(32_768, int(self.window_tokens / 8 * 2.5))

    @property
    def running(self) -> Frame:
        return self.stack[-1]

    @property
    def solved(self) -> bool | None:
        """The checks' verdict; None where there is none to be had."""
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
        """``solved`` or ``unsolved`` by the checks, else the ending; ``finished`` where the root popped or she left."""
        if self.end is None:
            return "running"
        if self.solved is not None:
            return "solved" if self.solved else "unsolved"
        return "finished" if self.end.ending in ("popped", "left") else self.end.ending
