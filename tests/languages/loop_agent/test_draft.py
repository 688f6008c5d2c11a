"""A draft leaves the original value unchanged and copies each container only once."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.loop_agent.paths import MISSING, Draft, look_up
from stackmem.languages.loop_agent.payload import DELETE, apply_change
from stackmem.languages.loop_agent.writes import PayloadMerge, Write, writes_between
from tests.conftest import CAMPAIGN
from tests.growth import stays_linear

LONG = 40_000 if CAMPAIGN else 15_000
STEPS = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "0"]))
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
VALUES = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner)
)


def put(value, path, new):
    draft = Draft(value)
    draft.put(path, new)
    return draft.value


@pytest.mark.parametrize(
    ("value", "path", "made"),
    [
        ({}, ("a", 0, "b"), {"a": [{"b": 1}]}),
        ([1], (3,), [1, None, None, 1]),
        ({"a": 5}, ("a", "b"), {"a": {"b": 1}}),
        ({"a": [0, 0]}, ("a", "1"), {"a": [0, 1]}),
        ({"a": {"0": 2}}, ("a", 0), {"a": {"0": 1}}),
        ({"a": 5}, (), 1),
    ],
)
def test_what_lies_on_the_way_is_made(value, path, made):
    assert put(value, path, 1) == made


@pytest.mark.parametrize(
    ("value", "path", "left"),
    [
        ({"a": 1, "b": 2}, ("a",), {"b": 2}),
        ({"a": [1, 2, {"b": 3}]}, ("a", 2, "b"), {"a": [1, 2, {}]}),
        ({"a": [1, 2]}, ("a", "0"), {"a": [2]}),
        ({"a": {"0": 1}}, ("a", 0), {"a": {}}),
    ],
)
def test_what_is_taken_away_is_gone_and_nothing_else(value, path, left):
    draft = Draft(value)
    draft.take(path)
    assert draft.value == left


@given(VALUES, st.lists(st.tuples(PATHS, VALUES, st.booleans()), max_size=6))
def test_what_a_draft_was_made_of_and_what_was_put_into_it_never_change(value, changes):
    before, given_values = copy.deepcopy(value), copy.deepcopy([new for _, new, _ in changes])
    draft = Draft(value)
    shown = []
    for path, new, show in changes:
        if look_up(draft.value, path) is not MISSING and new == 0:
            draft.take(path)
        else:
            draft.put(path, new)
        if show:
            draft.give(draft.value)
            shown.append((draft.value, copy.deepcopy(draft.value)))
    assert value == before
    assert [new for _, new, _ in changes] == given_values
    assert all(one == other for one, other in shown)


def test_what_was_given_away_stays_as_it_was_and_what_was_not_is_changed_in_place():
    draft = Draft({"list": [1]})
    draft.put(("list", 1), 2)
    held = draft.value["list"]
    draft.put(("list", 2), 3)
    assert held == [1, 2, 3]
    draft.give(held)
    draft.put(("list", 3), 4)
    assert held == [1, 2, 3]
    assert draft.value == {"list": [1, 2, 3, 4]}


def test_thousands_of_changes_by_position_take_time_that_grows_with_their_number():
    payload = {"items": [{"n": index} for index in range(LONG)]}
    marks = [DELETE if index % 2 else {"n": -1} for index in range(LONG)]
    done = apply_change(payload, {"updateElements": {"items": marks}})
    gone = apply_change(payload, {"removeElements": {"items": [DELETE] * LONG + [DELETE]}})
    assert done.result["items"] == [{"n": -1}] * (LONG // 2)
    assert tuple([edit.operation for edit in done.edits].count(name) for name in ("update", "delete")) == (
        LONG // 2,
        LONG // 2,
    )
    assert (gone.result, len(gone.warnings)) == ({"items": []}, 1)
    assert payload["items"][1] == {"n": 1}

    def change(size):
        items = {"items": payload["items"][:size]}
        apply_change(items, {"updateElements": {"items": marks[:size]}})
        apply_change(items, {"removeElements": {"items": [DELETE] * size}})

    assert stays_linear(change, LONG), "one by one, each would copy the list"


@pytest.mark.parametrize("together", [True, False])
def test_thousands_of_iterations_are_merged_in_time_that_grows_with_their_number(together):
    def merge(size):
        merged = PayloadMerge({"items": list(range(size))}, (), together=together)
        for index in range(size):
            merged.merge(index, (Write(("items", index), -index), Write(("more",), [index], appended=True)))
        return merged

    merged = merge(LONG)
    assert stays_linear(merge, LONG), "one by one, each would copy the list"
    assert merged.payload == {"items": [-index for index in range(LONG)], "more": list(range(LONG))}


def test_what_a_sub_agent_left_alone_is_not_looked_through():
    same = [float("nan")]
    assert list(writes_between({"a": same, "b": 1}, {"a": same, "b": 2})) == [Write(("b",), 2)]
