"""Evaluations are bounded: deep, long, large or cyclic input gives a value or a clean error."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from stackmem.languages.sexp.errors import Budget, SexpEvaluationError, SexpSyntaxError, TaskError
from stackmem.languages.sexp.values import as_json, to_source
from tests.compliance.sexp_stage import evaluate
from tests.conftest import CAMPAIGN

DEPTH = 100_000 if CAMPAIGN else 30_000
DEEP = Budget(depth=DEPTH, steps=10_000_000)
COUNT = "(define (f n) (if (< n 1) {} (+ 1 (f (- n 1))))) "


def refused(text: str, env: dict[str, Any] | None = None, budget: Budget | None = None) -> str:
    with pytest.raises(TaskError) as caught:
        evaluate(text, env, budget)
    assert caught.value.type == "RESOURCE_EXHAUSTION"
    return caught.value.reason


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_calls_nest_as_deep_as_the_depth_says() -> None:
    assert evaluate(COUNT.format(0) + f"(f {DEPTH - 1})", None, DEEP) == DEPTH - 1
    assert refused(COUNT.format(0) + f"(f {DEPTH})", None, DEEP) == "depth"


def test_an_error_at_the_bottom_of_a_deep_call_can_be_caught_at_its_top() -> None:
    assert evaluate(COUNT.format("(foo)") + "(try (f 20000) (catch (e) (get-field e 'line)))", None, DEEP) == 1


def test_calls_nest_a_thousand_deep_by_default() -> None:
    assert evaluate(COUNT.format(0) + "(f 999)") == 999
    assert refused(COUNT.format(0) + "(f 1000)") == "depth"


def test_a_loop_goes_round_a_million_times() -> None:
    text = "(progn (bind c 0) (loop 1000000 (set! c (+ c 1))) c)"
    assert evaluate(text, None, Budget(steps=10_000_000)) == 1_000_000
    assert refused(text) == "steps"


def test_a_long_loop_needs_nothing_of_the_outside() -> None:
    text = "(progn (bind c 0) (loop 700000 (if true (set! c (+ c 1)) 0)) c)"
    assert evaluate(text, None, Budget(steps=10_000_000)) == 700_000


def test_a_source_of_ten_megabytes_is_refused_before_it_is_read() -> None:
    with pytest.raises(SexpSyntaxError, match="10,000,000 characters; the most is 1,000,000"):
        evaluate("(list " + "1 " * 4_999_996 + ") ")


def test_a_larger_source_is_read_where_the_budget_says_so() -> None:
    budget = Budget(source=2_000_000, steps=1_000_000)
    assert evaluate("(length (list " + f"{1:<20}" * 51_000 + "))", None, budget) == 51_000


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('(bind s "ab") (loop 30 (set! s (string-append s s)))', "text"),
        ("(bind n 3) (loop 24 (set! n (* n n)))", "digits"),
        ("(bind x (list 1)) (loop 30 (set! x (append x x)))", "items"),
        ("(bind x nil) (loop 100000 (set! x (list x))) x", "nested"),
        ("(bind x (list 1)) (loop 60 (set! x (list x x))) (string-append x)", "steps"),
        ("(bind x nil) (loop 200000 (set! x (cons 1 x)))", "steps"),
        ("(bind x nil) (loop 200000 (set! x (append x (list 1))))", "steps"),
        ("(define (f) (parallel (f))) (f)", "depth"),
        ("(quote " + "(" * 2_000 + ")" * 2_000 + ")", "nested"),
        ("'" * 2_000 + "a", "nested"),
        ('(string-join (string-split "a b c d e f g" " ") s)', "text"),
        ('(string-split s "b")', "items"),
        ("(loop 2000000 (if true 1 2))", "steps"),
        ("(loop 1 (string-append (list s s s s s)))", "text"),
        ("(log-message s s s s s)", "text"),
        ("(loop 200000 (assoc 1 long))", "steps"),
        ("(loop 200000 (get-field long 'none))", "steps"),
        ("(loop 200000 (equal? long other))", "steps"),
        ("(loop 200000 (cdr long))", "steps"),
        ("(loop 200000 '(" + "a " * 1_000 + "))", "steps"),
        ("(bind n 1) (loop 9000 (set! n (* n 10))) (loop 100000 (* n 1))", "steps"),
    ],
)
def test_what_grows_without_end_is_ended(text: str, what: str) -> None:
    long = [[number, 0] for number in range(2, 1_000)]
    env = {"s": " b" * 1_200_000, "long": long, "other": [list(pair) for pair in long]}
    assert refused(text, env, Budget(steps=200_000) if what == "steps" else None) == what


def test_what_an_evaluation_holds_is_bounded() -> None:
    doubled = '(bind all nil) (bind s "a") (loop 20 (set! s (string-append s s)))'
    tracemalloc.start()
    try:
        assert refused(
            f'{doubled} (loop 100000 (set! all (cons (string-append s "b") all)))', None, Budget(steps=100_000)
        )
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()


def test_a_source_may_be_nested_deeply() -> None:
    assert evaluate("(+ 1 " * 8_000 + "1" + ")" * 8_000) == 8_001
    assert evaluate("(let ((a 1)) " * 8_000 + "a" + ")" * 8_000) == 1
    with pytest.raises(SexpSyntaxError, match="Nested deeper than 100,000"):
        evaluate("(" * 100_001)


def test_deep_data_from_python_is_refused_and_kept_whole() -> None:
    assert refused("x", {"x": nested(100_000)}) == "nested"
    assert evaluate("(length x)", {"x": nested(1_000)}) == 1


def test_data_with_more_items_than_allowed_is_refused() -> None:
    assert refused("x", {"x": [0] * 1_000_001}) == "items"


def test_cycles_are_seen_where_values_are_written_compared_and_handed_on() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    table: dict[str, Any] = {}
    table["self"] = table
    assert evaluate("(string-append x)", {"x": ring}) == "(1 #<cycle>)"
    assert evaluate("(string-append x)", {"x": table}) == "((self #<cycle>))"
    assert evaluate("(equal? x y)", {"x": ring, "y": ring}) is True
    assert evaluate("x", {"x": ring}) is ring
    assert as_json([ring, table], Budget()) == [[1, "#<cycle>"], {"self": "#<cycle>"}]


def test_two_cycles_of_one_shape_are_equal() -> None:
    one: list[Any] = [1]
    other: list[Any] = [1]
    one.append(one)
    other.append(other)
    assert evaluate("(equal? x y)", {"x": one, "y": other}) is True
    table: dict[str, Any] = {"a": 1}
    again: dict[str, Any] = {"a": 1}
    table["t"], again["t"] = table, again
    assert evaluate("(equal? x y)", {"x": table, "y": again}) is True
    assert evaluate("(equal? x y)", {"x": table, "y": {"a": 1}}) is False


def test_a_cycle_with_nothing_in_it_enters_as_a_cycle_with_nil() -> None:
    ring: list[Any] = [None]
    ring.append(ring)
    entered = evaluate("x", {"x": ring})
    assert entered[0] == []
    assert entered[1] is entered


def test_numbers_that_are_too_large_for_a_float_are_an_error_and_not_a_crash() -> None:
    for text in ("(+ n 1.5)", "(- n 1.5)", "(* n 1.5)", "(/ n 3)", "(mod n 1.5)"):
        with pytest.raises(SexpEvaluationError, match="too large"):
            evaluate(text, {"n": 10**4_000})
    with pytest.raises(SexpSyntaxError, match="more than 10,000 digits"):
        evaluate("9" * 10_001)
    assert to_source(evaluate("9" * 10_000)) == "9" * 10_000
    assert to_source(evaluate("-" + "9" * 9_000)) == "-" + "9" * 9_000


def test_a_value_that_is_shared_without_end_is_not_written_out_as_json() -> None:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    with pytest.raises(TaskError, match="more than 100,000 items in one value"):
        as_json(value, Budget(items=100_000))


def test_deep_values_go_out_as_text_below_what_json_carries() -> None:
    carried = as_json(nested(300), Budget())
    levels = 0
    while isinstance(carried, list):
        carried, levels = carried[0], levels + 1
    assert levels == 200
    assert carried == "(" * 99 + "nil" + ")" * 99
