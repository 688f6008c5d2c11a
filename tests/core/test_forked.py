"""A run that continues from another one: only the changed parts differ, and the next prompt mentions them."""

import pytest
from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import RunForked
from stackmem.core.heap import ChunkSet
from stackmem.core.machine import evolve
from stackmem.memory import open_strategy
from tests.build import alloc, do, play, pop, push, shown_text, started

BEFORE = (alloc("spec", "the old content"), alloc("env", "how to run"))
PLACES = ["on_change", "delta", "tail", "system"]


def forked(state, *, chunks=(), dropped=(), **start):
    return evolve(state, RunForked("other", 1, "", replace(state.begun, **start), tuple(chunks), tuple(dropped)))


def rendered(state):
    return open_strategy(state.begun.strategy).render(state)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [(), (push(),), (push(), pop())], ids=["root", "pushed", "popped"])
def test_the_next_prompt_after_no_change_is_the_one_that_the_other_run_sent(place, after):
    state = play(*BEFORE, *after, start=started(f"stackheap:index={place}")).state
    assert rendered(forked(state)) == rendered(state)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("after", [(), (push(),), (push(), pop())], ids=["root", "pushed", "popped"])
def test_the_next_prompt_tells_of_a_changed_heap(place, after):
    state = play(*BEFORE, *after, start=started(f"stackheap:index={place}")).state
    changed = forked(state, chunks=[ChunkSet("spec", "new"), ChunkSet("more", "another")], dropped=["env"])
    said = shown_text(rendered(changed))
    assert "more" in said
    assert "3 chars" in said
    last = said.rpartition("HEAP ")[2]
    assert "- env | 1" not in last


def test_messages_that_were_sent_stand_as_they_were():
    state = play(*BEFORE, do("run_command", command="x"), start=started()).state
    sent = list(rendered(state).messages)
    told = list(rendered(forked(state, chunks=[ChunkSet("spec", "new")])).messages)
    assert told[:-1] == sent[:-1]
    assert told[-1] != sent[-1]


def test_what_is_above_the_turns_follows_the_new_start_although_the_old_one_was_rendered_before():
    state = play(*BEFORE, start=started(limits=Limits(steps=50))).state
    assert "50 steps" in shown_text(rendered(state))
    assert "90 steps" in shown_text(rendered(forked(state, limits=Limits(steps=90))))
    assert "50 steps" in shown_text(rendered(state))


def test_the_old_state_is_untouched():
    state = play(*BEFORE, start=started()).state
    before = rendered(state)
    forked(state, chunks=[ChunkSet("spec", "new")], dropped=["env"])
    assert rendered(state) == before
    assert state.heap.chunks["spec"].content == "the old content"
