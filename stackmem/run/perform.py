"""Touches the world: each effect is performed once, and what came of it is the fact that answers it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    SourcesDigested,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.messages import Text
from stackmem.core.requests import (
    AskModel,
    Compact,
    DigestSources,
    Effect,
    ReadClock,
    RunChecks,
    UseOwnTool,
    UseTool,
    Verify,
)
from stackmem.core.text import clip_bytes, tail
from stackmem.core.tools import ListFiles, ReadFile, RunCommand, WorkspaceCall, WriteFile
from stackmem.errors import WorkspaceError
from stackmem.workspace.clip import visible

from .ports import Checks, Model, Returned, Workspace

JITTER = 0.25
"""Share of a wait that is added at random, so that many runs do not ask again together; never asked too early."""
VERIFY_SECONDS = 30.0


def _no_own_tool(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    return f"the tool {name} is not here any more", True


class World(Struct):
    """Everything outside the machine that one run uses.

    Attributes:
        checks: None where nothing judges the run.
        scrub: Takes secrets out of text before it becomes a fact.
        sync: Makes the trace durable; called before each request.
        own_tool: Calls one of the person's own tools; its result as text, and whether it failed.
        snapshot: Keeps the workspace as it is now, and names it; empty where none is kept.
        started: ``clock()`` at the start of the run.

    """

    model: Model
    workspace: Workspace
    checks: Checks | None
    scrub: Callable[[str], str]
    sync: Callable[[], None]
    command_seconds: float
    snapshot: Callable[[], str] = str
    own_tool: Callable[[str, dict[str, Any]], tuple[str, bool]] = _no_own_tool
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    started: float = 0.0


def perform(effect: Effect, world: World) -> Event:
    """The fact that answers ``effect``.

    Raises:
        WorkspaceError: The sandbox failed; the run stays resumable.

    """
    match effect:
        case AskModel():
            return _ask(effect, world)
        case Compact():
            return _compact(effect, world)
        case UseTool():
            outcome = _use(effect.call, effect.shown_bytes, world)
            digests = _digests(effect.sources, world)
            tree = world.snapshot() if isinstance(effect.call, WriteFile | RunCommand) else ""
            return ToolReturned(world.scrub(outcome.text), outcome.failed, outcome.exit_code, digests, tree)
        case UseOwnTool():
            world.sync()  # it leaves this machine's files, as far as anyone knows
            text, failed = world.own_tool(effect.name, effect.arguments)
            shown = clip_bytes(visible(world.scrub(text)), effect.shown_bytes)
            return ToolReturned(shown, failed, None, _digests(effect.sources, world))
        case Verify():
            outcome = world.workspace.run_command(effect.command, min(VERIFY_SECONDS, world.command_seconds), 8_192)
            text = tail(world.scrub(outcome.text), 10, 1_000)
            return VerifyReturned(_verdict(outcome), text, _digests(effect.sources, world), world.snapshot())
        case DigestSources():
            return SourcesDigested(_digests(effect.sources, world))
        case ReadClock():
            return ClockRead(round(max(0.0, world.clock() - world.started), 3))
        case RunChecks():
            return _judge(world)
        case _:
            assert_never(effect)


def _ask(effect: AskModel, world: World) -> ModelReplied | ModelFailed:
    world.sync()
    if effect.wait_seconds:
        world.sleep(effect.wait_seconds * random.uniform(1, 1 + JITTER))  # noqa: S311 - spreads retries, guards nothing
    answer = world.model.reply(effect)
    if isinstance(answer, ModelFailed):
        answer = replace(answer, detail=world.scrub(answer.detail))
    return replace(answer, prompt_digest=effect.view.digest)


def _compact(effect: Compact, world: World) -> ContextCompacted | ModelFailed:
    """What the reply says in text; a call or a thought in it is nothing that was asked for."""
    answer = _ask(effect.ask, world)
    if isinstance(answer, ModelFailed):
        return answer
    text = "\n".join(part.text for part in answer.parts if isinstance(part, Text) and part.text.strip())
    return ContextCompacted(
        frame=effect.frame,
        up_to_step=effect.up_to_step,
        text=world.scrub(text),
        usage=answer.usage,
        prompt_digest=answer.prompt_digest,
        stop=answer.stop,
        detail=answer.detail,
        reply_id=answer.reply_id,
    )


def _use(call: WorkspaceCall, shown_bytes: int, world: World) -> Returned:
    workspace = world.workspace
    match call:
        case ReadFile():
            return workspace.read_file(call.path, call.start_line, call.end_line, shown_bytes)
        case WriteFile():
            return workspace.write_file(call.path, call.content)
        case ListFiles():
            return workspace.list_files(call.path, shown_bytes)
        case RunCommand():
            return workspace.run_command(call.command, world.command_seconds, shown_bytes)
        case _:
            assert_never(call)


def _digests(sources: tuple[str, ...], world: World) -> dict[str, str]:
    return {path: world.workspace.digest(path) for path in sources}


def _verdict(outcome: Returned) -> str:
    if outcome.exit_code is not None:
        return f"exit {outcome.exit_code}"
    return outcome.reason or "killed"


def _judge(world: World) -> ChecksReturned:
    if world.checks is None:
        return ChecksReturned({}, "the run has no checks")
    try:
        verdict = world.checks.judge()
    except (WorkspaceError, OSError) as error:
        verdict = ChecksReturned({}, f"the checks could not be run: {error}")
    return replace(verdict, text=world.scrub(verdict.text), error=world.scrub(verdict.error))
