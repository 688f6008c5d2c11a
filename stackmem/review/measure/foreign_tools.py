"""Classifies the tools of other agents, so that rules about calls also work on imported recordings.

Tools that are missing from the table count as running something. A shell call is classified by its command line. Our
own tools are in the table too. A call succeeded if its exit code says so. Without an exit code, only a result whose
text shows a failure counts as failed.
"""

from __future__ import annotations

import re
from typing import Literal

from stackmem.core.messages import ToolCall

Does = Literal["reads", "writes", "runs", "ends", "notes"]

_BY_KIND: dict[Does, str] = {
    "reads": "open goto scroll_up scroll_down search_dir search_file find_file read view read_file read_many_files "
    "Read Grep Glob LS list_directory list_files search_files search_file_content grep_search glob web_fetch "
    "web_search google_web_search recall view_image",
    "writes": "create edit insert write str_replace replace write_file edit_file apply_patch Write Edit MultiEdit "
    "NotebookEdit",
    "runs": "bash run run_command run_shell_command shell local_shell exec_command execute_bash execute_ipython_cell "
    "run_ipython terminal Bash python",
    "ends": "submit finish exit exit_forfeit pop_frame return",
    "notes": "think TodoWrite update_plan save_memory write_todos task_tracker",
}
_DOES: dict[str, Does] = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
_EDITORS = ("str_replace_editor", "str_replace_based_edit_tool", "file_editor", "text_editor")
"""Tools that view or write depending on their command."""

SWE_AGENT_COMMANDS = (
    *("open", "goto", "scroll_up", "scroll_down", "search_dir", "search_file", "find_file", "create", "edit", "insert"),
    *("submit", "exit_forfeit", "str_replace_editor"),
)
_SHELLS = frozenset(_BY_KIND["runs"].split()) - {"run_command"}

_WRITING = re.compile(
    r"(?<![0-9&>])>>?(?!&)\s*(?!/dev/null)[\w./~$\"'-]|\bsed\s+(?:-\w+\s+)*-\w*i|\bgit\s+apply\b|\btee\b|\bpatch\b|\bapply_patch\b"
)
_READING = re.compile(r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?(?:cat|sed\s+-n|head|tail|grep|rg|ls|find|nl|wc|pwd|tree|git\s+(?:log|diff|show|status|grep|blame))\b")  # fmt: skip  # noqa: E501
_ENDING = re.compile(
    r"\s*(?:cd\s+\S+\s*(?:&&|;)\s*)?echo\s+[\"']?(?:COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT)"
)
_TESTING = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests|tox|runtests(?:\.py)?|ctest|rspec|phpunit|jest|vitest)\b"
    r"|\b(?:npm|yarn|pnpm|make|cargo|go|mvn|gradle|gradlew|dotnet|bin/)\S*\s+(?:[\w=:./-]+\s+){0,4}(?:run\s+)?test\b"
    r"|\bmanage\.py\s+test\b|\bpython[0-9.]*\s+\S*test\S*\.py\b"
)
_FAILURE = re.compile(
    r"Traceback \(most recent call last\)|command not found|No such file or directory|BUILD FAILURE|"
    r"^FAILED\b|^FAIL\b|\b[1-9]\d* (?:failed|errors?)\b|\bSyntaxError\b|^E {2,}|introduced new syntax error|"
    r"^\S*[eE]rror: |^ERROR\b|compilation failed",
    re.MULTILINE,
)


def does(call: ToolCall) -> Does:
    """Return what a call does, by its tool, and for a shell or an editor by its command."""
    command = command_of(call)
    if call.name in _EDITORS:
        words = command.split()
        return "reads" if "view" in words[:2] else "writes"
    kind = _DOES.get(call.name, "runs")
    if kind == "runs" and call.name in _SHELLS:
        return _shell_does(command)
    return kind


def _shell_does(command: str) -> Does:
    if _ENDING.match(command):
        return "ends"
    if _WRITING.search(command):
        return "writes"
    return "reads" if _READING.match(command) else "runs"


def command_of(call: ToolCall) -> str:
    """Return the command line of a call, or the command of an editor. Empty if it has none."""
    arguments = call.arguments
    if not isinstance(arguments, dict):
        return arguments if isinstance(arguments, str) else ""
    command = arguments.get("command", arguments.get("cmd", arguments.get("code", "")))
    if isinstance(command, list):
        return " ".join(str(word) for word in command)
    return command if isinstance(command, str) else ""


def runs_tests(call: ToolCall) -> bool:
    """Return whether a call runs a project's tests, by the usual names of test runners."""
    return does(call) in ("runs", "writes") and _TESTING.search(command_of(call)) is not None


def shows_failure(text: str) -> bool:
    """Return whether the text of a result without an exit code shows that the call failed."""
    return _FAILURE.search(text) is not None
