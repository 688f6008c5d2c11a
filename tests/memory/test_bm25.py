"""The index that grows, held against the ranking that reads every text."""

from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.ranking import best, counted
from stackmem.memory.shared.bm25 import Index

texts = st.lists(
    st.lists(st.sampled_from(["red", "green", "blue", "one", "two", "three"]), max_size=6).map(" ".join), max_size=8
)


def indexed(held):
    index = Index()
    for text in held:
        index = index.add(text)
    return index


def test_the_text_with_the_rare_word_comes_first():
    assert indexed(["a b c", "a b needle", "a a a a"]).best("where is the needle, a", 3, 2) == [1, 2]


def test_a_text_that_shares_no_word_is_not_found():
    assert indexed(["red", "blue"]).best("green", 2, 5) == []
    assert Index().best("green", 0, 5) == []


def test_only_the_first_texts_are_looked_at():
    assert indexed(["needle", "needle"]).best("needle", 1, 5) == [0]


def test_of_equals_the_newer_comes_first():
    assert indexed(["needle", "needle", "hay"]).best("needle", 3, 5) == [1, 0]


@given(texts, st.text("redgnblu ", max_size=20))
def test_it_finds_what_the_plain_ranking_finds(held, query):
    found = indexed(held).best(query, len(held), len(held))
    assert sorted(found) == sorted(best(query, [counted(text) for text in held], len(held)))


@given(texts, texts, texts)
def test_two_histories_that_part_do_not_see_each_other(shared, one, other):
    start = indexed(shared)
    left, right = start, start
    for text in one:
        left = left.add(text)
    for text in other:
        right = right.add(text)
    for query in ("red", "one two", "blue"):
        assert left.best(query, 20, 20) == indexed([*shared, *one]).best(query, 20, 20)
        assert right.best(query, 20, 20) == indexed([*shared, *other]).best(query, 20, 20)
        assert start.best(query, 20, 20) == indexed(shared).best(query, 20, 20)
