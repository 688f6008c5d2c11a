"""Builders for machine tests: a started run, replies, an in-memory world, and `play`, which folds a list of replies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

from msgspec import UNSET, json
from msgspec.structs import asdict, replace

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import (
    ChecksReturned,
    ClockRead,
    ContextCompacted,
    Event,
    ModelFailed,
    ModelReplied,
    RunStarted,
    SourcesDigested,
    Stop,
    ToolReturned,
    VerifyReturned,
)
from stackmem.core.log import Log
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import (
    Message,
    Part,
    PromptText,
    ReplyPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    View,
)
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel, Compact, DigestSources, Effect, ReadClock, RunChecks, UseTool, Verify
from stackmem.core.state import Notice, Result, State
from stackmem.core.strategy import MemoryStrategy, budgets_of
from stackmem.core.text import fill
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import EditFile, ListFiles, ReadFile, RunCommand, SearchFiles, WorkspaceCall, WriteFile
from stackmem.memory import open_strategy
from stackmem.run.prompts import prompt_text

PRICE = Price(1.0, 2.0, 1.25, 2.0, 0.1, "made up for tests")
SPENT = Usage(uncached=100, output=20)


def slots_of(template: str) -> set[str]:
    """Return the names of a template's ``{{slots}}``."""
    return set(re.findall(r"\{\{\s*([a-z_0-9]+)\s*\}\}", template))


def slots(budgets: Budgets, command_seconds: float = 30.0) -> dict[str, str]:
    """Return a value for every slot of the prompts and tools."""
    return {name: str(value) for name, value in asdict(budgets).items()} | {"command_seconds": f"{command_seconds:g}"}


def started(strategy: str = "stackheap", **changes: Any) -> RunStarted:
    """The first event of a run with assembled prompts, in a window of 200,000 tokens."""
    opened = open_strategy(strategy)
    budgets: Budgets = changes.pop("budgets", budgets_of(opened, Budgets()))
    filled = slots(budgets)
    start = RunStarted(
        task="Build a calculator per spec.md with tests.",
        task_name="calculator",
        model="script",
        strategy=opened.name,
        system=fill(prompt_text(opened.prompt), filled),
        tools=tuple(spec(tool, filled) for tool in opened.tools),
        workspace="/workspace",
        isolation="bubblewrap",
        network="none",
        budgets=budgets,
        limits=Limits(),
        window_tokens=200_000,
        price=None,
        checked=False,
        command_seconds=30.0,
        version="0",
        texts=tuple(PromptText(name, prompt_text(name).strip()) for name in getattr(opened, "texts", ())) or UNSET,
    )
    return replace(start, **changes)


def call(tool: str, /, **arguments: Any) -> ToolCall:
    """A tool call; `play` assigns an id if it has none."""
    return ToolCall("", tool, arguments)


def reply(*parts: ReplyPart | str, stop: Stop = "call", usage: Usage = SPENT) -> ModelReplied:
    """A complete reply; a plain string is its text."""
    return ModelReplied(tuple(Text(part) if isinstance(part, str) else part for part in parts), stop, usage)


def do(tool: str, /, **arguments: Any) -> ModelReplied:
    """A reply with one call."""
    return reply(call(tool, **arguments))


def push(**changes: Any) -> ModelReplied:
    """A push that fits all budgets."""
    given = {
        "name": "child",
        "objective": "Do the part.",
        "context": "Nothing special.",
        "return_spec": "What was done",
    }
    return do("push_frame", **{name: value for name, value in (given | changes).items() if value is not ...})


def pop(result: str = "Done.", **more: Any) -> ModelReplied:
    return do("pop_frame", result=result, **more)


def alloc(name: str, content: str = "some content", **more: Any) -> ModelReplied:
    return do("heap_alloc", name=name, content=content, **more)


def stored(name: str, content: str = "some content", **more: Any) -> dict[str, Any]:
    """An entry for `store`."""
    return {"name": name, "content": content, **more}


def failed(kind: Any = "overloaded", retry_after_seconds: float | None = None) -> ModelFailed:
    return ModelFailed(kind, "the provider said no", retry_after_seconds)


