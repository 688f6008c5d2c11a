"""A program's run taken up again: what it had asked the world when it stopped, and whether that may be asked again.

Rule 1: reads, model calls and questions are asked again.
Rule 2: commands and writes are asked again once the workspace is what it was before them.
Rule 3: a tool outside the workspace is asked again only where it says that this does no harm, or the person does.
"""

from __future__ import annotations

from msgspec.structs import replace

from stackmem.core.facts import Event, RunResumed
from stackmem.core.machine import evolve
from stackmem.core.requests import Effect, InvokeTool, UseOwnTool, effects_of
from stackmem.core.state import State
from stackmem.errors import UsageError
from stackmem.languages.program import ProgramDecider
from stackmem.run.request import Request
from stackmem.tools.own_tools import TOOLS

from .tools import BUILT_IN, READS


class MayRepeat(UsageError):  # noqa: N818 - a question, not a crash
    """A call may have been made when the run stopped, and only a person can say whether it may be made again."""


def take_up(program: ProgramDecider, state: State, again: RunResumed) -> Event | Effect | None:
    """What happens next in a program whose run goes on: a halt is taken back to what was asked last."""
    reopened = evolve(state, again)
    program.note(again, reopened)
    # What was under way is what counts here, and not that the clock is looked at first.
    return program.decide(replace(reopened, clock_fresh=True))


def refuse_unbegun(request: Request, state: State) -> None:
    """Refuse a program's run that was stopped before its program began: it would go on as an agent's.

    Raises:
        UsageError: It was.

    """
    if request.program is not None and state.program is None:
        raise UsageError("the run stopped before its program began, so nothing was done; run it with stackmem run")


def changes_files(upcoming: Event | Effect | None) -> bool:
    """Whether a command or a write had been asked for."""
    return any(call.tool in BUILT_IN and call.tool not in READS for call in _calls(upcoming))


def refuse_unsafe(upcoming: Event | Effect | None, lost: str, idempotent: frozenset[str], *, yes: bool) -> None:
    """Refuse to ask again what may have been done already.

    Args:
        lost: Why files may not be as they were; empty where they are.
        idempotent: Own tools that may be asked twice.
        yes: The person says that everything may.

    Raises:
        MayRepeat: A call may have had effects, and nobody says that it may be repeated.

    """
    for call in () if yes else _calls(upcoming):
        shown = f"{call.tool} {str(call.arguments)[:200]}"
        if call.tool not in BUILT_IN:
            if call.tool not in idempotent:
                raise MayRepeat(f"the run stopped in a call that may have been made: {shown}; --yes makes it again")
        elif lost and call.tool == "shell":
            raise MayRepeat(f"the run stopped in a command ({lost}): {shown}; look at the files, then say --yes")


def refuse_unsafe_call(upcoming: object, idempotent: frozenset[str], *, yes: bool) -> None:
    """As ``refuse_unsafe``, of an agent's call of an own tool."""
    if isinstance(upcoming, UseOwnTool) and not yes and upcoming.name not in idempotent:
        shown = f"{upcoming.name} {str(upcoming.arguments)[:200]}"
        raise MayRepeat(f"the run stopped in a call that may have been made: {shown}; --yes makes it again")


def idempotent() -> frozenset[str]:
    """The own tools that may be called twice."""
    return frozenset(name for name, tool in TOOLS.items() if tool.idempotent)


def _calls(upcoming: Event | Effect | None) -> list[InvokeTool]:
    return [effect for effect in effects_of(upcoming) if isinstance(effect, InvokeTool)]
