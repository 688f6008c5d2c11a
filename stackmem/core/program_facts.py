"""The facts of a program's run. Frames, calls and checks have the same facts as in every run.

Answers to effects are recorded whole. The interpreter derives the other facts, and a replay compares them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from .declarations import Voice
from .network import NetworkRequest

ToolFailure = Literal[
    "", "exit", "timeout", "killed", "too_large", "missing", "refused", "bad_arguments", "unknown_tool", "error"
]  # fmt: skip


class Continued(Struct, frozen=True):
    """The run that an edited program continues. Unlike a fork, it does not share the records.

    Attributes:
        parent: Id of that run.
        at: Sequence number of its last record.
        digest: The digest of that record.
        answers: How many of the ``recorded`` answers the edited program reused.
        changed: Paths of the sources that had changed and were read again.
    """

    parent: str
    at: int
    digest: str
    answers: int
    recorded: int
    changed: tuple[str, ...] = ()


class ProgramStarted(Struct, frozen=True, tag=True):
    """An interpreter began. Records its inputs, so that a replay can repeat them.

    Attributes:
        path: The program as the user named it.
        digest: SHA-256 of its text. The run stores the text under this digest.
        inputs: Maps names to values.
        module_path: The program's folder, as its tools see it.
        options: Further options of the interpreter, from flags.
        continued: The continued run, if the program was edited. Omitted otherwise.
    """

    language: str
    path: str
    digest: str
    inputs: dict[str, Any]
    module_path: str
    options: dict[str, Any] = {}
    continued: Continued | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        return Voice("program", f"{self.language} program {self.path}")


class OfferedProgram(Struct, frozen=True, omit_defaults=True):
    """A program that the agent can call, as the run found it at its start.

    Attributes:
        name: The name by which the agent calls it.
        path: Its file, as its sources refer to it.
        digest: SHA-256 of its text. The run stores the text under this digest.
        schema: JSON text of the schema of its inputs.
        checked: Whether its interpreter looks for faults before the first effect.
        replies: ``loose`` if replies by later versions of a contract are read. Omitted in older runs.
    """

    name: str
    description: str
    language: str
    path: str
    digest: str
    schema: str
    checked: bool = False
    replies: Literal["", "loose"] = ""


class ProgramCalled(Struct, frozen=True, tag=True):
    """The agent called a program, which runs in its own frame. The frame's result answers the call.

    Attributes:
        frame: The id of that frame.
        start: The program and its inputs.
    """

    frame: str
    start: ProgramStarted

    @property
    def voice(self) -> Voice:
        return Voice("frame", f"called the program {self.start.path}", str(self.start.inputs))


class StepEntered(Struct, frozen=True, tag=True):
    """A step of the program began. ``path`` is its position in the program; ``call`` summarizes what it does."""

    path: str
    call: str = ""

    @property
    def voice(self) -> Voice:
        return Voice("program", f"step {self.path}", self.call)


class StepLeft(Struct, frozen=True, tag=True):
    """The step ended with a value of a kind and a size. The kind is ``skipped`` if the step was not done."""

    path: str
    kind: str = "nothing"
    size: int = 0

    @property
    def voice(self) -> Voice:
        return Voice("program", f"{self.path}: {self.kind}, size {self.size:,}")


class StepFailed(Struct, frozen=True, tag=True):
    """Something that the program should do was refused, failed or had no effect.

    Attributes:
        path: Its position in the program.
        reason: The explanation that the program's model reads.
    """

    path: str
    reason: str

    @property
    def voice(self) -> Voice:
        return Voice("program", f"{self.path} failed", self.reason, failed=True)


class VariableSet(Struct, frozen=True, tag=True):
    """A variable was set. Its value is not stored, because a replay derives it again."""

    name: str
    kind: str
    size: int

    @property
    def voice(self) -> Voice:
        return Voice("program", f"set {self.name}: {self.kind}, size {self.size:,}")


class PhaseEnded(Struct, frozen=True, tag=True):
    """A phase ended. ``digests`` are those of its variables."""

    path: str
    digests: dict[str, str]

    @property
    def voice(self) -> Voice:
        return Voice("internal", f"phase {self.path} ended")


class Said(Struct, frozen=True, tag=True):
    """The program printed something for the user."""

    text: str

    @property
    def voice(self) -> Voice:
        return Voice("program", "printed", self.text)


class ChunkKept(Struct, frozen=True, tag=True):
    """The program put a chunk on the heap, replacing one of the same name."""

    name: str
    content: str
    description: str = ""
    source: str = ""

    @property
    def voice(self) -> Voice:
        return Voice("program", f"kept {self.name}, {len(self.content):,} characters", self.content)


class ChunkDropped(Struct, frozen=True, tag=True):
    """The program removed a chunk from the heap."""

    name: str

    @property
    def voice(self) -> Voice:
        return Voice("program", f"dropped {self.name}")


class ToolAnswered(Struct, frozen=True, tag=True):
    """A tool that the program called returned. The value is complete and unchanged.

    Attributes:
        branch: The index, from 0, of the call in its group.
        tree: The workspace after a call that may change it, as an id in the run's history. Empty otherwise.
    """

    value: Any
    failed: ToolFailure = ""
    detail: str = ""
    branch: int = 0
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET

    @property
    def voice(self) -> Voice:
        text = self.value if isinstance(self.value, str) else self.detail
        return Voice("program", f"tool {self.failed or 'returned'}", text, failed=bool(self.failed))


class SourceLoaded(Struct, frozen=True, tag=True):
    """A source was read. The run stores its text under ``digest``. ``failed`` says why it could not be read."""

    path: str
    digest: str = ""
    chars: int = 0
    failed: str = ""
    branch: int = 0

    @property
    def voice(self) -> Voice:
        return Voice("program", f"source {self.path}, {self.chars:,} characters", self.failed, failed=bool(self.failed))


class UserAnswered(Struct, frozen=True, tag=True):
    """The user answered the program's question."""

    text: str

    @property
    def voice(self) -> Voice:
        return Voice("user", "the user answered", self.text)


