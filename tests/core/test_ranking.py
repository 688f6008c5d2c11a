"""Ranking of texts by query: the incremental index against a ranking that reads every text."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.conversation.ranking import Index, words
from stackmem.lab.strategies.rag import best

TEXTS = ("the port is 8443", "the tests run by make", "the the the the", "")
some_texts = st.lists(
    st.lists(st.sampled_from(["red", "green", "blue", "one", "two", "three"]), max_size=6).map(" ".join), max_size=8
)


def indexed(texts):
    index = Index()
    for text in texts:
        index = index.add(text)
    return index


def plain_scores(query, texts):
    """The BM25 formula applied directly: reads every text for every query word."""
    counted = [words(text) for text in texts]
    mean = sum(map(len, counted)) / max(1, len(texts)) or 1.0
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(words(query)):
        holding = sum(word in text for text in counted)
        weight = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
        for place, text in enumerate(counted):
            often = text.count(word)
            scores[place] += weight * often * 2.2 / (often + 1.2 * (1 - 0.75 + 0.75 * len(text) / mean))
    return scores


def test_a_text_that_shares_a_rare_word_comes_before_one_that_shares_a_common_one():
    assert indexed(TEXTS).ranked("the port")[0] == 0
    assert sorted(indexed(TEXTS).ranked("make the port")[:2]) == [0, 1]


def test_a_text_without_any_word_of_the_query_is_not_among_the_best():
    assert indexed(TEXTS).ranked("zebra") == []
    assert indexed(TEXTS).ranked("") == []
    assert indexed(()).ranked("port") == []
    assert 3 not in indexed(TEXTS).ranked("the port tests")


def test_names_fall_into_their_parts_whatever_their_case():
    assert words("Max_Retries in src/net.py") == ["max", "retries", "in", "src", "net", "py"]
    assert indexed(("x", "MAX_RETRIES=3")).ranked("retries") == [1]


def test_scores_are_as_computed_by_hand():
    # N = 2; one text contains the word once; lengths 2 and 2: idf = ln(1 + 1.5 / 1.5), tf part = 2.2 / (1 + 1.2)
    index = indexed(("port here", "not there"))
    assert [round(each, 6) for each in index.fits({"port": index.rarity("port")}, 2)] == [0.693147, 0.0]


def test_of_equals_the_first_comes_first():
    assert indexed(("a b", "a c", "a d")).ranked("a")[:2] == [0, 1]


@given(some_texts, st.text("redgnblu ", max_size=20))
def test_it_ranks_as_reading_every_text_does(texts, query):
    ranked, scores = indexed(texts).ranked(query), plain_scores(query, texts)
    assert sorted(ranked) == [place for place, score in enumerate(scores) if score > 0]
    assert all(scores[one] >= scores[other] - 1e-9 for one, other in pairwise(ranked))


def test_the_text_with_the_rare_word_comes_first():
    assert best(indexed(["a b c", "a b needle", "a a a a"]), "where is the needle, a", 3, 2) == [1, 2]


def test_a_text_that_shares_no_word_is_not_found():
    assert best(indexed(["red", "blue"]), "green", 2, 5) == []
    assert best(Index(), "green", 0, 5) == []


def test_only_the_first_texts_are_looked_at():
    assert best(indexed(["needle", "needle"]), "needle", 1, 5) == [0]


def test_of_equal_passages_the_newer_comes_first():
    assert best(indexed(["needle", "needle", "hay"]), "needle", 3, 5) == [1, 0]


@given(some_texts, st.text("redgnblu ", max_size=20))
def test_the_best_passages_are_those_that_share_a_word(texts, query):
    assert sorted(best(indexed(texts), query, len(texts), len(texts))) == sorted(indexed(texts).ranked(query))


@given(some_texts, some_texts, some_texts)
def test_two_histories_that_part_do_not_see_each_other(shared, one, other):
    start = indexed(shared)
    left, right = start, start
    for text in one:
        left = left.add(text)
    for text in other:
        right = right.add(text)
    for query in ("red", "one two", "blue"):
        assert best(left, query, 20, 20) == best(indexed([*shared, *one]), query, 20, 20)
        assert best(right, query, 20, 20) == best(indexed([*shared, *other]), query, 20, 20)
        assert best(start, query, 20, 20) == best(indexed(shared), query, 20, 20)
