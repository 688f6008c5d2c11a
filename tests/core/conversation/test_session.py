"""Permissions by a user's decision, answers by a user's message, and the question that stalls a run."""

import pytest
from msgspec.structs import replace

from stackmem.core.conversation.session import SESSION_TASK, open_question
from stackmem.core.machine import advance, evolve
from stackmem.core.person_facts import PersonDecided, PersonSaid, SessionRules
from stackmem.core.program_facts import UserAnswered
from stackmem.core.requests import AskModel, AskPermission, AskPerson, AskUser, Effect, UseTool
from stackmem.core.state import Notice, Result, State
from stackmem.core.tool_schemas import spec
from stackmem.core.tools import AskQuestion
from stackmem.memory import open_strategy
from tests.build import World, do, named, reply, started

STALLS = AskModel | AskPerson | AskPermission | AskUser


def talk(*answers, approve="all"):
    """Return the state after all answers, and the questions and actions in order."""
    start = started("full", task=SESSION_TASK, session=SessionRules("flat", approve), questions="end")
    start = replace(start, tools=(*start.tools, spec(AskQuestion, {})))
    state, strategy, left, seen = evolve(State(), start), open_strategy("full"), list(answers), []
    world = World(files={"a": "text"})
    while isinstance(upcoming := advance(state, strategy), STALLS | Effect):
        seen += [upcoming] if isinstance(upcoming, AskPermission | AskUser | UseTool) else []
        if isinstance(upcoming, STALLS):
            if not left:
                break
            fact = left.pop(0)
            fact = named(fact, upcoming) if isinstance(upcoming, AskModel) else fact
        else:
            fact = world.perform(upcoming)
        state = evolve(state, fact)
    return state, seen


def run(command):
    return do("run_command", command=command)


def asked_again(decided, first, second):
    """Return whether the user is asked about the second call after this decision on the first."""
    _, seen = talk(PersonSaid("Go on."), first, decided, second)
    return isinstance(seen[-1], AskPermission)


@pytest.mark.parametrize("decided", [PersonDecided(True), PersonDecided(False), PersonDecided(False, "session")])
def test_a_call_that_was_denied_or_allowed_once_is_asked_for_again(decided):
    assert asked_again(decided, run("ls"), run("ls"))


def test_a_session_permission_applies_only_to_its_tool():
    always = PersonDecided(True, "session")
    assert not asked_again(always, run("ls"), run("make"))
    assert asked_again(always, run("ls"), do("write_file", path="b", content="x"))


@pytest.mark.parametrize(
    ("pattern", "command", "again"),
    [
        ("echo *", "echo two", False),
        ("echo *", "echo two; rm a", True),
        ("echo two; rm a", "echo two; rm a", False),
        ("echo two; rm *", "echo two; rm a", True),
        ("ls", "make", True),
    ],
)
def test_a_pattern_allows_what_the_shell_reads_otherwise_only_by_the_letter(pattern, command, again):
    assert asked_again(PersonDecided(True, "session", pattern), run("echo one"), run(command)) == again


def test_the_users_answer_is_the_result_of_the_asking_call():
    state, seen = talk(PersonSaid("Go on."), do("ask_user", question="Which?", options=[]), UserAnswered("that one"))
    assert isinstance(seen[-1], AskUser)
    last = state.running.turns[-1]
    assert isinstance(last, Result)
    assert (last.text, last.failed, state.pending) == ("that one", False, None)


def test_an_answer_to_plain_text_is_delivered_as_the_users_message():
    state, _ = talk(PersonSaid("Go on."), reply("Which?", stop="end"), UserAnswered("that one"))
    last = state.running.turns[-1]
    assert isinstance(last, Notice)
    assert (last.text, state.pending) == ("that one", None)


def test_a_run_configured_to_end_by_a_question_leaves_it_open():
    state, _ = talk(PersonSaid("Go on."), reply("Which?", stop="end"))
    assert open_question(state) == "Which?"
    older = replace(state, start=started("full"))
    assert open_question(older) == ""
    told, _ = talk(PersonSaid("Go on."), reply("Done.", stop="end"))
    assert open_question(told) == ""
