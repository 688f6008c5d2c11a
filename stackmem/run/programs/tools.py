"""Built-in tools of programs. They return whole, literal data; the tools of agents clean and clip theirs."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Protocol

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from stackmem.core.errors import WorkspaceError
from stackmem.core.neighbors import neighbor
from stackmem.core.program_facts import ToolAnswered, ToolFailure
from stackmem.core.requests import InvokeTool
from stackmem.history.ignored import IgnoreRules
from stackmem.workspace.command import CommandEnd
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.workspace import Workspace

LITERAL_BYTES = 10 * 1024 * 1024
"""Default of ``ToolContext.literal_bytes``."""
LONGEST_SECONDS = 3_600.0
READS = ("read_file", "list_files", "find_context")
"""Built-in tools that change nothing: they may run in parallel, and are repeated after a crash."""
BUILT_IN = ("shell", "run_python", "read_file", "write_file", "list_files", "make_directory", "find_context")

_TAKES: dict[str, dict[str, tuple[type, bool]]] = {
    "run_python": {
        "folder": (str, True),
        "program": (str, True),
        "order": (str, True),
        "answers": (list, True),
        "session": (dict, False),
    },
    "shell": {"command": (str, True), "working_directory": (str, False), "env": (dict, False)},
    "read_file": {"path": (str, True)},
    "write_file": {"path": (str, True), "content": (str, True), "parents": (bool, False)},
    "list_files": {"path": (str, False)},
    "make_directory": {"path": (str, True)},
}
_TYPES = {list: "a list", str: "a text", dict: "an object", bool: "true or false"}


_SEARCHED_BYTES = 200 * 1024
"""Maximum size of a file that is searched."""
MAX_FILES = 20_000
MAX_QUERY_WORDS = 64
_WORD = re.compile(r"\w+")


class PythonCallsPort(Protocol):
    """The processes of Python functions of one run."""

    def use(
        self, arguments: dict[str, Any], seconds: float, workspace: Workspace, scrub: Callable[[str], str], /
    ) -> ToolAnswered:
        """Start or continue a call."""

    def stop(self) -> None:
        """Kill all waiting processes."""


def _python_calls() -> PythonCallsPort:
    calls: PythonCallsPort = neighbor("languages: processes of Python functions")()
    return calls


class ToolContext(Struct):
    """Dependencies of the tools."""

    workspace: Workspace
    snapshot: Callable[[], str]  # stores the current workspace and returns its tree id
    scrub: Callable[[str], str]  # removes secrets from recorded text
    command_seconds: float
    rules: Callable[[], IgnoreRules]  # opens a new check of which paths ``.gitignore`` excludes
    literal_bytes: int = LITERAL_BYTES  # maximum size of a file that is read, and of each output of a command
    # processes of functions that wait for an answer
    python: PythonCallsPort = field(default_factory=_python_calls)


def use_built_in(call: InvokeTool, context: ToolContext) -> ToolAnswered:
    """Run a built-in tool and return its answer. Raise WorkspaceError if the sandbox failed. The run can be resumed."""
    if call.tool == "find_context":
        return _find_context(call.arguments, context)
    fault = _fault(call)
    if fault:
        return ToolAnswered(None, "bad_arguments", fault)
    arguments = {name: value for name, value in call.arguments.items() if value is not None}
    files = context.workspace.files
    try:
        match call.tool:
            case "shell":
                return _shell(arguments, call.timeout_seconds, context)
            case "run_python":
                limit = call.timeout_seconds or context.command_seconds
                result = context.python.use(arguments, limit, context.workspace, context.scrub)
                # the process of a Python program writes no files, and waits in the middle of its work
                waits = "session" in arguments and isinstance(result.value, dict) and "call" in result.value
                return result if waits else replace(result, tree=context.snapshot())
            case "read_file":
                return _read(files.read_whole(arguments["path"], context.literal_bytes), arguments["path"], context)
            case "list_files":
                return ToolAnswered([context.scrub(name) for name in files.names(arguments.get("path") or ".")])
            case "make_directory":
                files.make_directory(arguments["path"])
            case _:
                if arguments.get("parents") and "/" in arguments["path"].strip("/"):
                    files.make_directory(arguments["path"].rpartition("/")[0])
                outcome = files.write(arguments["path"], arguments["content"])
                if outcome.failed:
                    return ToolAnswered(None, "refused", context.scrub(outcome.text))
    except ToolRefused as refused:
        message = context.scrub(str(refused))
        return ToolAnswered(None, "missing" if "does not exist" in message else "refused", message)
    return ToolAnswered(None, tree=context.snapshot())


def _fault(call: InvokeTool) -> str:
    """Return the first problem with the arguments, or an empty string."""
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
    return "" if bad is None else f"{str(bad)[:80]!r} is not a name of an environment variable"


def _shell(arguments: dict[str, Any], seconds: float | None, context: ToolContext) -> ToolAnswered:
    lines = [f"export {name}={shlex.quote(_plain(value))}" for name, value in (arguments.get("env") or {}).items()]
    if folder := arguments.get("working_directory"):
        lines.append(f"cd -- {shlex.quote(folder)} || exit 1")
    command = "\n".join([*lines, arguments["command"]])
    limit = context.command_seconds if seconds is None else seconds
    ended = context.workspace.run_apart(command, limit, context.literal_bytes)
    value: dict[str, Any] = {"stdout": "", "stderr": "", "exit_code": ended.exit_code}
    requests = ended.requests or UNSET
    for name, capture in (("stdout", ended.capture), ("stderr", ended.errors)):
        if capture is not None and capture.total > context.literal_bytes:
            most = f"the limit is {context.literal_bytes:,}"
            message = f"{name} is {capture.total:,} bytes, {most}; write it to a file instead"
            return ToolAnswered(None, "too_large", message, tree=context.snapshot(), requests=requests)
        head = b"" if capture is None else capture.parts()[0]
        value[name] = context.scrub(head.decode("utf-8", "backslashreplace"))
    failed, message = _how(ended, limit)
    return ToolAnswered(value, failed, message, tree=context.snapshot(), requests=requests)


def _how(ended: CommandEnd, seconds: float) -> tuple[ToolFailure, str]:
    if ended.reason == "timeout":
        return "timeout", f"timed out after {seconds:g} s; everything it started was killed"
    if ended.reason:
        return "killed", f"killed ({ended.reason}); everything it started was killed"
    return ("", "") if ended.exit_code == 0 else ("exit", f"exit {ended.exit_code}")


def _plain(value: Any) -> str:
    """Return a variable's value as text; values that are not strings are encoded as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _read(raw: bytes, path: str, context: ToolContext) -> ToolAnswered:
    if len(raw) > context.literal_bytes:
        message = f"{path} is over {context.literal_bytes:,} bytes; take a part by a command"
        return ToolAnswered(None, "too_large", message)
    try:
        return ToolAnswered(context.scrub(raw.decode()))
    except UnicodeDecodeError as error:
        return ToolAnswered(None, "refused", f"{path} is not UTF-8 text (byte {error.start:,}); read it by a command")


