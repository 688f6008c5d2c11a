"""The tools of a run, under their own names and those of the language document. Each returns a TaskResult."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from stackmem.core.messages import ToolSpec
from stackmem.core.requests import InvokeTool
from stackmem.languages.frame.values import as_text
from stackmem.languages.operations import FrameAnswer, RunFrame, ToolAnswer

from .errors import Budget, SexpEvaluationError
from .requests import ToolRequest, failed_result, task_result
from .values import as_json

PARAMETERS: dict[str, tuple[str, ...] | None] = {
    "system_execute_shell_command": ("command", "cwd", "timeout"),
    "system_read_files": ("file_paths",),
    "system_list_directory": ("directory_path",),
    "system_write_file": ("file_path", "content", "overwrite"),
    "system_get_context": ("query", "matching_strategy"),
    "aider_automatic": ("prompt", "file_context"),
    "shell": ("command", "working_directory", "timeout"),
    "read_file": ("path",),
    "list_files": ("path",),
    "write_file": ("path", "content"),
    "make_directory": ("path",),
}
"""Maps tools to their parameters in order. The user's own tools are added to them."""

READERS = ("system_read_files", "system_list_directory", "system_get_context", "read_file", "list_files")
"""Tools that change no file."""

NEEDED = {
    "system_execute_shell_command": ("command",), "shell": ("command",), "system_read_files": ("file_paths",),
    "system_write_file": ("file_path", "content"), "write_file": ("path", "content"), "read_file": ("path",),
    "make_directory": ("path",), "aider_automatic": ("prompt",), "system_get_context": ("query",),
}  # fmt: skip

KINDS = {
    "command": "string", "cwd": "string", "working_directory": "string", "timeout": "number", "file_paths": "list",
    "directory_path": "string", "file_path": "string", "path": "string", "content": "string", "query": "string",
}  # fmt: skip
"""Maps parameters to their type, which is the same in every tool that has them."""

Doing = Generator[Any, Any, dict[str, Any]]


def plain_name(name: str) -> str:
    """Convert ``system:read_files`` to ``system_read_files``."""
    return name.replace(":", "_")


def listed_parameters(tool: ToolSpec) -> tuple[str, ...] | None:
    """Return the parameters of a user's tool, required ones first; None if its schema does not list them."""
    schema = tool.parameters
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    required = schema.get("required")
    needed = (
        [name for name in required if isinstance(name, str) and name in properties]
        if isinstance(required, list)
        else []
    )
    return (*needed, *(name for name in properties if name not in needed))


def call_tool(request: ToolRequest, tools: tuple[str, ...] | None, budget: Budget) -> Doing:
    """Run a tool through effects. Returns its TaskResult.

    Raise SexpEvaluationError if the arguments do not fit the tool.
    """
    name = plain_name(request.name)
    params = {key: as_json(value, budget) for key, value in request.arguments.items()}
    if name not in PARAMETERS:
        answer: ToolAnswer = yield InvokeTool(name, params)
        return _result(name, answer)
    unknown = [key for key in params if tools is not None and key not in tools]
    missing = [key for key in NEEDED.get(name, ()) if params.get(key) is None]
    if unknown or missing:
        fault = f"takes no '{unknown[0]}'" if unknown else f"needs '{missing[0]}'"
        raise SexpEvaluationError(f"Tool '{request.name}' {fault}; it takes {', '.join(tools or ())}")
    match name:
        case "system_execute_shell_command" | "shell":
            return (yield from _shell(name, params))
        case "system_read_files":
            return (yield from _read_files(name, params["file_paths"]))
        case "system_list_directory" | "list_files":
            path = params.get("directory_path") or params.get("path")
            return _result(name, (yield InvokeTool("list_files", {"path": path} if path else {})))
        case "system_write_file":
            return (yield from _write(name, params))
        case "write_file":
            return _result(name, (yield InvokeTool("write_file", {**params, "parents": True})))
        case "aider_automatic":
            return (yield from _agent(name, params))
        case _:
            return _result(name, (yield InvokeTool(name, params)))


def _shell(name: str, params: dict[str, Any]) -> Doing:
    seconds = params.get("timeout")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float)):
        raise SexpEvaluationError(f"'timeout' of tool '{name}' must be a number of seconds")
    arguments = {"command": params["command"]}
    folder = params.get("cwd") or params.get("working_directory")
    if folder:
        arguments["working_directory"] = folder
    answer: ToolAnswer = yield InvokeTool("shell", arguments, seconds)
    if not isinstance(answer.value, dict):
        return _result(name, answer)
    notes = {"template_used": name, **answer.value}
    if not answer.failed:
        return task_result(answer.value["stdout"], notes)
    content = answer.value["stdout"] or answer.value["stderr"]
    return failed_result("tool_execution_error", answer.detail, notes, content)


def _read_files(name: str, paths: Any) -> Doing:
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise SexpEvaluationError(f"'file_paths' of tool '{name}' must be a list of texts")
    texts: dict[str, Any] = {}
    for path in paths:
        answer: ToolAnswer = yield InvokeTool("read_file", {"path": path})
        if answer.failed:
            return _result(name, answer)
        texts[path] = answer.value
    content = "\n\n".join(f"--- {path} ---\n{text}" for path, text in texts.items())
    return task_result(content, {"template_used": name, "file_count": len(texts)}, texts)


def _write(name: str, params: dict[str, Any]) -> Doing:
    if params.get("overwrite") is not True:
        there: ToolAnswer = yield InvokeTool("read_file", {"path": params["file_path"]})
        if there.failed != "missing":
            message = f"{params['file_path']} exists; set overwrite to true to replace it"
            return failed_result("tool_execution_error", there.detail or message, {"template_used": name})
    arguments = {"path": params["file_path"], "content": params["content"], "parents": True}
    return _result(name, (yield InvokeTool("write_file", arguments)))


def _agent(name: str, params: dict[str, Any]) -> Doing:
    """Run the coding agent in a new frame."""
    paths = params.get("file_context") or []
    answer: FrameAnswer = yield RunFrame(name, str(params["prompt"]), {"files": paths} if paths else {})
    if answer.failed:
        return failed_result("subtask_failure", answer.detail, {"template_used": name}, answer.result)
    return task_result(answer.result, {"template_used": name})


def _result(name: str, answer: ToolAnswer) -> dict[str, Any]:
    notes = {"template_used": name}
    text = "" if answer.value is None else as_text(answer.value)
    if answer.failed:
        return failed_result("tool_execution_error", answer.detail or answer.failed, notes, text)
    return task_result(text, notes, None if isinstance(answer.value, str) else answer.value)
