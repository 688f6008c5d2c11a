"""The facts of a program's run; the others, of its frames, calls and checks, are those of every run.

What answers an effect is recorded whole; the others are derived by the interpreter, and checked against it in replay.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from .network import NetworkRequest

ToolFailure = Literal[
    "", "exit", "timeout", "killed", "too_large", "missing", "refused", "bad_arguments", "unknown_tool", "error"
]  # fmt: skip


class Continued(Struct, frozen=True):
    """The run that an edited program went on from; unlike a fork's, its records are not shared.

    Attributes:
        parent: Its id.
        at: Number of its last record.
        digest: That record's digest.
        answers: Recorded answers that the edited program was given, of ``recorded``.
        changed: Paths of the sources that had changed since, and were read anew.
    """

    parent: str
    at: int
    digest: str
    answers: int
    recorded: int
    changed: tuple[str, ...] = ()


class ProgramStarted(Struct, frozen=True, tag=True):
    """An interpreter began. What it was given stands here, so that a replay gives it the same.

    Attributes:
        path: The program as a person named it.
        digest: SHA-256 of its text; the run keeps the text under it.
        inputs: Name to value.
        module_path: The program's folder, as its tools see it.
        options: What else the interpreter was told, by flags.
        continued: Of an edited program; not written elsewhere.
    """

    language: str
    path: str
    digest: str
    inputs: dict[str, Any]
    module_path: str
    options: dict[str, Any] = {}
    continued: Continued | UnsetType = UNSET


class StepEntered(Struct, frozen=True, tag=True):
    """A step of the program began; ``path`` is its place in the program, ``call`` what it does, in short."""

    path: str
    call: str = ""


class StepLeft(Struct, frozen=True, tag=True):
    """The step ended with a value of a kind and a size; kind ``skipped`` where it was not done."""

    path: str
    kind: str = "nothing"
    size: int = 0


class StepFailed(Struct, frozen=True, tag=True):
    """Something that the program was to do was refused, failed or did nothing.

    Attributes:
        path: Its place in the program.
        reason: As the program's model was told.
    """

    path: str
    reason: str


class VariableSet(Struct, frozen=True, tag=True):
    """A variable has a value now; the value is derived again in replay and not kept."""

    name: str
    kind: str
    size: int


class PhaseEnded(Struct, frozen=True, tag=True):
    """A phase ended, and its variables had these digests."""

    path: str
    digests: dict[str, str]


class Said(Struct, frozen=True, tag=True):
    """The program told its person something."""

    text: str


class ChunkKept(Struct, frozen=True, tag=True):
    """The program put a chunk on the heap, over what had its name."""

    name: str
    content: str
    description: str = ""
    source: str = ""


class ChunkDropped(Struct, frozen=True, tag=True):
    """The program took a chunk from the heap."""

    name: str


class ToolAnswered(Struct, frozen=True, tag=True):
    """A tool that the program called came back, whole and literal.

    Attributes:
        branch: Which call of a group it answers, from 0.
        tree: The workspace after a call that may change it, as the run's history names it; else empty.
    """

    value: Any
    failed: ToolFailure = ""
    detail: str = ""
    branch: int = 0
    tree: str = ""
    requests: tuple[NetworkRequest, ...] | UnsetType = UNSET


class SourceLoaded(Struct, frozen=True, tag=True):
    """A source was read; the run keeps its text under ``digest``. ``failed`` says why there is none."""

    path: str
    digest: str = ""
    chars: int = 0
    failed: str = ""
    branch: int = 0


class UserAnswered(Struct, frozen=True, tag=True):
    """The person answered the program's question."""

    text: str


class Waited(Struct, frozen=True, tag=True):
    """The program waited; a replay does not."""

    seconds: float


class ProgramHalted(Struct, frozen=True, tag=True):
    """The program stopped with a fault; ``report`` is what its language prints of it."""

    kind: str
    report: str
    path: str = ""


class ProgramReturned(Struct, frozen=True, tag=True):
    """The program came to its end with a value of a kind and a size."""

    kind: str
    size: int
    digest: str


Note = StepEntered | StepLeft | StepFailed | VariableSet | PhaseEnded
"""What an interpreter reports by itself: it yields the fact, and is sent None."""

ProgramEvent = (
    ProgramStarted | StepEntered | StepLeft | StepFailed | VariableSet | PhaseEnded | Said | ChunkKept | ChunkDropped
    | ToolAnswered | SourceLoaded | UserAnswered | Waited | ProgramHalted | ProgramReturned
)  # fmt: skip
