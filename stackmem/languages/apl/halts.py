"""Stopping, as the language's halting protocol wants it: five fields under one banner."""

from __future__ import annotations

from collections.abc import Sequence

from stackmem.languages.operations import Halted, Source, ToolAnswer

from .template_language import MalformedOutputError
from .templates import TemplateFault

INITIALIZATION = "Initialization"
PROGRAM_RESOLUTION = "Program Resolution"
LOAD_AND_PARSE = "Load and Parse"
INPUT_VALIDATION = "Input Validation"

LIMIT_REACHED = "Limit Reached"
_MOST_DETAIL = 2_000
_MOST_TEMPLATE = 300


class Halt(Exception):  # noqa: N818 - the language's own word
    """Execution cannot go on.

    Attributes:
        kind: The error type, such as ``Command Failed``.
        reason: One sentence.
        phase, step: The innermost; filled in on the way out, the first that knows them.
        trail: What lies around the innermost, outermost first: tools, programs, and ``Item i of N`` of loops.

    """

    def __init__(self, kind: str, reason: str, details: str, phase: str = "", step: str = "") -> None:
        super().__init__(reason)
        self.kind, self.reason, self.details = kind, reason, details
        self.phase, self.step = phase, step
        self.trail: tuple[str, ...] = ()

    def within(self, phase: str, step: str, trail: Sequence[str]) -> Halt:
        """Told where it happened, unless it knows already."""
        if not self.phase:
            self.phase, self.step, self.trail = phase, step, tuple(trail)
        return self

    @property
    def all_details(self) -> str:
        details = _one_line(self.details)
        if len(details) > _MOST_DETAIL:
            details = f"{details[:_MOST_DETAIL]}…"
        return f"{details} ({' > '.join(self.trail)})" if self.trail else details

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
            "---"
        )


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def template_error(fault: TemplateFault, text: str) -> Halt:
    if not fault.missing:
        template = text if len(text) <= _MOST_TEMPLATE else f"{text[:_MOST_TEMPLATE]}…"
        reason = "A template or condition could not be evaluated."
        return Halt("Template Error", reason, f'Template: "{template}", {fault.reason}')
    if fault.is_field:
        reason = "A field was not found in a variable of the Execution Register."
        return Halt("Template Error", reason, f"Missing field: {fault.missing}")
    reason = "A required variable was not found in the Execution Register."
    return Halt("Template Error", reason, f"Missing variable: {{{{{fault.missing}}}}}")


def malformed_output(error: MalformedOutputError) -> Halt:
    output = error.output
    command = output.command if len(output.command) <= 200 else f"{output.command[:200]}..."
    return Halt(
        "Malformed Tool Output",
        "The tool's output could not be parsed or used as expected by the program logic.",
        f'Step "{output.step}" using command "{command}" returned malformed JSON, preventing access to the '
        f"'{error.field}' field.",
    )


def malformed_value(tool: str, why: str) -> Halt:
    return Halt(
        "Malformed Tool Output",
        "The tool's output could not be parsed or used as expected by the program logic.",
        f"Tool: '{tool}', {why}",
    )


def tool_logic(reason: str, details: str) -> Halt:
    return Halt("Tool Logic Error", reason, details)


def missing_parameter(tool: str, name: str) -> Halt:
    return tool_logic(f"The '{tool}' tool needs the parameter `{name}`.", f"Missing parameter: {name}")


def command_failed(command: str, answer: ToolAnswer) -> Halt:
    """Of a command with a non-zero exit, or one that was killed."""
    output = answer.value if isinstance(answer.value, dict) else {}
    if answer.failed not in ("", "exit", "timeout", "killed"):
        return tool_logic("The 'shell' tool could not run the command.", f'Command: "{command}", {answer.detail}')
    if answer.failed in ("", "exit"):
        reason = "The 'shell' tool executed a command that returned a non-zero exit code, indicating a failure."
        details = f'Command: "{command}", Exit Code: {output.get("exit_code")}'
    else:
        reason = "The 'shell' tool executed a command that did not end by itself."
        details = f'Command: "{command}", {answer.detail or answer.failed}'
    stderr = str(output.get("stderr") or "").strip()
    last = stderr.splitlines()[-1][:300] if stderr else ""
    return Halt("Command Failed", reason, f"{details}, Stderr: {last}" if last and answer.failed != "exit" else details)


def source_failed(reason: str, source: Source, named: str) -> Halt:
    """Of a source that could not be read: it is missing, or may not be read."""
    if source.failed == "No such file":
        return Halt("File Not Found", reason, f'Path: "{named}"')
    return tool_logic(reason, f'Path: "{named}", {source.failed}')


def file_failed(tool: str, path: str, answer: ToolAnswer) -> Halt:
    if answer.failed == "missing":
        reason = f"The tool '{tool}' could not find the specified file on disk."
        return Halt("File Not Found", reason, f'Path: "{path}"')
    return tool_logic(f"The tool '{tool}' could not use the path it was given.", f'Path: "{path}", {answer.detail}')
