"""Hooks, which are commands of the user that run at certain points of a run, and the fact that one of them ran."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..declarations import Voice

HookEvent = Literal["before_tool", "after_tool", "before_push", "before_pop", "before_apply", "after_request"]
HookOutcome = Literal["passed", "refused", "failed"]


class Hook(Struct, frozen=True):
    """A command that runs at one kind of point.

    Attributes:
        command: For the shell.
        source: The file that contains the hook, as messages name it.
        tools: Patterns for the names of tools, in which ``*`` matches any text. Empty matches every tool.
        seconds: Its time limit.
        sandbox: Whether it runs in the agent's sandbox, in the workspace. Otherwise it runs in the user's folder.
        required: Whether a failure of the command refuses what the hook guards.
    """

    event: HookEvent
    command: str
    source: str
    tools: tuple[str, ...] = ()
    seconds: float = 60.0
    sandbox: bool = False
    required: bool = False

    @property
    def name(self) -> str:
        """The hook as messages name it."""
        return f"the {self.event} hook in {self.source}"


class HookRan(Struct, frozen=True, tag=True):
    """A hook ran. It is never run again for this point.

    Attributes:
        outcome: ``refused`` if it does not allow what it guards, ``failed`` if it gave no decision.
        text: The reason for the model, text that it adds for the model, or why it failed.
        exit_code: None if it was killed or did not run.
        digests, tree: As in ``ToolReturned``, if it ran in the workspace.
    """

    hook: Hook
    outcome: HookOutcome
    text: str = ""
    exit_code: int | None = None
    digests: dict[str, str] = {}
    tree: str = ""

    @property
    def stops(self) -> bool:
        """Whether it refuses what it guards."""
        return self.outcome == "refused" or (self.outcome == "failed" and self.hook.required)

    @property
    def voice(self) -> Voice:
        failed = self.outcome != "passed"
        return Voice("notice" if failed else "internal", f"{self.hook.name} {self.outcome}", self.text, failed=failed)


class HookDue(Struct, frozen=True):
    """Something happened after which hooks run.

    Attributes:
        tool: The tool that was called. Empty after a request.
        given: The input of the hooks, as JSON.
        done: Number of hooks that already ran.
    """

    event: HookEvent
    tool: str
    given: str
    done: int = 0
