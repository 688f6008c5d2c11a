"""The host of a run: tasks are frames or completions on the shared stack, and tools are those of the workspace.

A task receives its instructions with the inputs filled in, files, context, and the session so far.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

from msgspec import Struct

from stackmem.core.messages import ToolSpec
from stackmem.core.program_facts import StepEntered
from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.languages.frame.parallel import side_by_side
from stackmem.languages.frame.values import as_text
from stackmem.languages.operations import (
    ChunkAnswer,
    Complete,
    Completion,
    EnterFrame,
    FrameAnswer,
    LeaveFrame,
    ListChunks,
    ReadChunk,
    RunFrame,
    Say,
    Source,
    ToolAnswer,
    prompt,
)

from .calls import optional_params, typed_params
from .definitions import SLOT
from .errors import Budget, SexpEvaluationError
from .primitives import field
from .requests import (
    Breath,
    ContextGenerationInput,
    ContextManagement,
    ContextRequest,
    HistoryConfigSettings,
    Kind,
    Logged,
    RefusedRequest,
    Request,
    SubtaskRequest,
    TextRequest,
    Together,
    ToolRequest,
    failed_result,
    task_result,
)
from .tools import PARAMETERS, call_tool, listed_parameters, plain_name
from .values import as_json, is_null


class DoneTask(Struct, frozen=True):
    """A task completed in this evaluation."""

    name: str
    instructions: str
    content: str
    notes: str
    files: tuple[str, ...] = ()
    recorded: bool = True


def fill_slots(
    instructions: str, inputs: Mapping[str, Any], optional: frozenset[str], budget: Budget
) -> tuple[str, set[str], str]:
    """Fill the slots of instructions. Returns ``(text, names used, missing name)``.

    ``{{a.b}}`` is the field b of a. The slot of an optional parameter without a value is empty.
    """
    used: set[str] = set()
    missing: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name in inputs:
            used.add(name)
            return _text(inputs[name], budget)
        first, *more = name.split(".")
        if {name, first} & optional and first not in inputs:
            return ""
        if first not in inputs or not more:
            missing.append(name)
            return ""
        used.add(first)
        value = inputs[first]
        for part in more:
            value = field(value, part)
        if is_null(value) and first not in optional:
            missing.append(name)
        return _text(value, budget)

    text = SLOT.sub(value_of, instructions)
    return text, used, missing[0] if missing else ""


def _text(value: Any, budget: Budget) -> str:
    return "" if is_null(value) else as_text(as_json(value, budget))


def earlier_results(past: list[DoneTask], context: ContextManagement, files: tuple[str, ...]) -> str:
    """Return the results of earlier tasks that the task inherits."""
    inherited = [
        task
        for task in past
        if context.inheritContext == "full" or (context.inheritContext == "subset" and set(task.files) & set(files))
    ]
    notes = context.accumulateData and context.accumulationFormat == "notes_only"
    return "\n\n".join(f"{task.name}:\n{task.notes if notes else task.content}" for task in inherited)


def session(past: list[DoneTask], settings: HistoryConfigSettings) -> str:
    """Return the turns of the session that the task sees, oldest first."""
    if not settings.use_session_history:
        return ""
    turns = [task for task in past if task.recorded]
    count = settings.history_turns_to_include
    if count is not None:
        turns = turns[max(0, len(turns) - count) :]
    return "\n\n".join(f"TASK {task.name}\n{task.instructions}\nRESULT\n{task.content}" for task in turns)


Effects = Generator[Any, Any, Any]

WITHOUT_TOOLS = ("director", "evaluator", "associative_matching")
"""Subtypes that need only judgment. They are single completions, which can run in parallel."""
SYSTEM = "You do one task of a larger workflow. Answer with its result and nothing else."
_CHUNK_CHARS = 20_000
_MATCHES = 10
_CONTEXT_KEYS = {"query", "matching_strategy"}


class Workflow:
    """Answers the requests of an evaluation."""

    def __init__(self, budget: Budget, own: tuple[ToolSpec, ...] = (), *, names_files: bool = True) -> None:
        """Store the tools. With ``names_files``, the place of a step begins with its file's name."""
        self._budget, self._names_files = budget, names_files
        self._templates: dict[str, dict[str, Any]] = {}
        self._parameters = {**PARAMETERS, **{tool.name: listed_parameters(tool) for tool in own}}
        self.past: list[DoneTask] = []  # the tasks completed so far, in order

    def kind(self, name: str) -> Kind:
        if name in self._templates:
            return "task"
        return "tool" if plain_name(name) in self._parameters else ""

    def parameters(self, name: str) -> tuple[str, ...] | None:
        if name in self._templates:
            return tuple(self._templates[name]["params"])
        return self._parameters[plain_name(name)]

    def types(self, name: str) -> dict[str, str]:
        return typed_params(self._templates[name]["params"])

    def optional(self, name: str) -> frozenset[str]:
        return optional_params(self._templates[name]["params"])

    def define(self, template: dict[str, Any]) -> str:
        self._templates[template["name"]] = template
        return ""

    def place_of(self, ask: SubtaskRequest | ToolRequest) -> str:
        """Return the place where a task or tool is called."""
        return f"{ask.file}:{ask.position}" if self._names_files and ask.file else ask.position

    def answer(self, ask: Request, *, parallel: bool = False) -> Effects:
        """Answer a request through effects. With ``parallel``, it runs in parallel and opens no frame."""
        match ask:
            case SubtaskRequest():
                return (yield from self._task(ask, parallel=parallel))
            case ToolRequest(name="system_get_context" | "system:get_context"):
                names = yield from self._context(_context_input(ask.arguments))
                return task_result("\n".join(names), {"template_used": ask.name}, names)
            case ToolRequest():
                parameters = self._parameters[plain_name(ask.name)]
                return (yield from call_tool(ask, parameters, self._budget))
            case ContextRequest():
                return (yield from self._context(ask.query))
            case Logged():
                yield Say(ask.text)
                return None
            case Breath():
                yield StepEntered("evaluation", "goes on")
                return None
            case TextRequest():
                source: Source = yield LoadSource(ask.path, ask.source)
                return text_of(ask, source)
            case Together():
                return (yield from self._together(ask.asks))

    def _together(self, asks: tuple[Request, ...]) -> Effects:
        """Answer requests in parallel. Each failed one is refused separately."""

        def answer_or_refusal(ask: Request) -> Effects:
            try:
                return (yield from self.answer(ask, parallel=True))
            except SexpEvaluationError as error:
                return RefusedRequest(error)

        return (yield from side_by_side([answer_or_refusal(ask) for ask in asks]))

    def _task(self, request: SubtaskRequest, *, parallel: bool) -> Effects:
        template = self._templates[request.name]
        notes = {"template_used": request.name, "task_id": request.task_id}
        unknown = sorted(request.inputs.keys() - template["params"].keys())
        if unknown:
            names = ", ".join(template["params"]) or "none"
            return failed_result("input_validation_failure", f"no parameter {unknown[0]!r}; known: {names}", notes)
        text, used, missing = fill_slots(
            template["instructions"], request.inputs, self.optional(request.name), self._budget
        )
        if missing:
            return failed_result("input_validation_failure", f"the input {missing!r} is missing", notes)
        inputs = {name: as_json(value, self._budget) for name, value in request.inputs.items() if name not in used}
        files = tuple(request.file_paths or ())
        reads: list[ToolAnswer] = yield from _read_all(files)
        for path, read in zip(files, reads, strict=True):
            if read.failed:
                return failed_result("context_retrieval_failure", f"{path}: {read.detail}", notes)
            inputs[f"file {path}"] = read.value
        inputs.update((yield from self._surroundings(request, template, text, files)))
        if template["subtype"] in WITHOUT_TOOLS:
            result = yield from self._completion(template, text, inputs, notes, parallel=parallel)
        else:
            result = yield from self._in_frame(template, text, inputs, notes)
        settings = self._history(request, template)
        recorded = settings is None or settings.record_in_session_history
        self.past.append(DoneTask(request.name, text, result["content"], as_text(result["notes"]), files, recorded))
        return result

    def _history(self, request: SubtaskRequest, template: dict[str, Any]) -> HistoryConfigSettings | None:
        if request.history_config is not None:
            return request.history_config
        own = template.get("history_config")
        return HistoryConfigSettings(**own) if own is not None else None

    def _surroundings(
        self, request: SubtaskRequest, template: dict[str, Any], text: str, files: tuple[str, ...]
    ) -> Effects:
        """Return the additional inputs of a task: earlier results, context, and the session."""
        inputs: dict[str, Any] = {}
        context = request.context_management or ContextManagement(freshContext="disabled")
        earlier = earlier_results(self.past, context, files)
        if earlier:
            inputs["results of earlier tasks"] = earlier
        if context.freshContext == "enabled":
            names = yield from self._context(ContextGenerationInput(text, template["description"]))
            if names:
                inputs["relevant files and chunks"] = "\n".join(names)
        settings = self._history(request, template)
        turns = session(self.past, settings) if settings is not None else ""
        if turns:
            inputs["the session so far"] = turns
        return inputs

    def _in_frame(self, template: dict[str, Any], text: str, inputs: dict[str, Any], notes: dict[str, Any]) -> Effects:
        schema = (template.get("output_format") or {}).get("schema")
        returns = "" if template["description"].startswith("Dynamically defined task") else template["description"]
        answer: FrameAnswer = yield RunFrame(
            template["name"], text, inputs, returns, schema, model=template.get("model", "")
        )
        if answer.failed:
            reason = "output_format_failure" if answer.failed == "misfit" else "subtask_failure"
            return failed_result(reason, answer.detail or answer.failed, notes, answer.result)
        return task_result(answer.result, notes, answer.value)

    def _completion(
        self, template: dict[str, Any], text: str, inputs: dict[str, Any], notes: dict[str, Any], *, parallel: bool
    ) -> Effects:
        """Request one completion. It has a frame unless it runs in parallel."""
        parts = [text, *(f"INPUT {name}\n{as_text(value)}" for name, value in inputs.items())]
        schema = (template.get("output_format") or {}).get("schema")
        if not parallel:
            yield EnterFrame(template["name"], text)
        answer: Completion = yield Complete(
            prompt("\n\n".join(parts)), SYSTEM, schema, name=template["name"], model=template.get("model", "")
        )
        if not parallel:
            yield LeaveFrame(answer.detail if answer.failed else answer.text)
        if answer.failed:
            reason = "output_format_failure" if answer.failed == "misfit" else "llm_error"
            return failed_result(reason, answer.detail or answer.failed, notes, answer.text)
        return task_result(answer.text, notes, answer.value)

    def _context(self, query: ContextGenerationInput) -> Effects:
        """Return the names of matching heap chunks and workspace files."""
        index: tuple[tuple[str, int, str], ...] = yield ListChunks()
        chunks = []
        for name, _, description in index:
            content = ""
            if query.matching_strategy == "content":
                read: ChunkAnswer = yield ReadChunk(name)
                content = read.content[:_CHUNK_CHARS]
            chunks.append({"name": name, "description": description, "content": content})
        texts = [query.query, query.templateDescription, *(_words(value) for value in query.inputs.values())]
        request = {"query": " ".join(filter(None, texts)), "strategy": query.matching_strategy, "chunks": chunks}
        answer: ToolAnswer = yield InvokeTool("find_context", {**request, "most": _MATCHES})
        if answer.failed:
            raise SexpEvaluationError("Context retrieval failed.", "", answer.detail)
        return answer.value


def text_of(ask: TextRequest, source: Source) -> tuple[str, str]:
    """Return the answer to a request for a text. Raise SexpEvaluationError if the source cannot be read."""
    if source.failed:
        raise SexpEvaluationError(f"The file '{ask.path[:200]}' cannot be read: {source.failed}")
    return source.path, source.text


def _context_input(arguments: dict[str, Any]) -> ContextGenerationInput:
    query, strategy = arguments.get("query"), arguments.get("matching_strategy", "content")
    if not isinstance(query, str) or strategy not in ("content", "metadata") or arguments.keys() - _CONTEXT_KEYS:
        raise SexpEvaluationError("Tool 'system_get_context' takes a text 'query' and 'matching_strategy'.")
    return ContextGenerationInput(str.__str__(query), matching_strategy=str.__str__(strategy))


def _words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_all(paths: tuple[str, ...]) -> Effects:
    answers = []
    for path in paths:
        answer: ToolAnswer = yield InvokeTool("read_file", {"path": path})
        answers.append(answer)
    return answers