@dataclass
class World:
    """An in-memory workspace with a clock that advances automatically and checks with a fixed verdict.

    It answers summary requests with `summary` and no other model requests. The command `A > B` writes the text A to the
    file B, `rm B` removes B, and any other command answers as `outputs` says.
    """

    files: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, ToolReturned] = field(default_factory=dict)
    summary: str = "a summary"
    verified: VerifyReturned = field(default_factory=lambda: VerifyReturned("exit 0", "fine"))
    verify_writes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    tick_seconds: float = 1.0
    checks: ChecksReturned = field(default_factory=lambda: ChecksReturned({"reward": 1.0}))

    def perform(self, effect: Effect) -> Event:
        """Perform any effect except a model request."""
        match effect:
            case UseTool():
                text, bad = self._use(effect.call)
                code = (1 if bad else 0) if isinstance(effect.call, RunCommand) else None
                return ToolReturned(text, bad, code, self.digests(effect.sources))
            case Verify():
                self.files.update(self.verify_writes)
                return replace(self.verified, digests=self.digests(effect.sources))
            case DigestSources():
                return SourcesDigested(self.digests(effect.sources))
            case ReadClock():
                self.seconds += self.tick_seconds
                return ClockRead(self.seconds)
            case RunChecks():
                return self.checks
            case Compact(ask=ask, frame=frame, up_to_step=step):
                return ContextCompacted(frame, step, self.summary, SPENT, prompt_digest=ask.view.digest)
            case AskModel():
                raise AssertionError("this world does not answer model requests")
            case _:
                assert_never(effect)

    def digests(self, sources: Iterable[str]) -> dict[str, str]:
        return {path: self._digest(path) for path in sources}

    def _digest(self, path: str) -> str:
        if path.startswith(("/", "..")):
            return "outside"
        return hashlib.sha256(self.files[path].encode()).hexdigest() if path in self.files else "missing"

    def _use(self, wanted: WorkspaceCall) -> tuple[str, bool]:
        match wanted:
            case ReadFile(path=path):
                return (self.files[path], False) if path in self.files else (f"{path} does not exist", True)
            case WriteFile(path=path, content=content):
                self.files[path] = content
                return f"wrote {path}", False
            case EditFile(path=path, old_string=old, new_string=new):
                self.files[path] = self.files.get(path, "").replace(old, new)
                return f"edited {path}", False
            case SearchFiles():
                return "[no match]", False
            case ListFiles():
                return "\n".join(sorted(self.files)), False
            case RunCommand(command=command):
                text, written, path = command.partition(" > ")
                if written:
                    self.files[path] = text
                elif command.startswith("rm "):
                    del self.files[command[3:]]
                answer = self.outputs.get(command, ToolReturned("exit 0", exit_code=0))
                return answer.text, answer.failed
            case _:
                assert_never(wanted)


@dataclass
class Played:
    """The outcome of a script.

    Attributes:
        upcoming: The machine's next effect: an `AskModel` if the script ran out, None if the run is over.
        asked: Every request to the model, oldest first. The last one is unanswered if the script ran out.
    """

    strategy: MemoryStrategy
    state: State
    events: list[Event]
    asked: list[AskModel]
    effects: list[Effect]
    upcoming: Effect | None

    @property
    def view(self) -> View:
        return self.asked[-1].view

    @property
    def answer(self) -> str:
        """The newest result or notice in the running frame, which is the last text the model received."""
        return next(turn.text for turn in reversed(self.state.running.turns) if isinstance(turn, Result | Notice))

    def of(self, *kinds: type) -> list[Any]:
        """Return the events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


def play(*replies: ModelReplied | ModelFailed, start: RunStarted | None = None, world: World | None = None) -> Played:
    """Fold `replies` through the machine until they run out or the run is over."""
    begun = start or started()
    where = world if world is not None else World()
    strategy = open_strategy(begun.strategy)
    played = Played(strategy, evolve(State(), begun), [begun], [], [], None)
    left = list(replies)
    while (upcoming := advance(played.state, strategy)) is not None:
        if isinstance(upcoming, AskModel):
            played.asked.append(upcoming)
            if not left:
                break
            fact: Event = named(left.pop(0), upcoming)
        elif isinstance(upcoming, Effect):
            fact = where.perform(upcoming)
        else:
            fact = upcoming
        if isinstance(upcoming, Effect):
            played.effects.append(upcoming)
        played.events.append(fact)
        played.state = evolve(played.state, fact)
    played.upcoming = upcoming
    return played


def named(fact: ModelReplied | ModelFailed, request: AskModel) -> ModelReplied | ModelFailed:
    """Return the model fact that answers `request`: adds the prompt's digest, and an id for each call without one."""
    if isinstance(fact, ModelFailed):
        return replace(fact, prompt_digest=request.view.digest)
    parts = tuple(
        replace(part, id=part.id or f"call_{request.facts}_{place}") if isinstance(part, ToolCall) else part
        for place, part in enumerate(fact.parts)
    )
    return replace(fact, parts=parts, prompt_digest=request.view.digest)


def settled(view: View) -> View:
    """Return an equal view without cached values, so that its digest is computed from its bytes."""
    return replace(view, messages=Log(list(view.messages)))


def shown_text(view: View) -> str:
    """Return all text in a view that the model reads, without tools."""
    return "\n".join([view.system, *(message_text(message) for message in view.messages)])


def message_text(message: Message) -> str:
    return "\n".join(part_text(part) for part in message.parts)


def part_text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case ToolCall():
            given = part.malformed if part.malformed is not None else json.encode(part.arguments).decode()
            return f"-> {part.name} {given}"
        case ToolResult():
            return f"<- {'(failed) ' if part.failed else ''}{part.text}"
        case Thinking():
            return json.encode(part.raw).decode()
        case _:
            assert_never(part)
