"""Evaluates sources for a host within a budget, and offers ``SexpEvaluator`` for Python code with its own hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stackmem.core.schemas.json_schema import first_fault, read_json
from stackmem.languages.debugger import MomentListener

from .calls import Calls, optional_params, typed_params
from .errors import Budget, SexpEvaluationError, SourcePlace, TaskError, error_line
from .forms import ADDED_FORMS, DOCUMENT_FORMS
from .interpreter import Doing, Machine, is_task_error
from .loops import LOOPS
from .outside_forms import OUTSIDE_ADDED, OUTSIDE_FORMS, defatom_of
from .primitives import ADDED, DOCUMENT, field
from .reader import read
from .requests import (
    Breath,
    ContextGenerationInput,
    ContextRequest,
    Host,
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
from .tree import Form, Node, bound_names
from .values import SexpEnvironment, containers, from_python, is_null, to_source

OWN_FORMS = frozenset({*DOCUMENT_FORMS, *LOOPS, *OUTSIDE_FORMS, "defatom"})
"""The special forms of the language document. Nothing overrides them."""
ADDITIONS = frozenset({*ADDED_FORMS, *OUTSIDE_ADDED, *ADDED})
"""Additional functions, which variables, tasks and tools of the same name override."""
OPERATORS = OWN_FORMS | ADDITIONS | frozenset(DOCUMENT)


class Evaluation:
    """Evaluates sources in order, with a common step count."""

    def __init__(self, host: Host, budget: Budget, watch: MomentListener | None = None) -> None:
        calls = Calls(host)
        forms = {**DOCUMENT_FORMS, **LOOPS, **OUTSIDE_FORMS, "defatom": defatom_of(host)}
        added = {**ADDED_FORMS, **OUTSIDE_ADDED}
        self.machine = Machine(forms, added, budget, calls.knows, calls.invoke, calls.apply_named, watch)

    def run(self, nodes: list[Node], env: SexpEnvironment) -> Doing:
        """Evaluate the nodes and return the last value. Yields requests.

        Raise SexpEvaluationError if an expression cannot be evaluated. Raise TaskError if a budget is used up, or a
        collaborator raised it.
        """
        names = bound_names(nodes)
        scope: SexpEnvironment | None = env
        while scope is not None:
            for name, binding in scope.bindings.items():
                scope.bindings[name] = from_python(binding, self.machine.meter.budget)
            names |= scope.bindings.keys()
            scope = scope.parent
        self.machine.bind_names(names)
        value: Any = []
        for node in nodes:
            try:
                value = yield from self.machine.evaluate(node, env)
            except TaskError as error:
                if isinstance(node, Form):
                    error.position = error.position or SourcePlace.of(node.source.path, node.source.text, node.at)
                raise
        list(containers(value, self.machine.meter.budget))
        return value


class SexpEvaluator:
    """Evaluates workflows. Tasks defined in one evaluation are available in the next.

    The collaborators can be any objects with these members: ``task_system.find_template(name)``,
    ``task_system.register_template(template)``, ``task_system.execute_atomic_template(request)``,
    ``handler.tool_executors`` (name to a function of one mapping) and
    ``memory_system.get_relevant_context_for(context_input)``.
    """

    def __init__(
        self,
        task_system: Any,
        handler: Any,
        memory_system: Any,
        *,
        budget: Budget | None = None,  # of each evaluation
        log: Callable[[str], object] = id,  # receives the texts of ``log-message``
        read_text: Callable[[str, str], tuple[str, str]] | None = None,
    ) -> None:
        """Store the collaborators without calling them. A None disables tasks, tools or memory.

        ``read_text`` returns ``(path, text)`` of a library or schema for ``(path, the file that names it)``. Without
        it, sources cannot load any.
        """
        self.budget = budget or Budget()
        self._host = _Collaborators(task_system, handler, memory_system, log, read_text)

    def evaluate_string(self, sexp_string: str, initial_env: SexpEnvironment | None = None) -> Any:
        """Evaluate a source and return the value of its last top-level expression.

        ``initial_env`` is the root scope, which ``bind`` changes. None creates a new one.

        Raises:
            TypeError: ``sexp_string`` is not a text.
            SexpSyntaxError: The source cannot be parsed.
            SexpEvaluationError: An expression cannot be evaluated.
            TaskError: A budget is used up, or a collaborator raised it.
        """
        nodes = read(sexp_string, "", self.budget.source)
        env = SexpEnvironment() if initial_env is None else initial_env
        doing = Evaluation(self._host, self.budget).run(nodes, env)
        try:
            ask = next(doing)
            while True:
                try:
                    answer = self._host.answer(ask)
                except SexpEvaluationError as error:
                    ask = doing.throw(error)
                else:
                    ask = doing.send(answer)
        except StopIteration as stop:
            return stop.value
        finally:
            doing.close()


class _Collaborators:
    """A host that delegates to three Python objects."""

    def __init__(
        self,
        task_system: Any,
        handler: Any,
        memory_system: Any,
        log: Callable[[str], object],
        read_text: Callable[[str, str], tuple[str, str]] | None,
    ) -> None:
        self._tasks, self._handler, self._memory = task_system, handler, memory_system
        self._log, self._read_text = log, read_text

    def kind(self, name: str) -> Kind:
        template = _guarded(f"looking up the task '{name}'", lambda: self._template(name))
        if template is not None and (_part(template, "type") or "atomic") == "atomic":
            return "task"
        return "tool" if self._executor(name) is not None else ""

    def parameters(self, name: str) -> tuple[str, ...] | None:
        params = self._params(name) if self.kind(name) == "task" else None
        return tuple(map(str, params)) if isinstance(params, dict | list | tuple) else None

    def types(self, name: str) -> dict[str, str]:
        return typed_params(self._params(name))

    def optional(self, name: str) -> frozenset[str]:
        return optional_params(self._params(name))

    def _params(self, name: str) -> Any:
        template = self._template(name)
        return _part(template, "params") or _part(template, "parameters")

    def define(self, template: dict[str, Any]) -> str:
        try:
            refused = self._tasks.register_template(template) is False
        except Exception as error:
            if is_task_error(error):
                raise
            return error_line(error)
        return "the task system refuses it" if refused else ""

    def _template(self, name: str) -> Any:
        return None if self._tasks is None else self._tasks.find_template(name)

    def _executor(self, name: str) -> Any:
        tools = getattr(self._handler, "tool_executors", None) or {}
        if name in tools:
            return tools[name]
        plain = name.replace(":", "_")
        return next((tools[tool] for tool in sorted(tools) if tool.replace(":", "_") == plain), None)

    def answer(self, ask: Request) -> Any:
        """Answer a request with the help of the collaborators.

        Raise SexpEvaluationError if a collaborator failed. Its own ``TaskError`` is passed through unchanged.
        """
        match ask:
            case SubtaskRequest():
                return self._task(ask)
            case ToolRequest():
                executor = self._executor(ask.name)
                return _result(ask.name, _guarded(f"the tool '{ask.name}'", lambda: executor(dict(ask.arguments))))
            case ContextRequest():
                return self._context(ask.query)
            case Logged():
                self._log(ask.text)
                return None
            case Breath():
                return None
            case TextRequest():
                if self._read_text is None:
                    raise SexpEvaluationError("No files can be read here; give the evaluator a read_text.")
                read_text = self._read_text
                return _guarded(f"reading '{ask.path[:200]}'", lambda: read_text(ask.path, ask.source))
            case Together():
                return [self._one_of(each) for each in ask.asks]

    def _one_of(self, ask: Request) -> Any:
        try:
            return self.answer(ask)
        except SexpEvaluationError as error:
            return RefusedRequest(error)

    def _task(self, request: SubtaskRequest) -> Any:
        outcome = _guarded(f"the task '{request.name}'", lambda: self._tasks.execute_atomic_template(request))
        result = _result(request.name, outcome)
        output_format = _part(self._template(request.name), "output_format")
        schema = _part(output_format, "schema")
        if not isinstance(schema, dict) or _part(result, "status") == "FAILED":
            return result
        value, fault = _part(result, "parsedContent"), ""
        if value is None:
            value, fault = read_json(str(_part(result, "content") or ""))
        fault = fault or first_fault(value, schema)
        if fault:
            notes = {"template_used": request.name}
            return failed_result("output_format_failure", fault, notes, str(_part(result, "content") or ""))
        return {**result, "parsedContent": value} if isinstance(result, dict) else result

    def _context(self, query: ContextGenerationInput) -> list[str]:
        reply = _guarded("finding context", lambda: self._memory.get_relevant_context_for(query))
        error = _part(reply, "error")
        if error:
            raise SexpEvaluationError("Context retrieval failed.", "", " ".join(str(error).split())[:300])
        matches = _part(reply, "matches") or []
        if not isinstance(matches, list | tuple):
            raise SexpEvaluationError("Context retrieval failed.", "", "the memory system gave no list of matches")
        names = [match if isinstance(match, str) else _path(match) for match in matches]
        return [name for name in names if name]


def _path(match: Any) -> str:
    """Return a match's path under any of the names that memory systems use."""
    if isinstance(match, tuple | list):
        return str(match[0]) if match else ""
    return next((str(value) for key in ("path", "source_path", "id") if (value := _part(match, key))), "")


def _part(value: Any, name: str) -> Any:
    if value is None or isinstance(value, str):
        return None
    part = value.get(name) if isinstance(value, dict) else field(value, name)
    return None if is_null(part) else part


def _result(name: str, value: Any) -> Any:
    """Return a TaskResult unchanged and wrap any other value in one."""
    if _part(value, "status") is not None and (not isinstance(value, dict) or "content" in value):
        return value
    text = value if isinstance(value, str) else "" if value is None else to_source(value)
    return task_result(text, {"template_used": name}, None if isinstance(value, str) else value)


def _guarded(action: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (SexpEvaluationError, TaskError):
        raise
    except Exception as error:
        if is_task_error(error):
            raise
        raise SexpEvaluationError(f"Error in {action}: {error_line(error)}") from error
