"""The facts of a run, in the past tense. A trace is a list of facts, and the state is a fold over them.

The facts in ``EXTERNAL`` and ``ANSWERS`` (``requests.py``) come from outside, and so may ``RunEnded``. A replay derives
all the others again and compares them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from .budgets import Budgets, Limits, SmallSize
from .conversation.hook_facts import Hook, HookRan
from .declarations import Voice
from .guidance.skills import Skill
from .heap import ChunkSet, KeptHeap
from .images import Images
from .images.vision import Vision
from .jobs.calls import EndedJob, JobNumbers
from .messages import FailureKind, PromptText, ReplyPart, Text, ToolCall, ToolSpec, Usage
from .network import NetworkRequest, SearchBill
from .parallel.facts import ParallelEvent
from .person_facts import AttachedFile, PermissionRule, PersonEvent, RecallFound, SessionRules
from .pricing import Answerer, Price
from .program_facts import OfferedProgram, ProgramEvent

RULES = 3  # raised whenever a golden trace changes: a replay is strict only between equal rules
Checkpoint = Literal["improved", "unchanged"]
Stop = Literal["call", "end", "truncated", "refused", "window", "paused"]
Ending = Literal[
    "popped", "stalled", "limit:steps", "limit:tokens", "limit:usd", "limit:seconds",
    "model_error", "workspace_error", "interrupted", "halted", "input_needed", "left",
]  # fmt: skip


class Redaction(Struct, frozen=True):
    """How a redacted copy was made: the digest of the original's last record, and the sequence numbers of the
    records in which something was replaced.
    """

    digest: str
    records: tuple[int, ...]


class RunStarted(Struct, frozen=True, cache_hash=True, tag=True):
    """A run began. Records once everything that the rules read and do not decide themselves.

    Attributes:
        task: The whole task text.
        strategy: The strategy with its parameters, spelled as for ``--strategy``.
        system: The system prompt with its slots filled.
        tools: The tools offered in every request, in order.
        workspace: The path of the workspace as commands see it.
        window_tokens: The model's context window.
        window_source: Where the window size comes from, if a server reported it.
        price: None if the price of the model is unknown; the cost is then unknown too.
        checked: True if checks decide the outcome.
        command_seconds: Time limit of each command.
        thinking: Whether the model's own thinking is sent back to it.
        tree: The initial workspace, as an id in the run's history. Empty if no history is kept.
        redacted: How the copy was made. Only in redacted copies.
        own_tools: The names of the ``tools`` that the user defined. Omitted if there are none.
        texts: The strategy's other prompts, such as the request for a summary. Omitted if there are none.
        project: The detected environment of the project, as frames see it. Omitted if none was detected.
        place: The folder in the workspace in which commands start. Omitted if that is the workspace itself.
        instructions: The project's own instructions, as frames see them. Omitted if there are none.
        several_calls: ``first`` if the second reply in a row with several calls has its first call performed.
        session: The rules of a conversation with a user. Only in conversations.
        questions: ``end`` if a question that stays unanswered ends the run. Omitted in older runs.
        client: The agent that makes the calls. Only in runs of ``stackmem mcp``.
        heap: The chunks and memory files taken over from earlier runs. Only with ``--heap``.
        allowed: The hosts that commands may reach. Only if ``network`` is ``list``.
        index: ``escaped`` if the heap index escapes text that imitates its columns. Omitted in older runs.
        circles: ``refused`` if repeated calls are refused (guidance/repetition.py). Omitted in older runs.
        small: The settings for a small model (``--size``). Omitted in other runs.
        text_calls: ``prompt`` if tools and calls are sent as text. Omitted otherwise.
        skills: The skills on the heap. Omitted if there are none.
        checkpoints: ``on`` if the first attempt of a push or pop is answered with what the frame found and does not
            hand over (guidance/checkpoints.py); ``pops`` if only that of a pop is. Omitted in other runs.
        clearing: ``paying`` if ``adaptive`` clears old results once that pays (memory/adaptive.py). Omitted in older
            runs and under other strategies.
        programs: The programs that the agent can call. Omitted if there are none.
        permissions: The permission rules for calls. Omitted if there are none.
        hooks: The hooks of the user. Omitted if there are none.
        unseen: What the agent does not see, or sees changed, one sentence each. Omitted if it sees everything.
        vision: How the model takes images. Omitted if it cannot see any.
        read_calls: ``many`` if several read-only calls in one reply are answered together (guidance/reading.py).
            Omitted in other runs.
        attached: What the user attached to the task. Omitted if there is nothing.
        parallel: How many frames may run in parallel. Omitted if the agent cannot start several frames together.
        guards: ``programs`` if the permission rules and hooks also apply to the steps of programs. Omitted in older
            runs, and if there are neither rules nor hooks.
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
    unseen: tuple[str, ...] | UnsetType = UNSET
    skills: tuple[Skill, ...] | UnsetType = UNSET
    checkpoints: Literal["on", "pops"] | UnsetType = UNSET
    programs: tuple[OfferedProgram, ...] | UnsetType = UNSET
    permissions: tuple[PermissionRule, ...] | UnsetType = UNSET
    hooks: tuple[Hook, ...] | UnsetType = UNSET
    vision: Vision | UnsetType = UNSET
    read_calls: Literal["many"] | UnsetType = UNSET
    attached: tuple[AttachedFile, ...] | UnsetType = UNSET
    clearing: Literal["paying"] | UnsetType = UNSET
    guards: Literal["programs"] | UnsetType = UNSET
    parallel: int | UnsetType = UNSET

    @property
    def registered(self) -> tuple[str, ...]:
        """The names of the tools that the user defined."""
        return () if self.own_tools is UNSET else self.own_tools

    @property
    def voice(self) -> Voice:
        return Voice("run", f"task {self.task_name} with {self.model} under {self.strategy}", self._words)

    @property
    def _words(self) -> str:
        notes = [f"note: {note}" for note in self.unseen or ()]
        return "\n".join((self.task, *notes, *(f"attached: {file.name}" for file in self.attached or ())))


