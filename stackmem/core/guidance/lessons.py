"""Shows a model the corrected form of a call that could not be made.

A model that only reads an explanation repeats its call; one that sees the corrected call copies it. Long values are
shown as ``...``, because only the form matters.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import DecodeError, json
from msgspec.structs import replace

from stackmem.core.messages import Text, ToolCall, ToolSpec
from stackmem.core.state import Reply, Result, State
from stackmem.core.tool_schemas import field_types, parameters, required_parameters, tool_named
from stackmem.core.tools import Refusal, Tool, tool_name

FOREIGN_NAMES: dict[str, str] = {
    **dict.fromkeys(("bash", "shell", "sh", "terminal", "execute_bash", "execute_command", "run_terminal_cmd",
                     "run_shell_command", "exec", "execute", "local_shell", "Bash"), "run_command"),
    **dict.fromkeys(("view", "cat", "open_file", "view_file", "Read", "get_file", "readFile"), "read_file"),
    **dict.fromkeys(("create_file", "create", "save_file", "write_to_file", "Write", "writeFile"), "write_file"),
    **dict.fromkeys(("str_replace_editor", "str_replace_based_edit_tool", "str_replace", "replace_in_file", "Edit",
                     "apply_patch", "apply_diff", "edit"), "edit_file"),
    **dict.fromkeys(("ls", "list_dir", "list_directory", "LS", "list_files_in_folder"), "list_files"),
    **dict.fromkeys(("grep", "search", "codebase_search", "grep_search", "Grep", "ripgrep"), "search_files"),
    **dict.fromkeys(("finish", "submit", "attempt_completion", "done", "final_answer", "complete"), "pop_frame"),
}  # fmt: skip
"""Maps tools of other agents, which models know by heart, to our tool that does the same."""

_SHOWN_CHARS = 80
_EXAMPLE_CHARS = 600
_MAX_READ_CHARS = 20_000
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,79}\.py")
_ALIASES = {
    "path": (
        "file_path",
        "filepath",
        "filename",
        "file_name",
        "file",
        "target_file",
        "absolute_path",
        "directory",
        "dir",
    ),
    "content": ("contents", "text", "code", "file_text", "file_content", "new_content", "data", "body"),
    "command": ("cmd", "shell_command", "bash", "script", "code", "input", "commands"),
    "old_string": ("old_str", "old", "search", "old_text", "find"),
    "new_string": ("new_str", "new", "replace", "new_text", "replacement"),
    "pattern": ("query", "regex", "search", "search_term"),
    "start_line": ("start", "offset", "line_start", "begin_line", "from_line"),
    "end_line": ("end", "line_end", "to_line"),
    "result": ("answer", "summary", "final_answer", "message", "output", "text"),
    "objective": ("task", "goal", "prompt", "intent", "description"),
}
"""Maps each of our parameters to its names in other agents."""


def with_lesson(refusal: Refusal, call: ToolCall, offered: tuple[Tool, ...]) -> Refusal:
    """Return the refusal of an invalid call together with the call in its accepted form."""
    ours = call.name
    if tool_named(ours, offered) is None:
        ours = FOREIGN_NAMES.get(call.name) or FOREIGN_NAMES.get(call.name.lower(), "")
    tool = tool_named(ours, offered) if ours else None
    if tool is None:
        return refusal
    example = f"Call it like this: {_corrected(call, tool)}"
    if ours == call.name:
        return replace(refusal, way_out=f"{refusal.way_out}{'. ' if refusal.way_out else ''}{example}")
    return Refusal(refusal.code, f"unknown tool {call.name[:80]!r}, use {ours}", example)


def example_call(state: State) -> str:
    """Return an example call: the one that the last reply seems to mean, otherwise one that only reads.

    If the last call changed a Python file, the example is a command that runs the file. No example ends the work,
    unless the last reply means that call.
    """
    meant = _meant_call(state)
    if meant:
        return meant
    offered = {tool.name for tool in state.begun.tools}
    seen = [turn for turn in state.running.turns if isinstance(turn, Result)]
    changed = _changed_program(state)
    if changed and "run_command" in offered:
        return _written("run_command", {"command": f"python3 {changed}"})
    candidates = [("read_file", {"path": _last_path(state)}), ("list_files", {"path": "."})]
    if not seen:
        candidates.reverse()
    for name, arguments in candidates:
        if name in offered:
            return _written(name, arguments)
    name = next((tool.name for tool in state.begun.tools if tool.name not in {"pop_frame", "return"}), "")
    return _written(name, {}) if name else ""


def _meant_call(state: State) -> str:
    """Return a call whose arguments the last reply contains without a tool's name. Empty unless they fit exactly one
    tool.
    """
    last = state.running.turns[-1] if len(state.running.turns) else None
    texts = [part.text for part in last.parts if isinstance(part, Text)] if isinstance(last, Reply) else []
    text = "\n".join(texts)
    begin, end = text.find("{"), text.rfind("}")
    if not 0 <= begin < end <= begin + _MAX_READ_CHARS:
        return ""
    try:
        arguments = json.decode(text[begin : end + 1])
    except (DecodeError, RecursionError, ValueError):
        return ""
    if not isinstance(arguments, dict) or not arguments:
        return ""
    fitting = [tool.name for tool in state.begun.tools if _takes(tool, arguments)]
    if len(fitting) != 1:
        return ""
    return _written(fitting[0], {name: _short(value) for name, value in arguments.items()})


def _takes(tool: ToolSpec, arguments: dict[str, Any]) -> bool:
    types, required = field_types(tool)
    return required <= arguments.keys() <= types.keys()


def _changed_program(state: State) -> str:
    """Return the Python file that the last call wrote or edited. Empty after any other call and for an unusual path."""
    for turn in reversed(state.running.turns):
        calls = [part for part in turn.parts if isinstance(part, ToolCall)] if isinstance(turn, Reply) else []
        if calls:
            arguments = calls[0].arguments if isinstance(calls[0].arguments, dict) else {}
            path = arguments.get("path")
            if calls[0].name in {"write_file", "edit_file"} and isinstance(path, str) and _PROGRAM.fullmatch(path):
                return path
            return ""
    return ""


def _last_path(state: State) -> str:
    for turn in reversed(state.running.turns):
        for part in turn.parts if isinstance(turn, Reply) else ():
            if isinstance(part, ToolCall) and isinstance(part.arguments, dict):
                path = part.arguments.get("path")
                if isinstance(path, str) and 0 < len(path) <= _SHOWN_CHARS and path.isprintable():
                    return path
    return "README.md"


def _corrected(call: ToolCall, tool: Tool) -> str:
    values = call.arguments if isinstance(call.arguments, dict) else {}
    arguments: dict[str, Any] = {}
    for name in parameters(tool):
        value = next(
            (values[alias] for alias in (name, *_ALIASES.get(name, ())) if values.get(alias) is not None), None
        )
        if value is not None:
            arguments[name] = _short(value)
        elif name in required_parameters(tool):
            arguments[name] = "..."
    return _written(tool_name(tool), arguments)


def _short(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str) and len(value) <= _SHOWN_CHARS:
        return value
    return "..."


def _written(name: str, arguments: dict[str, Any]) -> str:
    text = json.encode({"name": name, "arguments": arguments}).decode()
    return text if len(text) <= _EXAMPLE_CHARS else json.encode({"name": name, "arguments": {}}).decode()
