"""The facts of a run, in the past tense. A trace is a list of them; the state is a fold over them.

Those in ``GIVEN`` and ``ANSWERS`` (``requests.py``) come from outside, as may ``RunEnded``; replay checks the others.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from .budgets import Budgets, Limits, SmallSize
from .heap import ChunkSet, KeptHeap
from .messages import FailureKind, PromptText, ReplyPart, ToolSpec, Usage
from .network import NetworkRequest
from .person_facts import PersonEvent, SessionRules
from .pricing import Answerer, Price
from .program_facts import ProgramEvent

RULES = 2  # raised whenever a golden trace changes: replay is strict only between equal rules
Stop = Literal["call", "end", "truncated", "refused", "window", "paused"]
Ending = Literal[
    "popped", "stalled", "limit:steps", "limit:tokens", "limit:usd", "limit:seconds",
    "model_error", "workspace_error", "interrupted", "halted", "input_needed", "left",
]  # fmt: skip


class Redaction(Struct, frozen=True):
    """What a redacted copy was made of: the digest of the original's last record, and the sequence numbers of the
    records in which something was replaced.
    """

    digest: str
    records: tuple[int, ...]


class RunStarted(Struct, frozen=True, tag=True):
    """A run began. Everything the rules read that is not decided by them stands here, once.

    Attributes:
        task: The whole task text.
        strategy: The strategy with its parameters, as ``--strategy`` spells it.
        system: The system prompt, slots filled.
        tools: The tools offered in every request, in their order.
        workspace: The workspace's path as commands see it.
        window_tokens: The model's context window.
        window_source: Who says so, where a server was asked.
        price: None where the price of the model is unknown; the cost then is, too.
        checked: True where checks decide the outcome.
        command_seconds: Limit of each command.
        thinking: Whether the model is sent its own thinking back.
        tree: The workspace at the start, as the run's history names it; empty where none is kept.
        redacted: Of a redacted copy; not written elsewhere.
        own_tools: Those of ``tools`` that are the person's own; not written where there are none.
        texts: The strategy's other prompts, such as the request for a summary; not written where there are none.
        project: What was seen of the folder's own environment, as frames are told; not written where there is nothing.
        place: The folder in the workspace where commands begin; not written if that is the workspace itself.
        instructions: The project's own, as frames are told them; not written where there are none.
        several_calls: ``first`` if the second reply in a row with several calls has its first call performed.
        session: Of a conversation with a person; not written elsewhere.
        questions: ``end`` where a question that nobody answers ends the run; not written in older runs.
        client: Who makes the calls, in a run of ``stackmem mcp``; not written elsewhere.
        heap: What it took over from earlier runs, with ``--heap``; not written elsewhere.
        allowed: The hosts that commands reach, where ``network`` is ``list``; not written elsewhere.
        index: ``escaped`` if the heap index escapes what imitates its columns; not written in older runs.
        circles: ``refused`` if calls in a circle are refused (guidance/repetition.py); not written in older runs.
        small: What a small model gets (``--size``); not written in other runs.
        text_calls: ``prompt`` if tools and calls are sent as text; not written otherwise.
    """

    task: str
    task_name: str
    model: str
    strategy: str
    system: str
    tools: tuple[ToolSpec, ...]
    workspace: str
    isolation: str
    network: str
    budgets: Budgets
    limits: Limits
    window_tokens: int
    price: Price | None
    checked: bool
    command_seconds: float
    version: str
    rules: int = RULES
    thinking: Literal["kept", "dropped"] = "kept"
    tree: str = ""
    redacted: Redaction | UnsetType = UNSET
    own_tools: tuple[str, ...] | UnsetType = UNSET
    texts: tuple[PromptText, ...] | UnsetType = UNSET
    project: str | UnsetType = UNSET
    place: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    several_calls: Literal["first"] | UnsetType = UNSET
    window_source: str | UnsetType = UNSET
    session: SessionRules | UnsetType = UNSET
    questions: Literal["end"] | UnsetType = UNSET
    client: str | UnsetType = UNSET
    heap: KeptHeap | UnsetType = UNSET
    allowed: tuple[str, ...] | UnsetType = UNSET
    index: Literal["escaped"] | UnsetType = UNSET
    circles: Literal["refused"] | UnsetType = UNSET
    small: SmallSize | UnsetType = UNSET
    text_calls: Literal["prompt"] | UnsetType = UNSET

    @property
    def registered(self) -> tuple[str, ...]:
        """The names of the person's own tools."""
        return () if self.own_tools is UNSET else self.own_tools