class RunResumed(Struct, frozen=True, tag=True):
    """A stopped run continues; its ending is withdrawn.

    Attributes:
        limits: The limits from here on. They count from the start of the run.
        isolation: The isolation level from here on.
        version: The version of stackmem that resumed the run.
        answerer: The run's model from here on, if it had none before. Omitted otherwise.
        said: The user's text on resuming: an answer to an open question, or a request. Omitted if empty.
    """

    limits: Limits
    isolation: str
    version: str
    answerer: Answerer | UnsetType = UNSET
    said: str | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("run", f"resumed by stackmem {self.version}", self.said or "")


class RunForked(Struct, frozen=True, tag=True):
    """A run branched off another run. The other run's records up to ``at`` precede its own.

    Attributes:
        parent: Id of the other run.
        at: Sequence number of the last shared record.
        digest: The digest of that record, which covers all records before it.
        start: The strategy, model, prompt and limits from here on.
        chunks: Chunks put on the heap. They replace chunks of the same name.
        dropped: Names of chunks removed from the heap.
        frame: The parallel frame that this run is. Omitted in other forks.
    """

    parent: str
    at: int
    digest: str
    start: RunStarted
    chunks: tuple[ChunkSet, ...] = ()
    dropped: tuple[str, ...] = ()
    frame: str | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("run", f"forked from {self.parent} at record {self.at}")


class ModelReplied(Struct, frozen=True, tag=True):
    """The model gave one complete reply, which is one step.

    Attributes:
        prompt_digest: The digest of the view that it answers.
        reply_id: The provider's id of the reply.
        branch: The index in its group, from 0, of a completion that a program requested. Omitted elsewhere.
        answerer: The model, if it is not the run's own. Omitted otherwise.
        repairs: Repairs made to the reply before it was recorded, one sentence each. Omitted if there were none.
        mended: Changes to the request and to ids of calls that the run needed, one sentence each. Omitted if none.
        applied_edits: The provider's report of what it took out of the prompt, as received. Omitted without one.
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
    mended: tuple[str, ...] | UnsetType = UNSET
    applied_edits: tuple[dict[str, Any], ...] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        calls = ", ".join(part.name for part in self.parts if isinstance(part, ToolCall))
        text = "\n".join(part.text for part in self.parts if isinstance(part, Text))
        return Voice("reply", f"called {calls}" if calls else "replied without a call", text)


class ModelFailed(Struct, frozen=True, tag=True):
    """One attempt ended without a complete reply.

    Attributes:
        retry_after_seconds: How long the provider asks to wait, as received and without an upper bound.
        usage: Estimated, for a reply that was cut off. Omitted otherwise.
        mended: As in ``ModelReplied``.
    """

    kind: FailureKind
    detail: str
    retry_after_seconds: float | None = None
    prompt_digest: str = ""
    branch: int | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    mended: tuple[str, ...] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("notice", f"the provider failed: {self.kind}", self.detail, failed=True)


class ContextCompacted(Struct, frozen=True, tag=True):
    """The model summarized a frame's conversation; from here on the summary replaces it. This is not a step.

    Attributes:
        frame: Id of the running frame.
        up_to_step: The summary covers everything up to this reply and its answer.
        text: The text of the reply; its other parts are dropped. Empty means that nothing was kept.
        prompt_digest, stop, detail, reply_id, answerer, mended: As in ``ModelReplied``.
        block: The provider's own summary, if the provider summarized, as it is sent back. Omitted otherwise.
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
    mended: tuple[str, ...] | UnsetType = UNSET
    block: dict[str, Any] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"compacted up to step {self.up_to_step}", self.text)


