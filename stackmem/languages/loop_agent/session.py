"""One agent at work: what it was given, what it has, and what it has used.

A sub-agent is held to the dollars and the seconds of its definition, each time that it is asked.

Rule 1: what it asks of others counts, and they are held to it, too.
Rule 2: it is looked at before each turn, each batch of a loop and each wait; what is under way is not cut off.
Rule 3: where no price is known, dollars cannot be held; the person is told once. Those of the agent that is run are the
        run's own, see ``language.Language.settings``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from stackmem.core.program_facts import StepFailed
from stackmem.core.requests import Wait
from stackmem.core.schemas.json_schema import first_fault
from stackmem.core.text import mark_cut
from stackmem.languages.debugger import DebugMoment, DebugPort, FrameView
from stackmem.languages.frame.yaml_tree import Place
from stackmem.languages.operations import ReadSpending, Routine, Say, Spending

from .conversation import AgentConversation
from .prompt import PromptParams
from .tree import Agent, AgentAction, AgentLimits

MOST_DEPTH = 8
RAN_DRY = 3
MOST_MISFITS = 3
MOST_BARE = 5
TOLD_REPEATED, MOST_REPEATED = 5, 30
_MOST_NOTES = 50
_NOTE_CHARS = 400
_REASON_CHARS = 1_000
_NOWHERE = Place(1, 1)


class AgentEnded(Exception):  # noqa: N818 - the agent's own end, not a crash
    """The agent cannot go on."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind, self.reason = kind, reason


class RunContext(Struct, frozen=True):
    """What all agents of a run share."""

    run: Callable[[AgentSession], Routine]  # the loop itself
    # the file that names it, and its name there, to the path of an agent's file and the agent
    files: dict[tuple[str, str], tuple[str, Agent]]
    numbers: Iterator[int]  # of the files that results are written to
    window: int | None = None  # tokens that the model takes; None is not known
    watch: DebugPort | None = None  # a debugger, where there is one
    # names of the agents of which it was told that their dollars cannot be counted
    unpriced: set[str] = field(default_factory=set)


class Finish(Struct, frozen=True):
    """How an agent ended well."""

    message: str
    payload: Any
    chat: bool = False  # it has something to say rather than a result


class ShownLoop(Struct):
    """A loop's results in the tail, and the turns for which they stay."""

    text: str
    turns: int


class AgentSession:
    """An agent under way.

    Attributes:
        path: Its place, in notes.
        source: The file that names it.
        repeated: Times in a row that ``last_actions``, a digest, gave the same results.
    """

    def __init__(
        self, agent: Agent, family: RunContext, payload: Any, request: str, params: PromptParams,
        *, path: str, source: str, depth: int = 0, data: Any = None, apart: bool = False,
    ) -> None:  # fmt: skip
        self.agent, self.family, self.payload, self.params = agent, family, payload, params
        self.conversation = AgentConversation(request)
        self.path, self.source, self.depth, self.data, self.apart = path, source, depth, data, apart
        self.parent = ""
        self.above: AgentSession | None = None  # the agent that asked it; None asked nobody
        self.line = agent.places.get("name", _NOWHERE).line  # of its definition, as a debugger was told last
        self.turn = 0
        self.tokens = 0
        self.malformed = self.failed = self.bare = 0
        self.rung = self.misfits = 0
        self.fault = ""  # of the step that failed last
        self.fold_after = 0
        self.fold_told = ""
        # runs, failures: of each action, by its name
        self.runs: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self.loops: list[ShownLoop] = []
        self.repeated, self.last_actions = 0, ""
        self.unreported: list[StepFailed] = []  # what was not done in this turn, until it is a fact
        # limits of dollars and seconds that hold here; those of its parents come first
        self.watches: tuple[Any, ...] = ()

    def notify_debugger(self, kind: Any, text: str, line: int = 0) -> None:
        """Tell the debugger, where there is one; ``line`` is the one that is about to be executed."""
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
            session = session.above
        self.family.watch(DebugMoment(kind, tuple(views), text))

    def tell(self, text: str) -> None:
        self.conversation.tell(text, self.turn)

    def tell_notes(self, about: str, notes: Sequence[str], remarks: Sequence[str] = ()) -> None:
        """Tell what was not done, or what among it is a remark only; the model's own words in it are cut."""
        if notes:
            shown = [f"- {mark_cut(note, _NOTE_CHARS)}" for note in notes[:_MOST_NOTES]]
            left = len(notes) - len(shown)
            self.tell("\n".join([f"Notes on {about}:", *shown, *([f"- and {left:,} more"] if left else [])]))
        self.note_failures([note for note in notes if note not in remarks], f"{about}: ")

    def tell_failure(self, fault: str) -> None:
        self.fault = fault
        self.tell(f"The step failed: {mark_cut(fault, _REASON_CHARS)}.")
        self.note_failures([fault])

    def note_failures(self, reasons: Sequence[str], about: str = "") -> None:
        """Keep what was not done, to be reported as facts when the turn ends."""
        path, left = f"{self.path}/turn {self.turn}", len(reasons) - _MOST_NOTES
        told = [about + " ".join(reason.split()) for reason in reasons[:_MOST_NOTES]]
        told += [f"{about}and {left:,} more"] if left > 0 else []
        self.unreported += [StepFailed(path, mark_cut(reason, _REASON_CHARS)) for reason in told]

    def report(self) -> Routine:
        """Make facts of what was not done in this turn."""
        facts, self.unreported = self.unreported, []
        yield from facts

    def misfit(self) -> list[str]:
        """What is to be told of a payload that does not fit its schema; nothing where it does."""
        schema = self.agent.payload_schema
        fault = first_fault(self.payload, schema) if schema else ""
        return [f"the payload does not fit its schema now: {fault}"] if fault else []

    def ran(self, action: AgentAction, *, ok: bool) -> None:
        self.runs[action.name] = self.runs.get(action.name, 0) + 1
        self.failures[action.name] = 0 if ok else self.failures.get(action.name, 0) + 1

    def age_loops(self) -> None:
        """One more turn was shown the results of loops."""
        for shown in self.loops:
            shown.turns -= 1
        self.loops = [shown for shown in self.loops if shown.turns > 0]


class SpendingWatch(Struct, frozen=True):
    """An agent's limits, and what the run had used when it was asked."""

    name: str
    limits: AgentLimits
    before: Spending


def watch(session: AgentSession) -> Routine:
    """Begin to hold a sub-agent to its limits, where it has such."""
    limits = session.agent.limits
    if session.depth and (limits.usd is not None or limits.seconds is not None):
        before: Spending = yield ReadSpending(limits.seconds is not None)
        session.watches = (*session.watches, SpendingWatch(session.agent.name, limits, before))


def refuse_overspent(session: AgentSession, wait_seconds: float = 0.0) -> Routine:
    """Look at what was used; a wait that would outlast the seconds has used them."""
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
            spent = now.usd - (each.before.usd or 0.0)
            if spent >= usd:
                raise AgentEnded("Limit Reached", f"{each.name} has used {spent:.4f} of its {usd:.4f} USD")
        elif usd is not None and session.turn > 1 and each.name not in session.family.unpriced:
            session.family.unpriced.add(each.name)
            yield Say(f"{each.name} cannot be held to its {usd:.4f} USD: the price of the model is not known.")


def pause(session: AgentSession, seconds: float) -> Routine:
    """Wait, if the time is there."""
    yield from refuse_overspent(session, seconds)
    yield Wait(seconds)
