"""``sim/bounded-reader``: a deterministic agent whose only memory is its prompt.

It measures what a memory strategy keeps visible and what that costs. It does not measure intelligence. It reads every
visible line reliably, understands only the grammar of the worlds (``lines.py``), and follows one fixed policy
(``policy.py``). Two strategies therefore differ in what they show, what they lose, and the steps they cost. Whether a
real model would store and push as well is a separate question.

Usage is estimated as characters / 2.5, for the prompt (all uncached) and for the reply.
``stackmem.review.measure.cache`` computes what a provider's cache does with the prompts.
"""

from __future__ import annotations

import copy
import re

from msgspec import Struct

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Message, ReplyPart, Text, ToolCall, Usage, View
from stackmem.core.requests import AskModel

from .carrying import carried, episode, read_lines
from .dials import PERFECT, ReaderDials
from .index import INDEX_HEAD
from .keeping import view_first
from .knowledge import SEEN, TOLD, Held, Knowledge
from .known_facts import dead_ends, newest, visible
from .lines import Planned, fact_line, topic_of
from .listening import read_blocks, read_message
from .policy import decide
from .sight import CHARS_PER_TOKEN, ChosenCall, Offered, ReaderSight, offered

_REASONS = {
    "run_command": "I run the command and read its whole output before anything else, since it may say that something "
    "I rely on has changed.",
    "read_file": "I read the file itself, because nothing that I can see tells its content.",
    "heap_read": "Reading what was stored costs less than finding it out again by myself.",
    "heap_load": "Reading all of it now is one step, and finding it out again by myself would be many.",
    "push_frame": "A child with a clean conversation does that part; what it will need is stored or told.",
    "pop_frame": "The result tells how far the work is, and what others would have to find out again is stored.",
}
_OTHERWISE = "I do that now, before the next unit, and read the result."


def words_beside(action: ChosenCall, knowledge: Knowledge) -> str:
    done = f"Units up to {knowledge.done} are done." if knowledge.done else "No unit is known to be done so far."
    reason = action.reason[:1].upper() + action.reason[1:]
    return f"{done} {reason}. {_REASONS.get(action.tool, _OTHERWISE)}"


LINES = 40
_REQUEST = re.compile(r"\s*COMPACTION REQUEST \(kind: ([a-z_]{1,40}); at most ([\d,]{1,12}) characters\)")
_CHECK = "COMPACTION CHECK: "
_HEADINGS = {"structured": "# State"}


class SummaryRequest(Struct, frozen=True):
    kind: str
    chars: int


def compaction_wanted(last: Message) -> SummaryRequest | None:
    """Return the summary that the last message requests, if any."""
    for part in reversed(last.parts):
        match = _REQUEST.match(part.text) if isinstance(part, Text) else None
        if match:
            return SummaryRequest(match[1], int(match[2].replace(",", "")))
    return None


def summary(knowledge: Knowledge, request: SummaryRequest) -> str:
    """Return a summary of at most forty lines, or of a share of the facts, within the requested characters."""
    lines, room = [], request.chars
    most = LINES if knowledge.dials.summary is None else None
    for line in _summary_lines(knowledge, request.kind)[:most]:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines) or "Nothing is known so far."[: max(1, request.chars)]


def _summary_lines(knowledge: Knowledge, kind: str) -> list[str]:
    """Return everything that a summary may contain, the most important first."""
    keys = sorted(knowledge.facts, key=lambda key: (-newest(knowledge, key), key))
    facts = [
        fact_line(key, fact.value, fact.at) for key in keys
        if (fact := visible(knowledge, key)) is not None and knowledge.dials.summarizes(key, fact.value)
    ]  # fmt: skip
    changed = [f"changed {scope} @ {at}" for scope, (at, _) in knowledge.changed.items()]
    done = max(knowledge.done, knowledge.planned_from)
    progress = [f"done units 1-{done}"] if done > 0 else []
    # Otherwise the task contains the units, and tasks are never summarized.
    if knowledge.talks and knowledge.objective is not None:
        progress.append(f"Do units {knowledge.objective[0]} to {knowledge.objective[1]}.")
    heading = [_HEADINGS[kind]] if kind in _HEADINGS else []
    progress += read_lines(knowledge, 0)
    return [*heading, *progress, *changed[-5:], *facts, *dead_ends(knowledge)]