class RunResumed(Struct, frozen=True, tag=True):
    """A run that had stopped goes on; what it had ended with is taken back.

    Attributes:
        limits: In force from here on; they count from the run's start.
        isolation: The level in force from here on.
        version: The stackmem that resumed it.
        answerer: The run's own model from here on, where it had none; not written elsewhere.
        said: What the person says now, an answer to an open question or a request; not written where that is nothing.
    """

    limits: Limits
    isolation: str
    version: str
    answerer: Answerer | UnsetType = UNSET
    said: str | UnsetType = UNSET


class RunForked(Struct, frozen=True, tag=True):
    """A run began where another one stood; the other's records up to ``at`` come before its own.

    Attributes:
        parent: Id of the other run.
        at: Sequence number of the last record shared.
        digest: That record's digest: it stands for all before it.
        start: What holds from here on: strategy, model, prompt, limits.
        chunks: Put on the heap, over what had their names.
        dropped: Names taken from the heap.
    """

    parent: str
    at: int
    digest: str
    start: RunStarted
    chunks: tuple[ChunkSet, ...] = ()
    dropped: tuple[str, ...] = ()


class ModelReplied(Struct, frozen=True, tag=True):
    """The model gave one whole reply: one step.

    Attributes:
        prompt_digest: The digest of the view it answers.
        reply_id: The provider's name for the reply.
        branch: Of a completion that a program asked for: which one of its group, from 0; not written elsewhere.
        answerer: Of a reply by another model than the run's own; not written elsewhere.
        repairs: What was mended in the reply before it was recorded, one sentence each; not written if nothing was.
    """

    parts: tuple[ReplyPart, ...]
    stop: Stop
    usage: Usage
    prompt_digest: str = ""
    detail: str = ""
    reply_id: str = ""
    branch: int | UnsetType = UNSET
    answerer: Answerer | UnsetType = UNSET
    repairs: tuple[str, ...] | UnsetType = UNSET


class ModelFailed(Struct, frozen=True, tag=True):
    """The provider gave no whole reply to one attempt; ``usage`` is estimated, of one that was cut.

    Attributes:
        retry_after_seconds: What the provider asks to wait, unbounded as it came.
    """

    kind: FailureKind
    detail: str
    retry_after_seconds: float | None = None
    prompt_digest: str = ""
    branch: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET


class ContextCompacted(Struct, frozen=True, tag=True):
    """The model put what a frame's conversation held into a text that stands for it from then on. It is no step.

    Attributes:
        frame: Id of the frame, the running one.
        up_to_step: The text stands for everything up to this reply and its answer.
        text: The texts of the reply; whatever else it held is dropped. Empty: nothing was kept.
        prompt_digest: The digest of the view that asked for it.
        stop, detail, reply_id, answerer: As in ``ModelReplied``.
    """

    frame: str
    up_to_step: int
    text: str
    usage: Usage
    prompt_digest: str = ""
    stop: Stop = "end"
    detail: str = ""
    reply_id: str = ""
    answerer: Answerer | UnsetType = UNSET


class ToolReturned(Struct, frozen=True, tag=True):
    """A workspace call came back.

    Attributes:
        text: What the model is shown: clean and clipped.
        failed: The tool did not do what was asked; a command with a non-zero exit did.
        exit_code: Of a command; None where it was killed, and for the other tools.
        digests: Path to SHA-256 of the heap's sources, or ``unknown``, ``missing``, ``outside``.
        tree: The workspace after a call that may change it, as the run's history names it; else empty.
    """

    text: str
    failed: bool = False
    exit_code: int | None = None
    digests: dict[str, str] = {}
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET


class VerifyReturned(Struct, frozen=True, tag=True):
    """A frame's verify command ended; ``outcome`` is ``exit N`` or ``timeout``."""

    outcome: str
    text: str
    digests: dict[str, str] = {}
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET


