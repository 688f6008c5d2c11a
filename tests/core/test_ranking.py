"""Which texts fit a query best."""

from stackmem.core.ranking import best, counted, scores, words

TEXTS = [counted(text) for text in ("the port is 8443", "the tests run by make", "the the the the", "")]


def test_a_text_that_shares_a_rare_word_comes_before_one_that_shares_a_common_one():
    assert best("the port", TEXTS, 4)[0] == 0
    assert sorted(best("make the port", TEXTS, 2)) == [0, 1]


def test_a_text_without_any_word_of_the_query_is_not_among_the_best():
    assert best("zebra", TEXTS, 4) == []
    assert best("", TEXTS, 4) == []
    assert best("port", [], 4) == []
    assert 3 not in best("the port tests", TEXTS, 4)


def test_names_fall_into_their_parts_whatever_their_case():
    assert words("Max_Retries in src/net.py") == ["max", "retries", "in", "src", "net", "py"]
    assert best("retries", [counted("x"), counted("MAX_RETRIES=3")], 1) == [1]


def test_scores_are_as_computed_by_hand():
    # N = 2, one text holds the word once, lengths 2 and 2: idf = ln(1 + 1.5 / 1.5), tf part = 2.2 / (1 + 1.2)
    found = scores("port", [counted("port here"), counted("not there")])
    assert [round(each, 6) for each in found] == [0.693147, 0.0]


def test_of_equals_the_first_comes_first():
    assert best("a", [counted("a b"), counted("a c"), counted("a d")], 2) == [0, 1]
