"""Halts in the format of the language's halting protocol: five fields under a banner."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from stackmem.core.errors import Halted
from stackmem.languages.frame.values import brief
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.operations import Source, ToolAnswer

from .command_output import MalformedOutputError
from .templates import TemplateFault, mentions

INITIALIZATION = "Initialization"
PROGRAM_RESOLUTION = "Program Resolution"
LOAD_AND_PARSE = "Load and Parse"
INPUT_VALIDATION = "Input Validation"

LIMIT_REACHED = "Limit Reached"
_MAX_DETAIL = 2_000
_MAX_TEMPLATE = 300
_MAX_STDERR = 500
_MAX_FIELDS = 20
_MAX_COMPARED = 500
_MAX_NAME = 100
_NOTHING: Mapping[str, Any] = {}


class Halt(Exception):  # noqa: N818 - the language's own term
    """Execution cannot continue.

    Attributes:
        kind: The error type, such as ``Command Failed``.
        reason: One sentence.
        near: Known names similar to an unknown one.
        stderr: The error output of a failed command.
        phase, step: The innermost phase and step; set by the first caller that knows them.
        file: The source of the step. ``line`` and ``column`` are 0 if only the file is known.
    """

    def __init__(
        self, kind: str, reason: str, details: str, phase: str = "", step: str = "", *,
        near: tuple[str, ...] = (), stderr: str = "",
    ) -> None:  # fmt: skip
        super().__init__(reason)
        self.kind, self.reason, self.details = kind, reason, details
        self.near, self.stderr = near, stderr
        self.phase, self.step = phase, step
        # the enclosing tools, programs, and ``Item i of N`` of loops, outermost first
        self.trail: tuple[str, ...] = ()
        self.file, self.line, self.column = "", 0, 0

    def locate(self, phase: str, step: str, trail: Sequence[str]) -> Halt:
        """Set the location in the program, unless it is already set."""
        if not self.phase:
            self.phase, self.step, self.trail = phase, step, tuple(trail)
        return self

    def at(self, file: str, position: Place | None = None) -> Halt:
        """Set the position in a source, unless it is already set."""
        if not self.file:
            self.file = file
            self.line, self.column = (position.line, position.column) if position else (0, 0)
        return self

    @property
    def all_details(self) -> str:
        details = _one_line(self.details)
        if len(details) > _MAX_DETAIL:
            details = f"{details[:_MAX_DETAIL]}…"
        if self.near:
            details = f"{details}, Nearest: {_one_line(', '.join(self.near))}"
        if self.stderr:
            details = f"{details}, Stderr: {_one_line(self.stderr)}"
        return f"{details} ({' > '.join(self.trail)})" if self.trail else details

    @property
    def as_error(self) -> dict[str, Any]:
        """The value of ``error`` in the steps of a ``catch``."""
        return {
            "type": self.kind, "reason": self.reason, "details": self.all_details, "stderr": self.stderr,
            "nearest": list(self.near), "step": self.step, "file": self.file, "line": self.line,
        }  # fmt: skip

    def to_halted(self, path: str) -> Halted:
        return Halted(self.kind, self.report, path)

    @property
    def report(self) -> str:
        return (
            "---\n"
            "**APL EXECUTION HALTED**\n"
            "\n"
            f"*   **Phase**: `{_one_line(self.phase)}`\n"
            f"*   **Step**: `{_one_line(self.step)}`\n"
            f"*   **Error Type**: `{self.kind}`\n"
            f"*   **Reason**: `{_one_line(self.reason)}`\n"
            f"*   **Details**: `{self.all_details}`\n"
            f"{self._file_line}---"
        )

    @property
    def _file_line(self) -> str:
        location = f":{self.line}:{self.column}" if self.line else ""
        return f"*   **File**: `{_one_line(self.file)}{location}`\n" if self.file else ""


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def nearest(name: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names similar to ``name``. At most 500 known names are compared."""
    names = sorted({each for each in candidates if len(each) <= _MAX_NAME})[:_MAX_COMPARED]
    return tuple(get_close_matches(name[:_MAX_NAME], names, 3, 0.6))


def template_error(
    fault: TemplateFault,
    text: str,
    variables: Mapping[str, Any] = _NOTHING,  # the variables that are set
    made_by: Mapping[str, str] = _NOTHING,  # for each variable registered by a step, the step's name
) -> Halt:
    """Build the halt for a fault in a template or condition ``text``."""
    if not fault.missing:
        return invalid_template(text, fault.reason)
    if fault.is_field:
        return _missing_field(fault, text, variables, made_by)
    return missing_variable(fault.missing, variables)


def invalid_template(text: str, reason: str) -> Halt:
    template = text if len(text) <= _MAX_TEMPLATE else f"{text[:_MAX_TEMPLATE]}…"
    return Halt(
        "Template Error", "A template or condition could not be evaluated.", f'Template: "{template}", {reason}'
    )


_FILTERS = {
    "len": "length", "size": "length", "str": "string", "int": "int", "float": "float", "abs": "abs", "sum": "sum",
    "min": "min", "max": "max", "round": "round", "sorted": "sort", "list": "list", "json": "tojson", "dumps": "tojson",
}  # fmt: skip
"""The filters that replace functions of Python."""


def missing_variable(name: str, candidates: Collection[str]) -> Halt:
    reason = "A required variable was not found in the Execution Register."
    near = nearest(name, candidates) or ((f"the filter `x | {_FILTERS[name]}`",) if name in _FILTERS else ())
    return Halt("Template Error", reason, f"Missing variable: {{{{{name}}}}}", near=near)