class ToolReturned(Struct, frozen=True, tag=True):
    """A workspace call returned.

    Attributes:
        text: The text for the model, cleaned and clipped.
        failed: The tool did not do what the call requested. A command with a non-zero exit code has not failed.
        exit_code: The exit code of a command. None if it was killed, and for other tools.
        digests: Maps each source path of the heap to its SHA-256, or to ``unknown``, ``missing`` or ``outside``.
        tree: The workspace after a call that may change it, as an id in the run's history. Empty otherwise.
        jobs: The job that the call started, and the jobs whose end it reports. Omitted if there are none.
        images: The images that the model sees after the text. Omitted if there are none.
        search: The cost of a web search. Omitted for other calls.
    """

    text: str
    failed: bool = False
    exit_code: int | None = None
    digests: dict[str, str] = {}
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET
    jobs: JobNumbers | UnsetType = UNSET
    images: Images = UNSET
    search: SearchBill | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        ended = "" if self.exit_code in (None, 0) else f"exit {self.exit_code}"
        return Voice("result", ended or ("failed" if self.failed else "returned"), self.text, self.failed)


class VerifyReturned(Struct, frozen=True, tag=True):
    """A frame's verify command ended. ``outcome`` is ``exit N`` or ``timeout``."""

    outcome: str
    text: str
    digests: dict[str, str] = {}
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("verdict", f"verified: {self.outcome}", self.text)


class JobsEnded(Struct, frozen=True, tag=True):
    """Background jobs ended since the last fact, and no answer has reported it.

    Attributes:
        digests, tree, requests: As in ``ToolReturned``.
    """

    jobs: tuple[EndedJob, ...]
    digests: dict[str, str] = {}
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return "\n".join(f"[job {job.number} {job.how}: {job.command}]\n{job.tail}".rstrip() for job in self.jobs)

    @property
    def voice(self) -> Voice:
        text = "; ".join(f"job {job.number} {job.how}: {job.command}" for job in self.jobs)
        return Voice("notice", text or "jobs ended")


class SourcesDigested(Struct, frozen=True, tag=True):
    """The requested digests were computed. The values are as in ``ToolReturned.digests``."""

    digests: dict[str, str]

    @property
    def voice(self) -> Voice:
        return Voice("internal", f"computed {len(self.digests)} digests of sources")


class ClockRead(Struct, frozen=True, tag=True):
    """The clock was read: wall time of the run so far."""

    elapsed_seconds: float

    @property
    def voice(self) -> Voice:
        return Voice("internal", f"{self.elapsed_seconds:g} s have passed")


class ChecksReturned(Struct, frozen=True, tag=True):
    """The task's checks judged the workspace.

    Attributes:
        rewards: Maps names to rewards. The run is solved if ``reward`` (without it, each of them) is at least 1.0.
        error: Why the checks gave no verdict. The run is then unsolved.
        text: The end of the output of the checks.
    """

    rewards: dict[str, float]
    error: str = ""
    text: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        rewards = ", ".join(f"{name} {reward:g}" for name, reward in self.rewards.items())
        return Voice("verdict", f"checks: {self.error or rewards}", self.text, failed=bool(self.error))


class ProgramFrame(Struct, frozen=True):
    """The purpose and settings of a program's frame.

    Attributes:
        kind: ``steps`` if the program itself continues in it, ``work`` if the agent works in it.
        task: The whole task, for the first message of the frame.
        schema: JSON text of the schema that the result must fit, or empty.
        model: The model that works in the frame, if it is not the run's own. Omitted otherwise.
    """

    kind: Literal["steps", "work"]
    task: str = ""
    schema: str = ""
    model: str | UnsetType = UNSET