class Waited(Struct, frozen=True, tag=True):
    """The program waited. A replay does not wait."""

    seconds: float

    @property
    def voice(self) -> Voice:
        return Voice("program", f"waited {self.seconds:g} s")


class ProgramHalted(Struct, frozen=True, tag=True):
    """The program stopped with a fault. ``report`` is what its language prints about it."""

    kind: str
    report: str
    path: str = ""

    @property
    def voice(self) -> Voice:
        return Voice("program", f"halted: {self.kind}", self.report, failed=True)


class ProgramReturned(Struct, frozen=True, tag=True):
    """The program ended with a value of a kind and a size."""

    kind: str
    size: int
    digest: str

    @property
    def voice(self) -> Voice:
        return Voice("program", f"returned {self.kind}, size {self.size:,}")


class ProgramState(Struct, frozen=True):
    """The status of a program.

    Attributes:
        path: Position of the step that was entered last, of which there were ``entered``.
        said: Number of texts printed so far.
        halted, returned: How it ended, once it has. Resuming withdraws a halt.
    """

    start: ProgramStarted
    path: str = ""
    entered: int = 0
    said: int = 0
    halted: ProgramHalted | None = None
    returned: ProgramReturned | None = None


Note = StepEntered | StepLeft | StepFailed | VariableSet | PhaseEnded
"""Facts that an interpreter reports on its own: it yields the fact, and receives None."""

ProgramEvent = (
    ProgramStarted | ProgramCalled | StepEntered | StepLeft | StepFailed | VariableSet | PhaseEnded | Said | ChunkKept
    | ChunkDropped | ToolAnswered | SourceLoaded | UserAnswered | Waited | ProgramHalted | ProgramReturned
)  # fmt: skip