def _missing_field(fault: TemplateFault, text: str, variables: Mapping[str, Any], made_by: Mapping[str, str]) -> Halt:
    fields = [str(name) for name in fault.container] if isinstance(fault.container, dict) else []
    lines = [f"Missing field: {fault.missing}"]
    if fields:
        more = ", …" if len(fields) > _MAX_FIELDS else ""
        lines.append(f"Fields: {', '.join(fields[:_MAX_FIELDS])}{more}")
    all_mentions = [*mentions(text), *mentions(text, expression=True)]
    of = next((each.name for each in all_mentions if fault.missing in each.path and each.name in variables), "")
    if of:
        source = f'Step "{made_by[of]}" returned' if of in made_by else f"`{of}` is"
        lines.append(f"{source}: {brief(variables[of])}")
    reason = "A field was not found in a variable of the Execution Register."
    return Halt("Unresolved Template Variable", reason, ", ".join(lines), near=nearest(fault.missing, fields))


def unknown_tool(name: str, candidates: Iterable[str], unreadable: Sequence[str] = ()) -> Halt:
    """Build the halt for an unknown tool. ``unreadable`` lists tool files that may define it but cannot be read."""
    names = sorted(candidates)
    details = f"Known tools: {', '.join(names)}"
    if unreadable:
        details = f"{details}, Tool files that cannot be read: {', '.join(unreadable)}"
    return Halt("Unknown Tool", f"The tool `{name}` does not exist.", details, near=nearest(name, names))


def unknown_step(name: str, candidates: Iterable[str]) -> Halt:
    names = sorted(candidates)
    details = f"Known: {', '.join(names) or 'none'}"
    return Halt("Invalid Program", f"`def_step` has no `{name}`.", details, near=nearest(name, names))


def invalid_program(path: str, position: Place, message: str, line: str) -> Halt:
    """Build the halt for an invalid document from its first fault, the position, and the source line."""
    location = f"{path}:{position.line}:{position.column}"
    details = f"{location}: {line.strip()}" if line.strip() else location
    return Halt("Invalid Program", message, details).at(path, position)


def missing_input(name: str) -> Halt:
    return Halt(
        "Missing Required Input",
        "The program was executed without a mandatory input parameter.",
        f'Missing input: "{name}"',
    )


def unknown_input(name: str, candidates: Iterable[str]) -> Halt:
    names = sorted(candidates)
    details = f"Unknown input: {name}; known: {', '.join(names) or 'none'}"
    reason = "The caller passed an input that is not declared."
    return Halt("Tool Logic Error", reason, details, near=nearest(name, names))


def constant_changed(name: str) -> Halt:
    return tool_logic("A constant cannot be changed.", f"Constant: {name}")


def bad_name(name: object) -> Halt:
    return tool_logic("A variable's name is letters, digits and _.", f"Name: {name!s:.80}")


def malformed_output(error: MalformedOutputError) -> Halt:
    output = error.output
    command = output.command if len(output.command) <= 200 else f"{output.command[:200]}..."
    return Halt(
        "Malformed Tool Output",
        "The tool's output could not be parsed or used as expected by the program logic.",
        f'Step "{output.step}" using command "{command}" returned malformed JSON, preventing access to the '
        f"'{error.field}' field.",
    )


def malformed_value(tool: str, reason: str) -> Halt:
    return Halt(
        "Malformed Tool Output",
        "The tool's output could not be parsed or used as expected by the program logic.",
        f"Tool: '{tool}', {reason}",
    )


def tool_logic(reason: str, details: str) -> Halt:
    return Halt("Tool Logic Error", reason, details)


def missing_parameter(tool: str, name: str) -> Halt:
    return tool_logic(f"The '{tool}' tool needs the parameter `{name}`.", f"Missing parameter: {name}")


def command_failed(command: str, answer: ToolAnswer) -> Halt:
    """Build the halt for a command that exited with a non-zero code or was killed."""
    output = answer.value if isinstance(answer.value, dict) else {}
    if answer.failed not in ("", "exit", "timeout", "killed"):
        return tool_logic("The 'shell' tool could not run the command.", f'Command: "{command}", {answer.detail}')
    if answer.failed in ("", "exit"):
        reason = "The 'shell' tool executed a command that returned a non-zero exit code, indicating a failure."
        details = f'Command: "{command}", Exit Code: {output.get("exit_code")}'
    else:
        reason = "The 'shell' tool executed a command that did not end on its own."
        details = f'Command: "{command}", {answer.detail or answer.failed}'
    stderr = str(output.get("stderr") or "").strip()
    cut = f"… {stderr[-_MAX_STDERR:]}" if len(stderr) > _MAX_STDERR else stderr
    return Halt("Command Failed", reason, details, stderr=cut)


def source_failed(reason: str, source: Source, name: str) -> Halt:
    """Build the halt for a source that is missing or must not be read."""
    if source.failed == "No such file":
        return Halt("File Not Found", reason, f'Path: "{name}"')
    return tool_logic(reason, f'Path: "{name}", {source.failed}')


def file_failed(tool: str, path: str, answer: ToolAnswer) -> Halt:
    if answer.failed == "missing":
        reason = f"The tool '{tool}' could not find the specified file on disk."
        return Halt("File Not Found", reason, f'Path: "{path}"')
    return tool_logic(f"The tool '{tool}' could not use the path it was given.", f'Path: "{path}", {answer.detail}')