class FramePushed(Struct, frozen=True, tag=True):
    """A child frame began with an empty conversation; its parent waits.

    Attributes:
        frame: ``frame-N``, unique in the run.
        constraint: R3 as the model sees it: the constraint of the call, or the steps and tokens left.
        stored: Names of the chunks that the same call stored.
        missing: Names of chunks that the objective or context mentions but that are not on the heap.
        program: What the frame is for, if a program pushed it. Omitted otherwise.
        request: The user's request that the frame handles. Omitted elsewhere.
        checkpoint: Whether the answer to the first attempt changed what is handed over. Omitted if there was none.
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
    checkpoint: Checkpoint | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("frame", f"pushed {self.frame} {self.name}", self.intent)


class FramePopped(Struct, frozen=True, tag=True):
    """The running frame ended. Later prompts leave out its turns; its result goes to the parent.

    Attributes:
        forced: Why the harness popped it (``stopped`` if the user did). Empty if the model popped it.
        verified: ``exit N``, ``timeout`` or ``not verified``. Empty if the frame has no verify command.
        checkpoint: As in ``FramePushed``.
    """

    frame: str
    result: str
    forced: str = ""
    verified: str = ""
    stored: tuple[str, ...] = ()
    checkpoint: Checkpoint | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        ended = f" ({self.forced})" if self.forced else ""
        return Voice("frame", f"popped {self.frame}{ended}", self.result, failed=bool(self.forced))


class ChunkAllocated(Struct, frozen=True, tag=True):
    """A new chunk is on the heap. Its content is in the call."""

    name: str
    chars: int

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"allocated {self.name}, {self.chars:,} characters")


class ChunkRead(Struct, frozen=True, tag=True):
    """A chunk's content entered the running frame. ``others`` were read by the same call, and ``chars`` counts all."""

    name: str
    chars: int
    others: tuple[str, ...] | UnsetType = UNSET

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *(self.others or ()))

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"read {', '.join(self.names)}, {self.chars:,} characters")


class ChunkWritten(Struct, frozen=True, tag=True):
    """The content of a chunk was replaced by that of the call."""

    name: str
    chars: int

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"wrote {self.name}, {self.chars:,} characters")


class ChunkFreed(Struct, frozen=True, tag=True):
    """A chunk left the heap. The trace keeps it."""

    name: str
    chars: int

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"freed {self.name}, {self.chars:,} characters")


class CallAnswered(Struct, frozen=True, tag=True):
    """A call was answered from the state. The text for the model follows from the call and the state."""

    tool: str
    chars: int

    @property
    def voice(self) -> Voice:
        return Voice("memory", f"answered {self.tool}, {self.chars:,} characters")


class CallRejected(Struct, frozen=True, tag=True):
    """The calls of a reply were refused; nothing else changed. The model reads ``reason``."""

    code: str
    reason: str

    @property
    def voice(self) -> Voice:
        return Voice("notice", f"refused: {self.code}", self.reason, failed=True)


class ReplyNudged(Struct, frozen=True, tag=True):
    """A reply without a usable call was answered with an instruction."""

    code: str
    text: str

    @property
    def voice(self) -> Voice:
        return Voice("notice", self.code, self.text)


class NoticeGiven(Struct, frozen=True, tag=True):
    """The running frame received a notice, such as that a limit is near."""

    code: str
    text: str
    images: Images = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("notice", self.code, self.text)


class FolderChanged(Struct, frozen=True, tag=True):
    """The user's folder changed outside the conversation, and the workspace has the changes now.

    Attributes:
        changes: What changed, one line for each file.
        number: The number of the change in the folder's log. Undone and repeated runs share that log.
        digests: As in ``ToolReturned``.
        tree: As in ``ToolReturned``.
    """

    changes: tuple[str, ...]
    number: int
    digests: dict[str, str]
    tree: str = ""

    @property
    def text(self) -> str:
        """What the model reads."""
        return "\n".join(("The user's folder changed. Your workspace has these changes now:", *self.changes))

    @property
    def voice(self) -> Voice:
        return Voice("notice", "the user's folder changed", "\n".join(self.changes))


class RunEnded(Struct, frozen=True, tag=True):
    """The run is over, until it is resumed. ``result`` is what it achieved."""

    ending: Ending
    result: str

    @property
    def voice(self) -> Voice:
        return Voice("run", f"ended: {self.ending}", self.result)


Event = (
    RunStarted | RunResumed | RunForked | ModelReplied | ModelFailed | ContextCompacted | ToolReturned
    | VerifyReturned | SourcesDigested | ClockRead | ChecksReturned | FramePushed | FramePopped | ChunkAllocated
    | ChunkRead | ChunkWritten | ChunkFreed | CallAnswered | CallRejected | ReplyNudged | NoticeGiven | RunEnded
    | FolderChanged | JobsEnded | RecallFound | HookRan | ProgramEvent | PersonEvent | ParallelEvent
)  # fmt: skip
