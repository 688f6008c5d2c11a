"""The built-in tools of programs, over the workspace: whole and literal, where an agent's are cleaned and clipped."""

from __future__ import annotations

import json
import shlex
from typing import Any

from msgspec.structs import replace

from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.core.requests import InvokeTool
from stackmem.workspace.command import CommandEnd
from stackmem.workspace.refusals import ToolRefused

from .bench import Bench
from .find_context import find_context

LONGEST_SECONDS = 3_600.0
READS = ("read_file", "list_files", "find_context")
"""Built-in tools that change nothing: they may run side by side, and are asked again after a crash."""
BUILT_IN = ("shell", "run_python", "read_file", "write_file", "list_files", "make_directory", "find_context")

_TAKES: dict[str, dict[str, tuple[type, bool]]] = {
    "run_python": {"folder": (str, True), "program": (str, True), "order": (str, True), "answers": (list, True)},
    "shell": {"command": (str, True), "working_directory": (str, False), "env": (dict, False)},
    "read_file": {"path": (str, True)},
    "write_file": {"path": (str, True), "content": (str, True), "parents": (bool, False)},
    "list_files": {"path": (str, False)},
    "make_directory": {"path": (str, True)},
}
_TYPES = {list: "a list", str: "a text", dict: "an object", bool: "true or false"}


def use_built_in(call: InvokeTool, bench: Bench) -> ToolAnswered:
    """The answer of a built-in tool.

    Raises:
        WorkspaceError: The sandbox failed; the run stays resumable.

    """
    if call.tool == "find_context":
        return find_context(call.arguments, bench)
    fault = _fault(call)
    if fault:
        return ToolAnswered(None, "bad_arguments", fault)
    given = {name: value for name, value in call.arguments.items() if value is not None}
    files = bench.workspace.files
    try:
        match call.tool:
            case "shell":
                return _shell(given, call.timeout_seconds, bench)
            case "run_python":
                limit = call.timeout_seconds or bench.command_seconds
                said = bench.python.use(given, limit, bench.workspace, bench.scrub)
                return replace(said, tree=bench.snapshot())
            case "read_file":
                return _read(files.read_whole(given["path"], bench.literal_bytes), given["path"], bench)
            case "list_files":
                return ToolAnswered([bench.scrub(name) for name in files.names(given.get("path") or ".")])
            case "make_directory":
                files.make_directory(given["path"])
            case _:
                if given.get("parents") and "/" in given["path"].strip("/"):
                    files.make_directory(given["path"].rpartition("/")[0])
                outcome = files.write(given["path"], given["content"])
                if outcome.failed:
                    return ToolAnswered(None, "refused", bench.scrub(outcome.text))
    except ToolRefused as refused:
        told = bench.scrub(str(refused))
        return ToolAnswered(None, "missing" if "does not exist" in told else "refused", told)
    return ToolAnswered(None, tree=bench.snapshot())


def _fault(call: InvokeTool) -> str:
    """What is wrong with the arguments; the first fault."""
    takes = _TAKES[call.tool]
    for name, value in call.arguments.items():
        if name not in takes:
            return f"{call.tool} takes no {name[:80]!r}; it takes {', '.join(takes)}"
        kind, _ = takes[name]
        if value is not None and not isinstance(value, kind):
            return f"{name} of {call.tool} must be {_TYPES[kind]}"
    missing = [name for name, (_, needed) in takes.items() if needed and call.arguments.get(name) is None]
    if missing:
        return f"{call.tool} needs {missing[0]}"
    seconds = call.timeout_seconds
    if seconds is not None and not 0 < seconds <= LONGEST_SECONDS:
        return f"the time limit must be above 0 and at most {LONGEST_SECONDS:,.0f} seconds, is {seconds:g}"
    env = call.arguments.get("env") or {}
    bad = next((name for name in env if not (isinstance(name, str) and name.isidentifier() and name.isascii())), None)
    return "" if bad is None else f"{str(bad)[:80]!r} is no name of an environment variable"


def _shell(given: dict[str, Any], seconds: float | None, bench: Bench) -> ToolAnswered:
    lines = [f"export {name}={shlex.quote(_plain(value))}" for name, value in (given.get("env") or {}).items()]
    if folder := given.get("working_directory"):
        lines.append(f"cd -- {shlex.quote(folder)} || exit 1")
    command = "\n".join([*lines, given["command"]])
    limit = bench.command_seconds if seconds is None else seconds
    ended = bench.workspace.run_apart(command, limit, bench.literal_bytes)
    value: dict[str, Any] = {"stdout": "", "stderr": "", "exit_code": ended.exit_code}
    for name, capture in (("stdout", ended.capture), ("stderr", ended.errors)):
        if capture is not None and capture.total > bench.literal_bytes:
            most = f"the limit is {bench.literal_bytes:,}"
            told = f"{name} is {capture.total:,} bytes, {most}; write it to a file instead"
            return ToolAnswered(None, "too_large", told, tree=bench.snapshot())
        head = b"" if capture is None else capture.parts()[0]
        value[name] = bench.scrub(head.decode("utf-8", "backslashreplace"))
    failed, told = _how(ended, limit)
    return ToolAnswered(value, failed, told, tree=bench.snapshot())


def _how(ended: CommandEnd, seconds: float) -> tuple[ToolFailure, str]:
    if ended.reason == "timeout":
        return "timeout", f"timed out after {seconds:g} s; everything it started was killed"
    if ended.reason:
        return "killed", f"killed ({ended.reason}); everything it started was killed"
    return ("", "") if ended.exit_code == 0 else ("exit", f"exit {ended.exit_code}")


def _plain(value: Any) -> str:
    """A variable's value as text: what is no text as JSON would say it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _read(raw: bytes, path: str, bench: Bench) -> ToolAnswered:
    if len(raw) > bench.literal_bytes:
        told = f"{path} is over {bench.literal_bytes:,} bytes; take a part by a command"
        return ToolAnswered(None, "too_large", told)
    try:
        return ToolAnswered(bench.scrub(raw.decode()))
    except UnicodeDecodeError as error:
        return ToolAnswered(None, "refused", f"{path} is no UTF-8 text (byte {error.start:,}); read it by a command")
