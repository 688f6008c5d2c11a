"""The state of one running agent: its input, its conversation and payload, and its usage.

The dollar and second limits of a sub-agent's definition apply to each request to it.

Rule 1: the usage of agents that it asks counts towards these limits, which apply to those agents too.
Rule 2: limits are checked before each turn, each loop batch and each wait. Work in progress is not interrupted.
Rule 3: without a known price, dollar limits cannot be enforced, and the user gets one notice. The limits of the top
agent are the run's own limits; see ``language.Language.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from stackmem.core.program_facts import StepFailed
from stackmem.core.requests import Wait
from stackmem.core.schemas.json_schema import first_fault
from stackmem.core.text import mark_cut
from stackmem.languages.debugger import DebugMoment, FrameView, MomentListener
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.operations import ReadSpending, Routine, Say, Spending

from .conversation import AgentConversation
from .prompt import PromptParams
from .tree import Agent, AgentAction, AgentLimits

MAX_DEPTH = 8
RAN_DRY = 3
MAX_MISFITS = 3
MAX_BARE = 5
WARN_REPEATED, MAX_REPEATED = 5, 30
_MAX_NOTES = 50
_NOTE_CHARS = 400
_REASON_CHARS = 1_000
_NOWHERE = Place(1, 1)


class AgentEnded(Exception):  # noqa: N818 - the agent's regular end, not a crash
    """The agent cannot continue."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class RunContext(Struct, frozen=True):
    """The state shared by all agents of a run."""

    run: Callable[[AgentSession], Routine]  # the agent loop
    # maps (the referring file, the file name used there) to the path of an agent's file and the agent
    files: dict[tuple[str, str], tuple[str, Agent]]
    numbers: Iterator[int]  # numbers for the names of result files
    window: int | None = None  # the model's window in tokens; None if unknown
    watch: MomentListener | None = None  # a debugger, if one is attached
    # names of agents for which the notice about uncounted dollars was printed
    unpriced: set[str] = field(default_factory=set)


class Finish(Struct, frozen=True):
    """The successful end of an agent."""

    message: str
    payload: Any
    chat: bool = False  # whether the message is a question or remark instead of a result


class ShownLoop(Struct):
    """A loop's results in the tail, and for how many turns they stay."""

    text: str
    turns: int


class AgentSession:
    """A running agent.

    Attributes:
        path: Its place in notes, made of names.
        source: The file that names it.
        repeated: How often in a row ``last_actions``, a digest, gave the same results.
    """

    def __init__(
        self, agent: Agent, family: RunContext, payload: Any, request: str, params: PromptParams,
        *, path: str, source: str, depth: int = 0, data: Any = None, parallel: bool = False,
    ) -> None:  # fmt: skip
        self.agent, self.family, self.payload, self.params = agent, family, payload, params
        self.conversation = AgentConversation(request)
        self.path, self.source, self.depth, self.data, self.parallel = path, source, depth, data, parallel
        self.parent = ""
        self.caller: AgentSession | None = None  # the agent that asked this one, if any
        self.line = agent.places.get("name", _NOWHERE).line  # line of its definition last reported to a debugger
        self.turn = 0
        self.tokens = 0
        self.malformed = self.failed = self.bare = 0
        self.rung = self.misfits = 0
        self.fault = ""  # fault of the last failed step
        self.fold_after = 0
        self.fold_reason = ""
        # runs and consecutive failures by action name
        self.runs: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.loops: list[ShownLoop] = []
        self.repeated, self.last_actions = 0, ""
        self.unreported: list[StepFailed] = []  # failures of this turn that are not yet recorded as events
        # dollar and second limits in force, those of its parents first
        self.watches: tuple[Any, ...] = ()

    def notify_debugger(self, kind: Any, text: str, line: int = 0) -> None:
        """Notify the debugger, if one is attached. ``line`` is the line that is about to run."""
        if self.family.watch is None:
            return
        self.line = line or self.line
        views: list[FrameView] = []
        session: AgentSession | None = self
        while session is not None:
            data = {"data": session.data} if session.data else {}
            views.append(
                FrameView(session.agent.name, session.source, session.line, {"payload": session.payload, **data})
            )
            session = session.caller
        self.family.watch(DebugMoment(kind, tuple(views), text))

    def tell(self, text: str) -> None:
        self.conversation.tell(text, self.turn)

    def tell_notes(self, title: str, notes: Sequence[str], remarks: Sequence[str] = ()) -> None:
        """Send the model notes on what was not done. Long notes are cut, because they can contain the model's own
        words.

        Notes that are also in ``remarks`` are not recorded as failures.
        """
        if notes:
            lines = [f"- {mark_cut(note, _NOTE_CHARS)}" for note in notes[:_MAX_NOTES]]
            remaining = len(notes) - len(lines)
            self.tell("\n".join([f"Notes on {title}:", *lines, *([f"- and {remaining:,} more"] if remaining else [])]))
        self.note_failures([note for note in notes if note not in remarks], f"{title}: ")

    def tell_failure(self, fault: str) -> None:
        self.fault = fault
        self.tell(f"The step failed: {mark_cut(fault, _REASON_CHARS)}.")
        self.note_failures([fault])

    def note_failures(self, reasons: Sequence[str], description: str = "") -> None:
        """Keep failures to be recorded as events at the end of the turn."""
        path, remaining = f"{self.path}/turn {self.turn}", len(reasons) - _MAX_NOTES
        lines = [description + " ".join(reason.split()) for reason in reasons[:_MAX_NOTES]]
        lines += [f"{description}and {remaining:,} more"] if remaining > 0 else []
        self.unreported += [StepFailed(path, mark_cut(reason, _REASON_CHARS)) for reason in lines]

    def report(self) -> Routine:
        """Yield the failures of this turn as events."""
        facts, self.unreported = self.unreported, []
        yield from facts

    def misfit(self) -> list[str]:
        """Return a message if the payload does not fit its schema; otherwise an empty list."""
        schema = self.agent.payload_schema
        fault = first_fault(self.payload, schema) if schema else ""
        return [f"the payload does not fit its schema now: {fault}"] if fault else []

    def ran(self, action: AgentAction, *, ok: bool) -> None:
        self.runs[action.name] = self.runs.get(action.name, 0) + 1
        self.failures[action.name] = 0 if ok else self.failures.get(action.name, 0) + 1

    def age_loops(self) -> None:
        """Count a turn in which loop results were shown, and drop those whose turns are used up."""
        for results in self.loops:
            results.turns -= 1
        self.loops = [loop for loop in self.loops if loop.turns > 0]


