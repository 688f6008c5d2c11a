"""Decides whether a call that was in progress when a run stopped may be repeated.

Rule 1: Reads, model calls and questions are repeated.
Rule 2: Commands and writes are repeated once the workspace is restored to its state before the call. If it cannot be
    restored, an agent's call gets a result that says so, and a program's call requires the user's consent.
Rule 3: A tool outside the workspace is called again only if it is declared idempotent or the user agrees.
"""

from __future__ import annotations

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.facts import Event, ToolReturned, VerifyReturned
from stackmem.core.requests import (
    Effect,
    InvokeTool,
    MergeFrames,
    RunChecks,
    RunHook,
    UseOwnTool,
    UseTool,
    Verify,
    effects_of,
)
from stackmem.history.restore import restore
from stackmem.settings.tools.own_tools import TOOLS

from .in_memory import MEMORY, NoHistory
from .opened import Opened
from .programs.tools import BUILT_IN, READS
from .run_folder import HISTORY
from .stopped import Stopped

PARTIAL = "interrupted, effects may be partial"
_CONFINED = ("bubblewrap", "namespaces")

Upcoming = Event | Effect | None


class MayRepeat(UsageError):  # noqa: N818 - a question to the user, not a failure
    """The interrupted call may already have happened; only the user can decide whether to repeat it."""


def changes_files(upcoming: Upcoming) -> bool:
    """Return whether the pending effect changes files, whether an agent or a program requested it."""
    match upcoming:
        case UseTool(call):
            return call.behavior.changes_files
        case Verify() | RunChecks() | MergeFrames():
            return True
        case RunHook(hook):
            return hook.sandbox
        case _:
            return any(call.tool in BUILT_IN and call.tool not in READS for call in _program_calls(upcoming))


def refuse_unsafe(upcoming: Upcoming, lost: str, *, yes: bool) -> None:
    """Raise if repeating the pending call could be harmful, unless ``yes`` is set.

    Raise MayRepeat if the call may have had effects, and the user has not allowed repeating it.

    Args:
        lost: Why files may have changed in the meantime; empty if they have not.
        yes: Whether the user allows every repetition.
    """
    if yes:
        return
    if isinstance(upcoming, UseOwnTool) and upcoming.name not in idempotent_tools():
        raise MayRepeat(_made_again(upcoming.name, upcoming.arguments))
    for call in _program_calls(upcoming):
        if call.tool not in BUILT_IN and call.tool not in idempotent_tools():
            raise MayRepeat(_made_again(call.tool, call.arguments))
        if lost and call.tool == "shell":
            text = f"{call.tool} {str(call.arguments)[:200]}"
            raise MayRepeat(f"the run stopped during a command ({lost}): {text}; check the files, then pass --yes")


def _made_again(tool: str, arguments: object) -> str:
    text = f"{tool} {str(arguments)[:200]}"
    return f"the run stopped in a call that may already have happened: {text}; pass --yes to repeat it"


def idempotent_tools() -> frozenset[str]:
    """Return the names of the user's own tools that are safe to call twice."""
    return frozenset(name for name, tool in TOOLS.items() if tool.idempotent)


def _program_calls(upcoming: Upcoming) -> list[InvokeTool]:
    return [effect for effect in effects_of(upcoming) if isinstance(effect, InvokeTool)]


def put_back(stopped: Stopped, opened: Opened) -> str:
    """Restore the workspace to its state before the interrupted call.

    Returns why effects of the call may remain, or an empty string if the workspace was restored.
    """
    level, tree = opened.workspace.level, stopped.state.tree
    if level == MEMORY:
        return ""  # the files were rebuilt by replaying the calls before this one
    if level not in _CONFINED or not tree or isinstance(opened.history, NoHistory):
        return f"at isolation {level} a command may have changed more than its workspace"
    try:
        lost = restore(opened.history, opened.places.run / HISTORY, opened.places.work, tree, stopped.asked_at)
    except WorkspaceError as error:
        return str(error)
    if not lost:
        return ""
    more = f" and {len(lost) - 5:,} more" if len(lost) > 5 else ""
    return f"not kept, so not put back: {', '.join(lost[:5])}{more}"


def result_of_interrupted(upcoming: Upcoming, lost: str, opened: Opened) -> Event | None:
    """Return a result for a call that is not repeated because files could not be restored, or None to repeat it.

    Calls marked repeatable, such as writing a whole file, are safe whatever state the files are in.
    """
    if not lost or not isinstance(upcoming, UseTool | Verify):
        return None
    if isinstance(upcoming, UseTool) and upcoming.call.behavior.repeatable:
        return None
    world = opened.world
    text = world.scrub(f"{PARTIAL} ({lost}); look at what is there before you go on")
    digests = {path: world.workspace.digest(path) for path in upcoming.sources}
    if isinstance(upcoming, Verify):
        return VerifyReturned("interrupted", text[:1_000], digests, world.snapshot())
    return ToolReturned(text, failed=True, digests=digests, tree=world.snapshot())
