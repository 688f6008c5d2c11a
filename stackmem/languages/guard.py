"""Applies the user's permission rules and hooks to the steps of programs (``RunStarted.guards``).

Rule 1: A step is checked like an agent's call that does the same: a command as ``run_command``, a written file as
    ``write_file``.
Rule 2: All steps of a group are checked, in their order, before the first of them runs.
Rule 3: A refused step is answered as ``refused`` with the reason. The program decides what follows.
Rule 4: Hooks after a step run once all steps of its group have answered. They cannot change an answer.
Rule 5: A Python program is not a step, but what it asks the run to do is. A Python function of a playbook is a step.
"""

from __future__ import annotations

import posixpath
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from stackmem.core.conversation import permissions, session
from stackmem.core.conversation.hook_facts import HookEvent, HookRan
from stackmem.core.conversation.hooks import hooks_of
from stackmem.core.facts import CallRejected, Event
from stackmem.core.person_facts import PersonDecided
from stackmem.core.program_facts import ToolAnswered
from stackmem.core.requests import AskPermission, Effect, InvokeTool, RunHook
from stackmem.core.state import Grant, State

_AS_CALLS = {
    "shell": "run_command", "write_file": "write_file", "make_directory": "write_file", "read_file": "read_file",
    "list_files": "list_files", "find_context": "search_files",
}  # fmt: skip
"""Maps the built-in tools of programs to the tools of agents."""


class StepCheck(Struct):
    """The progress of one step through the rules and hooks."""

    tool: str  # the name that rules and hooks know
    subject: str  # the command, the path, or the arguments as JSON
    arguments: dict[str, Any]
    decided: PersonDecided | None = None
    # before, after: number of hooks that ran before and after the step
    before: int = 0
    after: int = 0
    refused: str = ""  # why a hook does not allow the step. Empty if none refused it
    answer: ToolAnswered | None = None  # the answer of the step, once it ran


def check_of(step: InvokeTool, workspace: str) -> StepCheck | None:
    """Return the check of a step, or None if it is not checked."""
    tool, arguments = _AS_CALLS.get(step.tool, step.tool), step.arguments
    if step.tool == permissions.RUN_PYTHON:
        if arguments.get("session") is not None or arguments.get(
            "answers"
        ):  # a Python program, or a function that goes on
            return None
        order = json.decode(arguments["order"])
        return StepCheck(tool, order["function"], {name: order[name] for name in ("function", "arguments")})
    if tool == "run_command":
        subject = str(arguments.get("command", ""))
    elif step.tool in _AS_CALLS:  # the paths of programs begin at the workspace, those of rules at the run's folder
        subject = posixpath.join(workspace, str(arguments.get("path") or "."))
    else:
        subject = json.encode(arguments, order="deterministic").decode()
    return StepCheck(tool, subject, arguments)


class StepGuard:
    """The rules and hooks for the steps of one program, and what the user allowed for longer than one step."""

    def __init__(self) -> None:
        self._grants: list[Grant] = []

    def before(self, check: StepCheck, state: State) -> Event | Effect | None:
        """Return what must happen before the step: a hook, a question, or its refusal. None if it may run."""
        rule = permissions.rule_of_step(state, check.tool, check.subject)
        if rule is not None and rule.effect == "deny":
            return CallRejected("denied", permissions.denial(rule).text)
        asks = rule is not None and rule.effect == "ask"
        if rule is not None and asks and state.session is None:
            return CallRejected("denied", permissions.without_user(permissions.spelled(rule)))
        hooks = hooks_of(state, "before_tool", check.tool)
        if check.refused:
            return CallRejected("hook_refused", check.refused)
        if check.before < len(hooks):
            return RunHook(hooks[check.before], _hook_input("before_tool", check, state), state.heap.sources)
        if rule is None or not asks:
            return None
        if check.decided is not None:
            reason = f": {check.decided.words}" if check.decided.words else ""
            return None if check.decided.allow else CallRejected("denied", f"the user did not allow this step{reason}")
        content = check.arguments.get("content")
        detail = content if isinstance(content, str) else ""
        request = AskPermission(check.tool, check.subject, detail, outside=check.tool in state.begun.registered)
        if any(session.covers(grant, request, state) for grant in self._grants):
            return None
        return replace(request, rule=permissions.spelled(rule))

    def after(self, check: StepCheck, state: State) -> RunHook | None:
        """Return the next hook that runs after the step, or None."""
        hooks = hooks_of(state, "after_tool", check.tool) if check.answer is not None else ()
        if check.after >= len(hooks):
            return None
        return RunHook(hooks[check.after], _hook_input("after_tool", check, state), state.heap.sources)

    def note(self, check: StepCheck, event: HookRan | PersonDecided) -> None:
        """Take note of the outcome of a hook or of the user's decision."""
        if isinstance(event, PersonDecided):
            check.decided = event
            if event.allow and event.scope != "once":
                self._grants.append(Grant(check.tool, event.pattern, ""))
        elif check.answer is not None:
            check.after += 1
        else:
            check.before += 1
            if event.stops:
                check.refused = f"{check.tool} refused by {event.hook.name}: {event.text or 'it gave no reason'}"


def _hook_input(event: HookEvent, check: StepCheck, state: State) -> str:
    """Return the input of the hooks, as JSON."""
    path = state.program.path if state.program is not None else ""
    fields: dict[str, object] = {
        "hook_event_name": event, "frame": state.running.name, "step": state.step, "program_step": path,
        "tool_name": check.tool, "tool_input": check.arguments,
    }  # fmt: skip
    if check.answer is not None:
        answer = check.answer
        text = answer.detail or (answer.value if isinstance(answer.value, str) else json.encode(answer.value).decode())
        fields["tool_response"] = {"text": text, "failed": bool(answer.failed)}
    return json.encode(fields).decode()
