"""The requests of an evaluation to its host, and their values. The language document defines the names and fields."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from msgspec import Struct

from .errors import SexpEvaluationError

Kind = Literal["task", "tool", ""]


class ContextManagement(Struct, frozen=True):
    """What a task sees of earlier work. With ``freshContext``, the matches of ``get_context`` are attached."""

    inheritContext: str = "none"  # noqa: N815 - name from the language document
    accumulateData: bool = False  # noqa: N815
    accumulationFormat: str = "notes_only"  # noqa: N815
    freshContext: str = "enabled"  # noqa: N815


class HistoryConfigSettings(Struct, frozen=True):
    """What a task sees of the session. ``history_turns_to_include`` is None for all turns."""

    use_session_history: bool = True
    history_turns_to_include: int | None = None
    record_in_session_history: bool = True


class ContextGenerationInput(Struct, frozen=True):
    """A search for context."""

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
    """One execution of a task, as passed to a ``task_system``."""

    task_id: str
    name: str
    inputs: dict[str, Any]
    type: str = "atomic"
    description: str = ""
    file_paths: list[str] | None = None
    context_management: ContextManagement | None = None
    history_config: HistoryConfigSettings | None = None
    position: str = ""  # ``line:column`` of the call; ``file`` is the file's name
    file: str = ""


class ToolRequest(Struct, frozen=True):
    """One call of a tool."""

    name: str
    arguments: dict[str, Any]
    position: str = ""
    file: str = ""


class ContextRequest(Struct, frozen=True):
    """A search for context. Receives a list of paths, best first."""

    query: ContextGenerationInput


class Logged(Struct, frozen=True):
    """A text to log. Receives None."""

    text: str


class Breath(Struct, frozen=True):
    """An empty request, made regularly so that a long evaluation can be stopped. Receives None."""


class TextRequest(Struct, frozen=True):
    """A library or schema to load, relative to the source that names it. Receives ``(path, text)``."""

    path: str
    source: str = ""


class Together(Struct, frozen=True):
    """Several requests in parallel.

    Receives a list of answers in order, with a ``RefusedRequest`` for each request that failed.
    """

    asks: tuple[Request, ...]


class RefusedRequest(Struct, frozen=True):
    """The error of a request in a group."""

    error: SexpEvaluationError


Request = SubtaskRequest | ToolRequest | ContextRequest | Logged | Breath | TextRequest | Together


class Host(Protocol):
    """Knows which tasks and tools exist."""

    def kind(self, name: str) -> Kind:
        """Return what a name refers to. Tool names may use ``_`` or ``:``."""
        ...

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """Return the names of its arguments in order; None if they are not known."""
        ...

    def types(self, name: str) -> dict[str, str]:
        """Return the typed parameters of a task and their types."""
        ...

    def optional(self, name: str) -> frozenset[str]:
        """Return the parameters of a task that a call may omit."""
        ...

    def define(self, template: dict[str, Any]) -> str:
        """Register a task. Returns what is wrong with it, or an empty text."""
        ...


def task_result(content: str, notes: dict[str, Any], parsed: Any = None, status: str = "COMPLETE") -> dict[str, Any]:
    """Return a TaskResult as expressions see it."""
    result: dict[str, Any] = {"content": content, "status": status, "notes": notes}
    return result if parsed is None else {**result, "parsedContent": parsed}


def failed_result(reason: str, message: str, notes: dict[str, Any] | None = None, content: str = "") -> dict[str, Any]:
    """Return the TaskResult of a failure. ``reason`` is one of the language document's reasons."""
    error = {"type": "TASK_FAILURE", "reason": reason, "message": message}
    return task_result(content or message, {**(notes or {}), "error": error}, status="FAILED")
