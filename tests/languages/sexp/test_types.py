"""Parameter types of tasks are checked before the task is requested, and by lint if the values are known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.operations import Completion
from stackmem.languages.sexp.calls import fits, known_type
from stackmem.languages.sexp.errors import SexpEvaluationError
from stackmem.languages.sexp.tree import Symbol
from tests.compliance.sexp_stage import evaluate

from .test_lint import codes, findings
from .test_workflow import run

VALUES: dict[str, Any] = {
    '"text"': "string", "'word": "string", "5": "integer", "5.0": "number", "true": "boolean", "'(1 2)": "list",
    "'((a 1))": "object", "nil": "null",
}  # fmt: skip
TAKEN = {
    "string": {"string"}, "str": {"string"}, "TEXT": {"string"}, "integer": {"integer"}, "int": {"integer"},
    "number": {"integer", "number"}, "float": {"integer", "number"}, "boolean": {"boolean"}, "bool": {"boolean"},
    "list": {"list", "object", "null"}, "array": {"list", "object", "null"}, "object": {"object", "null"},
    "dict": {"object", "null"}, "null": {"null"}, "any": set(VALUES.values()), "widget": set(VALUES.values()),
    "string?": {"string", "null"}, "int?": {"integer", "null"}, "widget?": set(VALUES.values()),
}  # fmt: skip


def task(kind: str) -> str:
    return f'(defatom t (params (a {kind}) b) (instructions "do {{{{a}}}}") (subtype "evaluator")) '


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_taken_where_it_fits_and_refused_where_it_does_not(kind: str, value: str) -> None:
    call = f"{task(kind)}(t (a {value}))"
    done = run(call, Completion("ok"))
    errors = [each for each in findings(call) if each.severity == "error"]
    if VALUES[value] in TAKEN[kind]:
        assert done.halted is None
        assert done.value["content"] == "ok"
        assert errors == []
        return
    assert done.halted is not None
    assert f"Task 't' takes 'a' as {kind}, got: " in done.halted.report
    assert f"main.sexp:1:{len(task(kind)) + 1}" in done.halted.report
    assert [each.code for each in errors] == ["sexp/type"]
    assert errors[0].column == call.rindex(value) + 1


def test_nothing_is_asked_of_a_model_by_a_call_that_is_refused() -> None:
    done = run(f'{task("int")}(map t (list 1 "two") (list 0 0))', Completion("one"))
    assert done.halted is not None
    assert "Task 't' takes 'a' as int, got: \"two\"" in done.halted.report


def test_a_refusal_can_be_caught() -> None:
    assert run(f"{task('int')}(try (t (a nil)) (catch (e) (get-field e 'message)))").value == (
        "Task 't' takes 'a' as int, got: nil"
    )


@pytest.mark.parametrize(
    ("given_", "shown"),
    [("(lambda (x) x)", "a function"), (f'"{"x" * 500}"', f'"{"x" * 79}…'), ("(list 1 (list 2))", "(1 (2))")],
)
def test_what_does_not_fit_is_shown_in_short(given_: str, shown: str) -> None:
    with pytest.raises(SexpEvaluationError) as caught:
        evaluate(f"{task('boolean')}(t (a {given_}))")
    assert caught.value.message == f"Task 't' takes 'a' as boolean, got: {shown}"


def test_python_users_are_held_to_the_types_too_and_strangers_templates_to_none() -> None:
    assert evaluate(f"{task('dict')}(task-content (t (a given)))", {"given": {"k": 1}}) == "t got a={'k': 1}"
    assert evaluate("(task-content (greet (name 5)))") == "hello 5"
    with pytest.raises(SexpEvaluationError, match="takes 'a' as list, got: 5"):
        evaluate(f"{task('list')}(t (a given))", {"given": 5})


def test_a_type_that_is_not_checked_is_told_by_the_linter() -> None:
    assert codes(task("widget") + "(t (a 1) (b 2))") == ["1:23 warning sexp/unknown-type"]
    assert "known: string, integer, number, boolean, list, object, null, any" in findings(task("widget"))[0].message


def test_a_value_that_is_not_written_out_is_left_to_the_run() -> None:
    text = "(log-message 1) (let ((n 1)) (t (a n) (b 2))) (t (a (+ 1 2)) (b 2))"
    assert codes(task("string") + text) == []
    assert codes(task("string") + task("int") + "(t (a 1) (b 2)) (t (a true) (b 2))") == []


@given(st.text(max_size=20), st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.lists(st.integers())))
def test_a_name_that_is_no_type_fits_anything(kind: str, value: Any) -> None:
    assert known_type(kind) or fits(value, kind)
    assert fits(Symbol("s"), "string")