def _find_context(arguments: dict[str, Any], context: ToolContext) -> ToolAnswered:
    """Return the names of heap chunks and text files in the workspace that match a query.

    SQLite's FTS5 ranks them, best first; equal ranks are sorted by name.

    Args:
        arguments: ``query``; ``strategy`` is ``content`` (search the texts) or ``metadata`` (search names and
            descriptions); ``chunks`` with ``name``, ``description`` and ``content``; ``most`` is the maximum number of
            names.
    """
    words = list(dict.fromkeys(_WORD.findall(str(arguments.get("query") or "").lower())))[:MAX_QUERY_WORDS]
    if not words:
        return ToolAnswered([])
    by_content = arguments.get("strategy") != "metadata"
    rows = [
        (f"heap:{chunk['name']}", chunk["content"] if by_content else f"{chunk['name']} {chunk['description']}")
        for chunk in arguments.get("chunks") or ()
    ]
    for path in _paths(context):
        text = _searched_text(path, context) if by_content else path
        if text is not None:
            rows.append((path, text))
    most = int(arguments.get("most") or 10)
    return ToolAnswered([context.scrub(name) for name in _rank(rows, words)[:most]])


def _rank(rows: list[tuple[str, str]], words: list[str]) -> list[str]:
    """Return the names of rows that contain any of the words. Rarer words and shorter texts rank higher."""
    with closing(sqlite3.connect(":memory:")) as store:
        store.execute("CREATE VIRTUAL TABLE text USING fts5(name UNINDEXED, body)")
        split = [(name, " ".join(_WORD.findall(re.sub(r"[_/.-]", " ", body)))) for name, body in rows]
        store.executemany("INSERT INTO text VALUES (?, ?)", split)
        query = " OR ".join(f'"{word}"' for word in words)
        matches = store.execute("SELECT name, bm25(text) FROM text WHERE text MATCH ?", (query,)).fetchall()
    return [name for name, _ in sorted(matches, key=lambda row: (round(row[1], 9), row[0]))]


def _paths(context: ToolContext) -> list[str]:
    """Return the workspace's files, sorted, without those that ``.gitignore`` excludes."""
    paths: list[str] = []
    level = ["."]
    rules = context.rules()
    try:
        while level and len(paths) < MAX_FILES:
            inside = [each for folder in level for each in _inside(folder, context)]
            skipped = rules.ignored([os.fsencode(each.rstrip("/")) for each in inside])
            names = [each for each in inside if os.fsencode(each.rstrip("/")) not in skipped]
            level = [each.rstrip("/") for each in names if each.endswith("/")]
            paths += [each for each in names if not each.endswith("/")]
    except TimeoutError as error:
        raise WorkspaceError(f"{error}; see what .gitignore says") from error
    finally:
        rules.close()
    return sorted(paths)[:MAX_FILES]


def _inside(folder: str, context: ToolContext) -> list[str]:
    try:
        names = context.workspace.files.names(folder)
    except ToolRefused:
        return []
    own = (".git/", ".git", ".stackmem/")
    return [name if folder == "." else f"{folder}/{name}" for name in names if name not in own]


def _searched_text(path: str, context: ToolContext) -> str | None:
    """Return the text of a file, or None if it is not text, too large or unreadable."""
    try:
        raw = context.workspace.files.read_whole(path, _SEARCHED_BYTES)
        return None if len(raw) > _SEARCHED_BYTES or b"\0" in raw else raw.decode()
    except (ToolRefused, UnicodeDecodeError):
        return None