def start_fault(agent: Agent, payload: Any) -> str:
    """Return the first part of an initial payload that the agent's start schema does not allow; empty if it fits."""
    return first_fault(payload, agent.start_schema) if agent.start_schema else ""


class SpendingWatch(Struct, frozen=True):
    """An agent's limits, and the run's usage at the time the agent was asked."""

    name: str
    limits: AgentLimits
    before: Spending


def watch(session: AgentSession) -> Routine:
    """Start watching the dollar and second limits of a sub-agent, if it has any."""
    limits = session.agent.limits
    if session.depth and (limits.usd is not None or limits.seconds is not None):
        before: Spending = yield ReadSpending(limits.seconds is not None)
        session.watches = (*session.watches, SpendingWatch(session.agent.name, limits, before))


def refuse_overspent(session: AgentSession, wait_seconds: float = 0.0) -> Routine:
    """End the agent if a limit is used up, or if a wait would exceed the seconds.

    Raise AgentEnded if an agent, or one of its callers, has used up a limit.
    """
    watches: tuple[SpendingWatch, ...] = session.watches
    if not watches:
        return
    now: Spending = yield ReadSpending(any(each.limits.seconds is not None for each in watches))
    for each in watches:
        usd, seconds = each.limits.usd, each.limits.seconds
        used = now.seconds - each.before.seconds
        if seconds is not None and (used >= seconds or (wait_seconds and used + wait_seconds >= seconds)):
            waits = f", and was to wait {wait_seconds:,.1f} more" if wait_seconds else ""
            raise AgentEnded("Limit Reached", f"{each.name} has used {used:,.1f} of its {seconds:,.1f} seconds{waits}")
        if usd is not None and now.usd is not None:
            used_usd = now.usd - (each.before.usd or 0.0)
            if used_usd >= usd:
                raise AgentEnded("Limit Reached", f"{each.name} has used {used_usd:.4f} of its {usd:.4f} USD")
        elif usd is not None and session.turn > 1 and each.name not in session.family.unpriced:
            session.family.unpriced.add(each.name)
            yield Say(f"{each.name} cannot be held to its {usd:.4f} USD: the price of the model is not known.")


def pause(session: AgentSession, seconds: float) -> Routine:
    """Wait, if the limits allow it."""
    yield from refuse_overspent(session, seconds)
    yield Wait(seconds)
