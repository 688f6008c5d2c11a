"""Random users talk with random models: the rules are followed and everything replays."""

import random
from collections import Counter

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.conversation.session import SESSION_TASK
from stackmem.core.facts import CallRejected, Event, ModelReplied, RunEnded, ToolReturned
from stackmem.core.machine import advance, evolve, fold
from stackmem.core.messages import ToolCall
from stackmem.core.person_facts import (
    PersonCompacted,
    PersonDecided,
    PersonRan,
    PersonSaid,
    PersonSteppedIn,
    PersonStopped,
    SessionRules,
)
from stackmem.core.program_facts import UserAnswered
from stackmem.core.requests import AskModel, AskPermission, AskPerson, AskUser, Effect, UseTool
from stackmem.core.state import State
from stackmem.core.strategy import has_frames
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import AskQuestion
from stackmem.memory import open_strategy
from stackmem.trace.record import Record
from stackmem.trace.verify import verify
from tests.build import World, alloc, call, do, failed, pop, push, reply, started
from tests.conftest import CAMPAIGN
from tests.properties.prompt_rules import well_formed, well_marked

SESSIONS = 10_000 if CAMPAIGN else 120
MAX_FACTS = 60
WORDS = ("Mend it.", "And now?", "x" * 900, "why?\nwhy not?", " ", "/stop", "ß \u202e")
COMMANDS = ("echo one", "echo one; rm a", "make test", "true")


def random_reply(chance: random.Random) -> Event:
    """A reply of any kind, usually a usable one."""
    return chance.choice([
        lambda: do("run_command", command=chance.choice(COMMANDS)),
        lambda: do("run_command", command=chance.choice(COMMANDS)),
        lambda: do("write_file", path="a", content="b"),
        lambda: do("read_file", path="a"),
        lambda: do("ask_user", question="Which?", options=["a", "b"]),
        lambda: do("ask_user", question=" "),
        lambda: reply("Done.", stop="end"),
        lambda: reply("Shall I?", stop="end"),
        lambda: reply("", stop="end"),
        lambda: reply("cut", stop="truncated"),
        lambda: reply(*[call("read_file", path=chance.choice("ab")) for _ in range(chance.randrange(2, 5))]),
        push, pop, pop, lambda: alloc(f"n{chance.randrange(4)}"), lambda: do("nothing_like_it"),
        lambda: failed("overloaded"),
    ])()  # fmt: skip


def random_decision(chance: random.Random) -> PersonDecided:
    return PersonDecided(
        allow=chance.random() < 0.7,
        scope=chance.choice(["once", "frame", "session"]),
        pattern=chance.choice(["", "echo *", "*", "rm a"]),
        words=chance.choice(["", "not that"]),
    )


def answer(effect: Effect, world: World, chance: random.Random) -> Event:
    if chance.random() < 0.08:
        return chance.choice(
            [PersonSteppedIn(chance.choice(WORDS)), PersonStopped(), PersonRan("ls", "a", 0, {}), PersonCompacted()]
        )
    match effect:
        case AskPerson():
            return RunEnded("left", "") if chance.random() < 0.05 else PersonSaid(chance.choice(WORDS))
        case AskUser():
            return UserAnswered(chance.choice(WORDS))
        case AskPermission():
            return random_decision(chance)
        case AskModel():
            event = random_reply(chance)
            if isinstance(event, ModelReplied):
                name = f"c{effect.facts}"
                parts = (
                    replace(part, id=f"{name}_{place}") if isinstance(part, ToolCall) else part
                    for place, part in enumerate(event.parts)
                )
                event = replace(event, parts=tuple(parts))
            return replace(event, prompt_digest=effect.view.digest)
        case _:
            return world.perform(effect)


def conversation(seed: int) -> tuple[list[Event], State]:
    """Return the facts of a conversation, and the state after them."""
    chance = random.Random(seed)
    named = chance.choice(["stackheap", "stackheap", "adaptive", "fold", "full", "summary"])
    strategy = open_strategy(named)
    policy = chance.choice(["frame", "flat"]) if has_frames(strategy) else "flat"
    rules = SessionRules(policy, chance.choice(["never", "writes", "commands", "all"]))
    start = started(named, task=SESSION_TASK, session=rules, questions="end")
    start = replace(start, tools=(*start.tools, spec(AskQuestion, {})), read_calls=chance.choice([UNSET, "many"]))
    events: list[Event] = [start]
    state, world = evolve(State(), start), World(files={"a": "text"})
    while len(events) < MAX_FACTS:
        upcoming = advance(state, strategy)
        if upcoming is None:
            break
        if isinstance(upcoming, AskModel):
            well_formed(upcoming.view)
            well_marked(upcoming.view)
        if isinstance(upcoming, UseTool) and state.pending and state.pending.decided:
            assert state.pending.decided.allow
        event = answer(upcoming, world, chance) if isinstance(upcoming, Effect) else upcoming
        events.append(event)
        state = evolve(state, event)
        assert state.stack, "the root of a conversation never pops"
    return events, state


@pytest.mark.parametrize("first", range(0, SESSIONS, SESSIONS // 8))
def test_every_conversation_keeps_the_rules_and_replays(first: int) -> None:
    kinds: Counter[type] = Counter()
    for seed in range(first, first + SESSIONS // 8):
        events, state = conversation(seed)
        kinds.update(map(type, events))
        replayed = verify([Record(seq, float(seq), event) for seq, event in enumerate(events, 1)])
        assert replayed.state == state == fold(events), f"seed {seed}"
    assert {ToolReturned, CallRejected, PersonDecided, PersonSteppedIn, PersonStopped, UserAnswered} <= set(kinds)