def self_compaction(knowledge: Knowledge, last: Message, offered: Offered) -> ChosenCall | None:
    """Return the call that compacts the conversation, if the last message asks for a check and the rubric allows it.

    A unit that has just ended is closed and is progress, so the work is not stuck either. A summary is short if it
    leaves nothing out.
    """
    asks = any(isinstance(part, Text) and part.text.startswith(_CHECK) for part in last.parts)
    if not asks or knowledge.done_order < knowledge.agent_order:
        return None
    request = SummaryRequest("self", offered.most("compact_context", "summary", 4_000))
    text = summary(knowledge, request)
    if len(_summary_lines(knowledge, request.kind)) > text.count("\n") + 1:
        return None
    return ChosenCall("compact_context", {"summary": text}, "a unit has just ended")


class Reading:
    """A cache of the last messages, except the final one, with the knowledge from them.

    This is a memo, not a memory. Messages are compared by object identity. At the first different message, reading
    starts over. The last message is read on a copy, because many strategies show it only once.
    """

    def __init__(self, dials: ReaderDials = PERFECT) -> None:
        self._system = ""
        self._read: list[Message] = []
        self._dials = dials
        self._knowledge = Knowledge(dials)

    def of(self, view: View) -> Knowledge:
        """Return the knowledge from the view. The caller owns the result."""
        # An index in the system prompt is the newest one. It is read before all messages.
        system = view.system if INDEX_HEAD in view.system else ""
        messages = list(view.messages)
        goes_on = len(self._read) < len(messages) and all(map(_is_same, self._read, messages))
        if system != self._system or not goes_on:
            self._system, self._read, self._knowledge = system, [], Knowledge(self._dials)
            self._knowledge.look_at_index(system)
        for message in messages[len(self._read) : -1]:
            read_message(self._knowledge, message)
            self._read.append(message)
        knowledge = self._knowledge.copied()
        read_blocks(knowledge, view.system)  # memory blocks show the current state and override earlier statements
        for message in messages[-1:]:
            read_message(knowledge, message)
        return knowledge


def _is_same(first: Message, second: Message) -> bool:
    return first is second


class Remembered:
    """Facts, changes, dead ends, plans and progress, collected over all prompts."""

    def __init__(self) -> None:
        self._facts: dict[str, Held] = {}
        self._changed: dict[str, int] = {}
        self._excluded: dict[str, set[str]] = {}
        self._candidates: dict[str, tuple[str, ...]] = {}
        self._plan: dict[int, Planned] = {}
        self._done = 0

    def with_all(self, knowledge: Knowledge) -> Knowledge:
        """Return a copy of ``knowledge`` that also contains everything ever seen."""
        self._absorb(knowledge)
        fuller = copy.copy(knowledge)
        fuller.facts = dict(knowledge.facts)
        for key, fact in self._facts.items():
            own = knowledge.facts.get(key)
            if (own is None or own.at < fact.at) and (key, fact.value) not in knowledge.wrong:
                fuller.facts[key] = Held(fact.value, fact.at, 0, TOLD)
        fuller.excluded = {key: dict.fromkeys(values, knowledge.order) for key, values in self._excluded.items()}
        fuller.candidates = {**self._candidates, **knowledge.candidates}
        fuller.plan = {**self._plan, **knowledge.plan}
        fuller.done, fuller.progress_seen = max(self._done, knowledge.done), knowledge.progress_seen or self._done > 0
        return fuller

    def _absorb(self, knowledge: Knowledge) -> None:
        for scope, (at, _) in knowledge.changed.items():
            if at <= self._changed.get(scope, 0):
                continue
            self._changed[scope] = at
            for key in [key for key in {*self._facts, *self._excluded} if scope in (key, topic_of(key))]:
                self._excluded.pop(key, None)
                if key in self._facts and self._facts[key].at < at:
                    del self._facts[key]
        for key, fact in knowledge.facts.items():
            since = max(self._changed.get(key, 0), self._changed.get(topic_of(key), 0))
            # A fact older than a change appears before the line that reports the change, never without it.
            at = max(fact.at, since) if fact.origin == SEEN else fact.at
            if at >= max(since, self._facts[key].at if key in self._facts else 0):
                self._facts[key] = Held(fact.value, at, fact.order, fact.origin, fact.source)
        for key in knowledge.excluded:
            self._excluded.setdefault(key, set()).update(knowledge.excluded_now(key))
        self._candidates.update(knowledge.candidates)
        self._plan.update(knowledge.plan)
        self._done = max(self._done, knowledge.done)


