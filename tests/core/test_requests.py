"""One table maps effects to the facts that answer them, and covers every request to the world."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from msgspec import UNSET

from stackmem.core.facts import ClockRead, Event, ModelFailed, ModelReplied, RunEnded
from stackmem.core.log import Log
from stackmem.core.messages import View
from stackmem.core.program_facts import SourceLoaded, ToolAnswered
from stackmem.core.requests import (
    ANSWERS,
    AskModel,
    Effect,
    InvokeTool,
    LoadSource,
    Parallel,
    ReadClock,
    answers,
    effects_of,
    match_effect,
)  # fmt: skip
from tests.build import SPENT

EFFECTS: tuple[type[Effect], ...] = get_args(Effect)
ASK = AskModel(View("", (), Log()), 1, 0)


@pytest.mark.parametrize("kind", EFFECTS)
def test_every_effect_has_its_answers_and_its_docstring_names_them(kind: type[Effect]) -> None:
    assert ANSWERS[kind]
    assert set(ANSWERS[kind]) <= set(get_args(Event))
    named = set(re.findall(r"``(\w+)``", (kind.__doc__ or "").partition("Answered by")[2].partition("\n\n")[0]))
    assert kind is Parallel or {each.__name__ for each in ANSWERS[kind]} <= named


def test_a_parallel_effect_is_answered_by_what_answers_its_branches() -> None:
    inner = {each for kind in (AskModel, InvokeTool, LoadSource) for each in ANSWERS[kind]}
    assert set(ANSWERS[Parallel]) == inner


def test_a_fact_answers_the_effect_of_its_branch() -> None:
    effect = Parallel(((0, InvokeTool("a")), (1, ASK), (2, LoadSource("p"))))
    assert match_effect(effect, ToolAnswered(1)) == InvokeTool("a")
    assert match_effect(effect, ModelReplied((), "end", SPENT, branch=1)) is ASK
    assert match_effect(effect, SourceLoaded("p", branch=2)) == LoadSource("p")
    assert match_effect(effect, SourceLoaded("p", branch=1)) is None
    assert match_effect(effect, ModelFailed("overloaded", "busy", branch=UNSET)) is None
    assert effects_of(effect) == (InvokeTool("a"), ASK, LoadSource("p"))


def test_effects_outside_branches_are_answered_by_facts_without_a_branch() -> None:
    assert match_effect(ASK, ModelReplied((), "end", SPENT)) is ASK
    assert match_effect(ASK, ModelReplied((), "end", SPENT, branch=0)) is None
    assert match_effect(ReadClock(), ClockRead(1.0)) == ReadClock()
    assert not answers(ReadClock, RunEnded("interrupted", ""))
    assert effects_of(ReadClock()) == (ReadClock(),)
    assert effects_of(ClockRead(1.0)) == effects_of(None) == ()