class SourcesDigested(Struct, frozen=True, tag=True):
    """The digests asked for; values as in ``ToolReturned.digests``."""

    digests: dict[str, str]


class ClockRead(Struct, frozen=True, tag=True):
    """Wall time of the run so far."""

    elapsed_seconds: float


class ChecksReturned(Struct, frozen=True, tag=True):
    """The task's checks judged the workspace.

    Attributes:
        rewards: Name to reward; the run is solved where ``reward`` (or, without it, every one) is at least 1.0.
        error: Why there is no verdict; the run is then unsolved.
        text: The end of what the checks printed.
    """

    rewards: dict[str, float]
    error: str = ""
    text: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET


class ProgramFrame(Struct, frozen=True):
    """What a program's frame is.

    Attributes:
        kind: ``steps`` where the program itself goes on in it, ``work`` where the agent does.
        task: The whole task, for the frame's first message.
        schema: JSON text of the schema that the result must fit, or empty.
        model: Of a frame in which another model than the run's own works; not written elsewhere.
    """

    kind: Literal["steps", "work"]
    task: str = ""
    schema: str = ""
    model: str | UnsetType = UNSET


class FramePushed(Struct, frozen=True, tag=True):
    """A child frame began with a clean conversation; its parent waits.

    Attributes:
        frame: ``frame-N``, unique in the run.
        constraint: R3 as shown: the call's own, or the steps and tokens left.
        stored: Names of the chunks that the same call stored.
        missing: Chunk names that the objective or context mentions and the heap does not hold.
        program: Of a frame that a program pushed; not written elsewhere.
        request: The person's request that it is for; not written elsewhere.
    """

    frame: str
    name: str
    intent: str
    return_spec: str
    constraint: str
    context: str
    stored: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    program: ProgramFrame | UnsetType = UNSET
    request: str | UnsetType = UNSET


class FramePopped(Struct, frozen=True, tag=True):
    """The running frame ended; later prompts leave out its turns, its result is the parent's.

    Attributes:
        forced: Why the harness popped it (``stopped`` by the person); empty where the model did.
        verified: ``exit N``, ``timeout`` or ``not verified``; empty where the frame has no verify command.
    """

    frame: str
    result: str
    forced: str = ""
    verified: str = ""
    stored: tuple[str, ...] = ()


class ChunkAllocated(Struct, frozen=True, tag=True):
    """A new chunk stands on the heap; its content is the call's."""

    name: str
    chars: int


class ChunkRead(Struct, frozen=True, tag=True):
    """A chunk's content entered the running frame; ``others`` were read by the same call, and ``chars`` counts all."""

    name: str
    chars: int
    others: tuple[str, ...] | UnsetType = UNSET

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(self.others or ()))


class ChunkWritten(Struct, frozen=True, tag=True):
    """A chunk's content was replaced by the call's."""

    name: str
    chars: int


class ChunkFreed(Struct, frozen=True, tag=True):
    """A chunk left the heap; the trace keeps it."""

    name: str
    chars: int


class CallAnswered(Struct, frozen=True, tag=True):
    """A call was answered from the state alone; what the model was told follows from the call and the state."""

    tool: str
    chars: int


class CallRejected(Struct, frozen=True, tag=True):
    """The calls of a reply were refused; nothing else changed. The model reads ``reason``."""

    code: str
    reason: str


class ReplyNudged(Struct, frozen=True, tag=True):
    """A reply without a usable call was answered with what to do."""

    code: str
    text: str


class NoticeGiven(Struct, frozen=True, tag=True):
    """The running frame was told that something runs short."""

    code: str
    text: str


class RunEnded(Struct, frozen=True, tag=True):
    """The run is over, until it is resumed; ``result`` is what it achieved."""

    ending: Ending
    result: str


Event = (
    RunStarted | RunResumed | RunForked | ModelReplied | ModelFailed | ContextCompacted | ToolReturned
    | VerifyReturned | SourcesDigested | ClockRead | ChecksReturned | FramePushed | FramePopped | ChunkAllocated
    | ChunkRead | ChunkWritten | ChunkFreed | CallAnswered | CallRejected | ReplyNudged | NoticeGiven | RunEnded
    | ProgramEvent | PersonEvent
)  # fmt: skip