class BoundedReader:
    """The model. Except for the ``oracle`` variant, it keeps no state between two replies.

    The oracle remembers everything from its prompts as long as it exists. It is the upper bound of what memory can be
    worth. It is the only variant whose reply does not depend on the request alone, so a run that is resumed in another
    process starts with what is visible then.
    """

    def __init__(self, variant: str = "nesting", window_tokens: int = 200_000, dials: ReaderDials = PERFECT) -> None:
        self._variant = variant
        self._window_tokens = window_tokens
        self._reading = Reading(dials)
        self._remembered = Remembered() if variant == "oracle" else None

    def reply(self, request: AskModel) -> ModelReplied | ModelFailed:
        knowledge = self._reading.of(request.view)
        tokens = _prompt_tokens(request.view, knowledge)
        if tokens > self._window_tokens:
            return ModelFailed(
                "window", f"the prompt has about {tokens:,} tokens, the window of this model is {self._window_tokens:,}"
            )
        summary_request = compaction_wanted(request.view.messages[-1]) if len(request.view.messages) else None
        if summary_request is not None:
            return _reply(request, tokens, (Text(summary(knowledge, summary_request)),))
        if self._remembered is not None:
            knowledge = self._remembered.with_all(knowledge)
        tools = offered(request.view.tools)
        compaction = (
            self_compaction(knowledge, request.view.messages[-1], tools) if len(request.view.messages) else None
        )
        sight = ReaderSight(knowledge, tools, self._variant)
        action = compaction or view_first(request.view.system, sight) or decide(sight)
        texts = [words_beside(action, knowledge)]
        if len(request.view.messages):
            last = request.view.messages[-1]
            texts += (carried(knowledge, last), episode(request.view.system, action, knowledge, last))
        text = "\n".join(filter(None, texts))
        call = ToolCall(f"call_{request.facts}", action.tool, action.arguments)
        return _reply(request, tokens, (Text(text), call))


def _prompt_tokens(view: View, knowledge: Knowledge) -> int:
    standing = len(view.system) + sum(len(tool.name) + len(tool.description) + len(tool.schema) for tool in view.tools)
    return int((standing + knowledge.chars) / CHARS_PER_TOKEN)


def _reply(request: AskModel, tokens: int, parts: tuple[ReplyPart, ...]) -> ModelReplied:
    output = sum(len(part.name) + len(str(part.arguments)) for part in parts if isinstance(part, ToolCall))
    output += sum(len(part.text) for part in parts if isinstance(part, Text))
    return ModelReplied(
        parts=parts,
        stop="call" if any(isinstance(part, ToolCall) for part in parts) else "end",
        usage=Usage(uncached=tokens, output=max(1, int(output / CHARS_PER_TOKEN)), estimated=True),
        reply_id=f"reply_{request.facts}",
    )
