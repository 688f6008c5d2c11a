"""Appending to a log never changes other copies of it, and a remembered fold equals a fresh fold."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.log import Log
from stackmem.core.machine import evolve, fold
from stackmem.core.messages import Message, Text, ToolCall, View
from stackmem.core.state import Reply
from stackmem.memory import open_strategy
from tests.build import call, do, play, reply, settled


def joined(text, item):
    return f"{text},{item!r}"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans()), max_size=40))
def test_any_tree_of_forks_holds_what_plain_lists_hold(steps):
    logs, lists = [Log()], [[]]
    for which, item, looked in steps:
        place = which % len(logs)
        logs.append(logs[place].append(item))
        lists.append([*lists[place], item])
        if looked:
            assert logs[place].fold(joined, "") == reduce(joined, lists[place], "")
    for log, plain in zip(logs, lists, strict=True):
        assert list(log) == plain
        assert list(reversed(log)) == plain[::-1]
        assert log.fold(joined, "") == reduce(joined, plain, "")
        assert log[1:-1] == plain[1:-1]
        assert len(log) == len(plain)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60))
def test_any_tree_of_forks_and_cuts_holds_what_plain_lists_hold(steps):
    logs, lists = [Log([7])], [[7]]
    for which, item, cut, looked in steps:
        place = which % len(logs) if which < 5 else len(logs) - 1
        if cut and lists[place]:
            logs.append(logs[place].without_last())
            lists.append(lists[place][:-1])
        else:
            logs.append(logs[place].append(item))
            lists.append([*lists[place], item])
        if looked:
            assert logs[-1].fold(joined, "") == reduce(joined, lists[-1], "")
    for log, plain in zip(logs, lists, strict=True):
        assert list(log) == plain == log[:]
        assert list(reversed(log)) == plain[::-1]
        assert [log[place] for place in range(-len(plain), len(plain))] == [*plain, *plain]
        assert log.fold(joined, "") == reduce(joined, plain, "")
        assert log == Log(plain)


def test_a_log_that_ends_otherwise_shares_what_a_fold_found_before():
    seen = []

    def counted(total, item):
        seen.append(item)
        return total + item

    log, ended = Log(), []
    for number in range(1, 200):
        log = log.append(number)
        ended.append(log.without_last().append(-number))
        assert ended[-1].fold(counted, 0) == sum(range(number)) - number
    assert len(seen) < 500
    assert [one[-1] for one in ended] == [-number for number in range(1, 200)]


def test_a_log_that_branched_off_thousands_of_times_is_read_without_going_deeper():
    log = Log([0])
    for number in range(1, 4_000):
        log.append(-1)
        log = log.append(number)
    assert list(log) == list(range(4_000))
    assert log.fold(lambda total, item: total + item, 0) == sum(range(4_000))


def test_an_empty_log_has_no_last_item_to_leave_out():
    with pytest.raises(IndexError, match="no last item"):
        Log([1]).without_last().without_last()


def test_two_folds_with_different_keys_are_kept_apart():
    log = Log([1, 2])
    assert [log.fold(joined, key, key) for key in "abab"] == ["a,1,2", "b,1,2", "a,1,2", "b,1,2"]


def test_more_folds_than_are_kept_are_still_right():
    log = Log(range(3))
    for _ in range(2):
        for number in range(20):
            assert log.fold(joined, str(number), number) == f"{number},0,1,2"


def test_an_index_out_of_range_is_an_error_also_where_a_longer_log_goes_on():
    short = Log([1])
    short.append(2)
    assert (short[0], short[-1]) == (1, 1)
    for index in (1, -2):
        with pytest.raises(IndexError):
            short[index]


def test_logs_are_equal_by_their_items():
    one, other = Log([1]), Log([1])
    assert one == other
    assert one.append(2) != one
    assert one.append(2) == other.append(2)
    assert one != [1]


@pytest.mark.parametrize(
    ("one", "other"), [({"a": 1}, {"a": True}), ({"a": 1}, {"a": 1.0}), ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
)
def test_a_fork_whose_arguments_are_equal_but_not_the_same_bytes_shows_its_own(one, other):
    played = play(do("list_files"))
    strategy = open_strategy("stackheap")

    def fork(arguments):
        state = evolve(played.state, reply(ToolCall("id", "nonsense", arguments)))
        last = state.running.turns[-1]
        assert isinstance(last, Reply)
        return last, strategy.render(state)

    first, second = fork(one), fork(other)
    for (last, view), arguments in ((first, one), (second, other)):
        assert repr(last.parts[0].arguments) == repr(arguments)
        assert view.digest == settled(view).digest
    assert first[1].digest != second[1].digest


def test_a_state_advanced_two_ways_remembers_both():
    base = play(do("list_files"), do("list_files"))
    forks = [play(do("list_files"), do("list_files"), reply(f"fork {n}", call("list_files"))) for n in range(2)]
    strategy = base.strategy
    views = []
    for fork in forks:
        state = base.state
        for event in fork.events[len(base.events) :]:
            state = evolve(state, event)
            strategy.render(state)
        views.append(strategy.render(state))
    for view, fork in zip(views, forks, strict=True):
        assert view.digest == settled(view).digest == strategy.render(fold(fork.events)).digest
        assert fork.state == fold(fork.events)
    assert base.view.digest == strategy.render(fold(base.events)).digest


def test_a_digest_tells_every_part_of_a_view():
    plain = View("s", (), Log([Message("user", (Text("a"),))]))
    others = [
        View("t", (), plain.messages),
        View("s", (), Log([Message("assistant", (Text("a"),))])),
        View("s", (), Log([Message("user", (Text("a"), Text("")))])),
        View("s", (), plain.messages.append(Message("user", (Text("a"),)))),
    ]
    assert len({plain.digest, *(other.digest for other in others)}) == 5
