"""Rehearses a program that an agent wrote, using the answers recorded in its run. It changes nothing and is free.

Rule 1: Files are read from the workspace, and writes only exist for the rehearsal. A command gets the output that
    the same command had in the run.
Rule 2: The rehearsal ends at the first operation that has no recorded answer, such as a question to a model.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from stackmem.core.errors import Halted, UsageError
from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.core.text import quantity, shorten_text
from stackmem.languages.calling import linked, with_run_program
from stackmem.languages.frame.values import as_text
from stackmem.languages.language import INTERPRETERS, Launch, language_of, read_with
from stackmem.languages.operations import (
    ChunkAnswer,
    DropChunk,
    EnterFrame,
    Group,
    KeepChunk,
    LeaveFrame,
    ListChunks,
    ReadChunk,
    ReadHistory,
    ReadSpending,
    Say,
    Source,
    Spending,
    ToolAnswer,
)
from stackmem.languages.running.sources import CONFIGS, PACKAGED, Loader
from stackmem.settings.tools.own_tools import TOOLS

from .opening import open_language
from .prepare import source_reader

MAX_OPERATIONS = 10_000
MAX_SECONDS = 10.0
MAX_FINDINGS = 8
_SHOWN_CHARS = 200
_NO_SOURCES = "a rehearsal reads no other sources"


class RecordedAnswers(Struct):
    """The recorded results that a rehearsal uses."""

    commands: Mapping[str, tuple[str, int]]  # maps each command line of the run to its last output and exit code
    read: Callable[[str], str | None]  # returns the text of a workspace file, or None
    names: Callable[[str], tuple[str, ...] | None]  # returns the names in a workspace folder, or None
    written: dict[str, str] = field(default_factory=dict)
    chunks: dict[str, tuple[str, str]] = field(default_factory=dict)
    count: int = 0  # calls of tools so far


class _MissingAnswerError(Exception):
    """An operation has no recorded answer."""


def examine_program(path: str, text: str, inputs: dict[str, Any], answers: RecordedAnswers) -> tuple[str, bool]:
    """Lint and rehearse a program.

    Args:
        path: The path that the program will have; its end shows the language.
        text: The program.
        inputs: Its inputs by name.
        answers: The results of its operations.

    Returns:
        A report for the agent, and whether the program can be kept.
    """
    language_name = language_of(path)
    if language_name is None:
        return f"{path} does not end with {', '.join(sorted(INTERPRETERS))}", False
    language = open_language(language_name)
    tools = with_run_program([tool.spec for tool in TOOLS.values()])
    more: dict[str, Any] = {"tools": tools, "lib": (), "config": ""}
    option_names = (*(("config", "tools") if language.config else ()), *language.lints_with)
    load = source_reader(Loader(Path(path)))
    findings = read_with(language.lint(path, text, **{name: more[name] for name in option_names}), load)
    errors = [each for each in findings if each.severity == "error"]
    if errors:
        lines = "\n".join(f"line {each.line}: {each.code} {each.message}" for each in errors[:MAX_FINDINGS])
        return f"the program has {quantity(len(errors), 'error')} and was not saved:\n{lines}", False
    warnings = [each for each in findings if each.severity == "warning"]
    lines = "".join(f"\nwarning, line {each.line}: {each.message}" for each in warnings[:MAX_FINDINGS])
    launch = Launch(path, text, inputs, posixpath.dirname(path), options=language.new_options, tools=tools)
    return f"lint found no errors{lines}\n{_rehearse(launch, answers)}", True


def _rehearse(launch: Launch, answers: RecordedAnswers) -> str:
    """Run the program against the answers and return a sentence about how far it came."""
    language_name = language_of(launch.path) or ""
    answer: Any = None
    ends_at = time.monotonic() + MAX_SECONDS
    try:
        program = linked(launch, open_language(language_name), open_language)
        for _ in range(MAX_OPERATIONS):
            if time.monotonic() > ends_at:
                break
            answer = _answer(program.send(answer), answers)
    except StopIteration as stop:
        value = _short(as_text(stop.value))
        return f"rehearsal: {_progress(answers)}, and the program ended with {value}"
    except _MissingAnswerError as stop:
        return f"rehearsal: {_progress(answers)}; then it needs something that this run does not have: {stop}"
    except Halted as halted:
        return f"rehearsal: {_progress(answers)}; then the program halted: {_short(halted.report)}"
    except UsageError as error:
        return f"rehearsal: the program does not start: {error}"
    return f"rehearsal: {_progress(answers)}; it was stopped after {MAX_OPERATIONS:,} operations or {MAX_SECONDS:g} s"


def _short(text: str) -> str:
    return shorten_text(" ".join(text.split()), _SHOWN_CHARS, "…")


def _progress(answers: RecordedAnswers) -> str:
    return f"{quantity(answers.count, 'operation')} answered"


def _answer(operation: Any, answers: RecordedAnswers) -> Any:
    """Return the answer of one operation, or None for a note."""
    match operation:
        case Group():
            return tuple(_answer(each, answers) for each in operation.operations)
        case InvokeTool():
            answers.count += 1
            return _tool_answer(operation, answers)
        case LoadSource():
            return _source(operation)
        case KeepChunk():
            answers.chunks[operation.name] = operation.content, operation.description
            return ChunkAnswer(operation.content)
        case ReadChunk() | DropChunk():
            chunk = answers.chunks.get(operation.name)
            if chunk is not None and isinstance(operation, DropChunk):
                del answers.chunks[operation.name]
            return ChunkAnswer(chunk[0]) if chunk else ChunkAnswer(failed=f"unknown chunk {operation.name!r}")
        case ListChunks() | ReadHistory():
            return tuple((name, len(text), description) for name, (text, description) in answers.chunks.items())
        case ReadSpending():
            return Spending(0.0, 0.0)
        case EnterFrame() | LeaveFrame() | Say():
            return None
        case _ if type(operation).__name__ in _NEEDS:
            raise _MissingAnswerError(_NEEDS[type(operation).__name__])
        case _:
            return None


def _source(operation: LoadSource) -> Source:
    """Return a source of the package. Other sources are refused, because they would be read outside the sandbox."""
    if operation.path.startswith(PACKAGED):
        path, text, failed = Loader(Path(operation.path)).read(operation)
        return Source(path, text, failed=failed)
    return Source(
        operation.path, failed="No such file" if posixpath.basename(operation.path) in CONFIGS else _NO_SOURCES
    )


_NEEDS = {
    "Complete": "a reply of the model",
    "RunFrame": "the work of an agent",
    "AskUser": "an answer of the user",
    "Wait": "a wait",
}
"""Maps operations to what they need. All other operations without a case are notes."""


def _tool_answer(operation: InvokeTool, answers: RecordedAnswers) -> ToolAnswer:
    arguments = operation.arguments
    path = posixpath.normpath(str(arguments.get("path") or "."))
    match operation.tool:
        case "shell":
            command = str(arguments.get("command"))
            if command not in answers.commands or arguments.get("working_directory") or arguments.get("env"):
                raise _MissingAnswerError(f"the command {_short(command)}")
            output, code = answers.commands[command]
            value = {"stdout": output, "stderr": "", "exit_code": code}
            return ToolAnswer(value, "exit" if code else "", f"exit {code}" if code else "")
        case "write_file":
            answers.written[path] = str(arguments.get("content"))
            return ToolAnswer()
        case "make_directory":
            return ToolAnswer()
        case "read_file":
            text = answers.written.get(path)
            text = answers.read(path) if text is None else text
            return ToolAnswer(text) if text is not None else ToolAnswer(None, "missing", f"{path} does not exist")
        case "list_files":
            names = answers.names(path)
            return ToolAnswer(list(names)) if names is not None else ToolAnswer(None, "missing", f"no folder {path}")
        case _:
            raise _MissingAnswerError(f"the tool {operation.tool[:80]}")
