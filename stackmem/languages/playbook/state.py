"""The orchestrator's state of a running program (agents, variables, artifacts, frames), and an agent's execution."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from stackmem.core.errors import Halted
from stackmem.languages.debugger import DebugMoment, FrameView, MomentListener
from stackmem.languages.frame.artifacts import Artifact
from stackmem.languages.frame.values import as_text
from stackmem.languages.operations import EnterFrame, LeaveFrame, Routine

from ..frame.bounds import VALUE_CHARS
from .errors import halt
from .literals import CallTo, Variable
from .session_log import SessionLog
from .tree import Playbook, PlaybookAgent, PlaybookProgram, StepLine

LARGE_CHARS = 500
"""The state contains only the size and beginning of a longer value."""
SHOWN_NAMES = 100
"""Maximum number of variables, and of artifacts, shown in the state. The newest ones are shown."""
_START_CHARS = 80
MAX_DEEP = 50
_PART_CHARS = 10


class Exit(Exception):  # noqa: N818 - ``yld exit``, while it unwinds the frames
    """Ends the program."""


class PlaybookFrame(Struct, eq=False):
    """A running playbook."""

    book: Playbook
    arguments: dict[str, Any]
    mark: int = 0  # length of the session log when the frame began
    at: StepLine | None = None  # the line executed last
    loaded: dict[str, str] = {}  # artifact name to content, shown for the rest of the frame
    # variables bound by the calls of the last yield, valid until the first Step of the next reply
    returned: dict[str, Any] = {}
    recap: str = ""  # the latest recap
    misses: int = 0  # consecutive replies that broke the contract
    extra_calls: list[Any] = []  # returned calls that no line asked for, made since the frame reached its current line
    python_line: int = 0  # line of a function's last call; 0 before the first call, and for prose
    summary: str = ""

    @property
    def line(self) -> int:
        return self.at.line if self.at else self.python_line or self.book.line

    @property
    def location(self) -> str:
        return f"{self.book.name}:{self.at.label}" if self.at else self.book.name


class AgentState:
    """The state of one agent. All its playbooks share its variables."""

    def __init__(self, agent: PlaybookAgent) -> None:
        self.agent = agent
        self.variables: dict[str, Any] = {}
        self.log = SessionLog()
        self.frames: list[PlaybookFrame] = []
        self.fired_triggers: set[tuple[str, int]] = set()
        self.changed: set[str] = set()
        self.inbox: dict[str, list[str]] = {}

    def set(self, name: str, value: Any) -> None:
        """Set a variable. A changed value makes fired triggers ready again."""
        if name not in self.variables or not same_value(self.variables[name], value):
            self.fired_triggers.clear()
        self.bind(name, value)

    def bind(self, name: str, value: Any) -> None:
        """Set a parameter, which triggers do not watch."""
        self.changed.add(name)
        self.variables.pop(name, None)  # keep the newest variables last
        self.variables[name] = value


class PlaybookState:
    """The program and its agents.

    ``snoop`` says whether to show the user the messages between agents. ``loose`` says whether replies by later
    versions of the contract are read, too.
    """

    def __init__(
        self,
        program: PlaybookProgram,
        path: str,
        contract: str,
        *,
        snoop: bool = False,
        source: str = "",
        loose: bool = False,
    ) -> None:
        self.program, self.path, self.contract, self.snoop, self.loose = program, path, contract, snoop, loose
        self.source = source or path  # the program's full path
        self.agents = {agent.name: AgentState(agent) for agent in program.agents}
        self.artifacts: dict[str, Artifact] = {}  # artifacts of all agents
        self.frame: PlaybookFrame | None = None  # the frame whose reply was read last
        self.python_calls = 0
        self.results = 0

    def source_location(self, frame: PlaybookFrame | None) -> str:
        """Return the file and line that a frame executes, or only the file without a frame."""
        return f"{self.path}:{frame.line} ({frame.location})" if frame else self.path


def same_value(first: Any, other: Any) -> bool:
    """Return whether two JSON values are equal. ``1`` equals ``1.0`` but not ``true``."""
    if first is other:
        return True
    match first, other:
        case bool(), _:
            return False
        case _, bool():
            return False
        case list(), list():
            return len(first) == len(other) and all(map(same_value, first, other))
        case dict(), dict():
            return first.keys() == other.keys() and all(same_value(value, other[key]) for key, value in first.items())
        case _:
            return bool(first == other)


def resolve(value: Any, variables: dict[str, Any], excluded: Iterable[str] = ()) -> Any:
    """Replace variables in a value by their values, except those in ``excluded``. Unknown variables stay."""
    match value:
        case Variable() if value.name in variables and value.name not in excluded:
            return variables[value.name]
        case list():
            return [resolve(each, variables, excluded) for each in value]
        case dict():
            return {key: resolve(each, variables, excluded) for key, each in value.items()}
        case CallTo():
            values = tuple(resolve(each, variables, excluded) for each in value.values)
            return CallTo(value.name, values, tuple((k, resolve(v, variables, excluded)) for k, v in value.keywords))
        case _:
            return value


def excess(value: Any) -> str:
    """Return why a value built from variables is too deep or too large; empty if it is neither.

    The check is needed because lists that share parts are small in memory but can grow exponentially when written out.
    """
    size, pending = 0, [(value, 0)]
    while pending:
        each, depth = pending.pop()
        size += _PART_CHARS + (len(each) if isinstance(each, str) else 0)
        if depth > MAX_DEEP:
            return f"the value is nested over {MAX_DEEP} deep"
        if size > VALUE_CHARS:
            return f"the value has over {VALUE_CHARS:,} characters; save it as an artifact in parts"
        match each:
            case list():
                pending.extend((inner, depth + 1) for inner in each)
            case dict():
                size += sum(map(len, each))
                pending.extend((inner, depth + 1) for inner in each.values())
            case CallTo():
                pending.extend((inner, depth) for inner in (*each.values, *(inner for _, inner in each.keywords)))
    return ""


def shortened_value(value: Any) -> Any:
    """Return a value as shown in the state. A large one is replaced by its size and beginning."""
    text = as_text(value)
    return value if len(text) <= LARGE_CHARS else {"chars": len(text), "starts": text[:_START_CHARS]}


def state_json(world: PlaybookState, agent: AgentState) -> str:
    """Return the state as shown to the model: stack, variables, artifacts."""
    variables = list(agent.variables.items())
    artifacts = list(world.artifacts.values())
    fields: dict[str, Any] = {
        "call_stack": [
            {"playbook": frame.book.name, "line_number": frame.at.label if frame.at else "", "source_line_number":
             frame.at.line if frame.at else frame.book.line}
            for frame in agent.frames
            if not frame.book.python
        ],
        "variables": {f"${name}": shortened_value(value) for name, value in variables[-SHOWN_NAMES:]},
        "artifacts": {each.name: each.summary for each in artifacts[-SHOWN_NAMES:]},
    }  # fmt: skip
    older = {"variables": len(variables) - SHOWN_NAMES, "artifacts": len(artifacts) - SHOWN_NAMES}
    left_out = {name: count for name, count in older.items() if count > 0}
    if left_out:
        fields["older_not_shown"] = left_out
    return json.dumps(fields, indent=2, ensure_ascii=False, default=str)


class Waiting(Struct, frozen=True):
    """The agent needs a message from ``source`` to continue. The scheduler sends it the text."""

    agent: str
    source: str


class CallFailure(Struct, frozen=True):
    """A failed call. The model reads the reason."""

    reason: str


class PlaybookExecution(Struct, frozen=True):
    """The agent whose playbook runs, and its open frames on the shared stack."""

    world: PlaybookState
    agent: AgentState
    opened: list[EnterFrame]  # open frames of the agent whose turn it is, outermost first
    # the interpreter's function that runs a playbook or function for an execution
    run: Callable[[PlaybookExecution, Playbook, dict[str, Any]], Routine]
    watch: MomentListener | None = None  # a debugger, if one is attached
    called_at: str = ""  # file and line of the call; empty at the program's start

    def play(self, agent: str, book: Playbook, arguments: dict[str, Any], called_at: str) -> Routine:
        """Call a playbook of ``agent`` and return its value."""
        there = PlaybookExecution(self.world, self.world.agents[agent], self.opened, self.run, self.watch, called_at)
        return (yield from self.run(there, book, arguments))

    def enter(self, name: str, intent: str) -> Routine:
        """Open a frame on the shared stack.

        Raise Halted if there are too many frames. The message names the line of the call.
        """
        frame = EnterFrame(name, intent)
        try:
            yield frame
        except Halted as refused:
            raise halt(refused.kind, refused.report, self.called_at or self.world.path, f"call of {name}") from None
        self.opened.append(frame)

    def leave(self, result: str) -> Routine:
        self.opened.pop()
        yield LeaveFrame(result)

    def wait(self, source: str) -> Routine:
        """Return the messages of ``source`` as one text. If there are none yet, other agents run until one arrives.

        The agent's frames leave the shared stack while it waits, and are entered again afterwards.
        """
        came = self.agent.inbox.pop(source, [])
        if came:
            return "\n".join(came)
        for _ in self.opened:
            yield LeaveFrame(f"waits for {source}")
        text = yield Waiting(self.agent.agent.name, source)
        yield from list(self.opened)
        return text

    def notify_debugger(self, kind: Any, text: str = "", line: int = 0) -> None:
        """Notify the debugger, if one is attached. ``line`` is the line that is about to run."""
        if self.watch is None:
            return
        variables = {f"${name}": value for name, value in self.agent.variables.items()}
        stack = [
            FrameView(
                frame.book.name,
                self.world.source,
                line if line and not index else frame.line,
                {f"${name}": value for name, value in frame.arguments.items()} if frame.book.python else variables,
            )
            for index, frame in enumerate(reversed(self.agent.frames))
        ]
        self.watch(DebugMoment(kind, tuple(stack), text, self.agent.agent.name))
