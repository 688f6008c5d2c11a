"""What an evaluation asks of the outside, and the values that go to and fro; names and fields are the document's."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from .errors import SexpEvaluationError

Kind = Literal["task", "tool", ""]


class ContextManagement(Struct, frozen=True):
    """What a task sees of what came before; ``freshContext`` attaches what ``get_context`` finds for it."""

    inheritContext: str = "none"  # noqa: N815 - the document's name
    accumulateData: bool = False  # noqa: N815
    accumulationFormat: str = "notes_only"  # noqa: N815
    freshContext: str = "enabled"  # noqa: N815


class HistoryConfigSettings(Struct, frozen=True):
    """What a task sees of the session; None for the turns is all of them."""

    use_session_history: bool = True
    history_turns_to_include: int | None = None
    record_in_session_history: bool = True


class ContextGenerationInput(Struct, frozen=True):
    """What context is looked for."""

    query: str = ""
    templateDescription: str = ""  # noqa: N815
    templateType: str = ""  # noqa: N815
    templateSubtype: str = ""  # noqa: N815
    inputs: dict[str, Any] = {}
    inheritedContext: Any = None  # noqa: N815
    previousOutputs: Any = None  # noqa: N815
    history: Any = None
    matching_strategy: str = "content"


class SubtaskRequest(Struct, frozen=True):
    """A task that is to be done once; what a ``task_system`` is asked to execute."""

    task_id: str
    name: str
    inputs: dict[str, Any]
    type: str = "atomic"
    description: str = ""
    file_paths: list[str] | None = None
    context_management: ContextManagement | None = None
    history_config: HistoryConfigSettings | None = None
    place: str = ""  # ``line:column`` of the call; ``file`` is the name of its file
    file: str = ""


class ToolRequest(Struct, frozen=True):
    """A tool that is to be called."""

    name: str
    arguments: dict[str, Any]
    place: str = ""
    file: str = ""


class ContextRequest(Struct, frozen=True):
    """Sent a list of paths, best first."""

    wanted: ContextGenerationInput


class Logged(Struct, frozen=True):
    """Sent None."""

    text: str


class Breath(Struct, frozen=True):
    """Sent None; a long evaluation asks for nothing now and then, so that it can be stopped."""


class TextRequest(Struct, frozen=True):
    """A library or a schema, relative to the source that names it; sent ``(path, text)``."""

    path: str
    beside: str = ""


class Together(Struct, frozen=True):
    """Several at once; sent a list of answers in their order, a ``RefusedRequest`` where one has none."""

    asks: tuple[Request, ...]


class RefusedRequest(Struct, frozen=True):
    """The error that an ask of a group came to."""

    error: SexpEvaluationError


Request = SubtaskRequest | ToolRequest | ContextRequest | Logged | Breath | TextRequest | Together


class Host(Protocol):
    """Who knows which tasks and tools there are."""

    def kind(self, name: str) -> Kind:
        """What a name stands for; tools are found with ``_`` and with ``:``."""
        ...

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """The names of its arguments in their order; None where they are not known."""
        ...

    def types(self, name: str) -> dict[str, str]:
        """The parameters of a task that have a type, with it."""
        ...

    def optional(self, name: str) -> frozenset[str]:
        """The parameters of a task that a call may leave out."""
        ...

    def define(self, template: dict[str, Any]) -> str:
        """Register a task; what is wrong with it, or nothing."""
        ...


def task_result(content: str, notes: dict[str, Any], parsed: Any = None, status: str = "COMPLETE") -> dict[str, Any]:
    """A TaskResult as values see it."""
    result: dict[str, Any] = {"content": content, "status": status, "notes": notes}
    return result if parsed is None else {**result, "parsedContent": parsed}


def failed_result(reason: str, message: str, notes: dict[str, Any] | None = None, content: str = "") -> dict[str, Any]:
    """A TaskResult that says why there is none; ``reason`` is one of the document's."""
    error = {"type": "TASK_FAILURE", "reason": reason, "message": message}
    return task_result(content or message, {**(notes or {}), "error": error}, status="FAILED")
