"""The linter's findings in workflows, and valid code that it accepts."""

from __future__ import annotations

import pytest

from stackmem.core.requests import LoadSource
from stackmem.languages.language import Finding, read_with
from stackmem.languages.operations import Source
from stackmem.languages.sexp.language import LANGUAGE
from stackmem.languages.sexp.reader import TypedLines

FILES = {
    "lib.sexp": '(define (double x) (* 2 x)) (bind shared 1) (load "more.sexp")'
    ' (defatom lib-task (params) (instructions "x"))',
    "more.sexp": "(define (triple x) (* 3 x))",
    "circle.sexp": '(load "circle.sexp")',
    "broken.sexp": "(",
}


def findings(text: str) -> tuple[Finding, ...]:
    def load(asked: LoadSource) -> Source:
        found = FILES.get(asked.path)
        return Source(asked.path, failed="No such file") if found is None else Source(asked.path, found)

    found: tuple[Finding, ...] = read_with(LANGUAGE.lint("/p/m.sexp", text), load)
    return found


def codes(text: str) -> list[str]:
    return [f"{each.line}:{each.column} {each.severity} {each.code}" for each in findings(text)]


@pytest.mark.parametrize(
    "text",
    [
        "(let ((x 1)) (+ x 1))",
        "(let* ((x 1) (y x)) y)",
        "(define (even n) (if (= n 0) true (odd (- n 1)))) (define (odd n) (if (= n 0) false (even (- n 1)))) (even 4)",
        "(progn (bind c 0) (loop 3 (set! c (+ c 1))))",
        "(map car '((1 2)))",
        "((lambda (x) x) 1)",
        "(cond ((< 1 2) 1) (else 2))",
        "(try (+ 1 2) (catch (e) (get-field e 'message)))",
        '(defatom t (params (a string)) (instructions "x {{a}}")) (t (a "1") (files (list "f"))) (map \'t (list 1))',
        '(defatom t (params (a string)) (instructions "x {{a}}")) (map t nil)',
        '(system:execute_shell_command (command "x"))',
        '(get_context (query "x"))',
        '(load "lib.sexp") (double shared) (triple 1) (lib-task)',
        "(let ((_unused 1)) 2)",
        "(lambda (unused) 1)",
        "(budgets (steps 5)) 1",
        "(parallel 1 2)",
        "'(foo bar)",
        "(define (f) (bind y 2) y) (f)",
        "(director-evaluator-loop (max-iterations 1) (initial-director-input 1) (director list) (executor list)"
        " (evaluator list) (controller (lambda (f p e n) (list 'stop *loop-config*))))",
        "(bind n 0) (loop 200000 (set! n (+ n 1))) (map car n)",  # beyond the 50,000 nodes that lint evaluates
        "(log-message 1) " + "(" * 5_000 + "+ 1" + ")" * 5_000,
    ],
)
def test_nothing_is_said_of_what_is_right(text: str) -> None:
    assert [found for found in findings(text) if found.code != "sexp/unknown-operator"] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(list\n  (list", "2:3 error sexp/syntax"),
        ("(budgets (steps 0)) 1", "1:1 error sexp/syntax"),
        ("(foo 1)", "1:2 error sexp/unknown-operator"),
        ("(foo (key missing))", "1:11 warning sexp/unbound"),
        ("(5 1)", "1:1 error sexp/unknown-operator"),
        ("(list who)", "1:7 warning sexp/unbound"),
        ("(set! who 1)", "1:7 warning sexp/unbound"),
        ("(if 1 2)", "1:1 error sexp/arity"),
        ("(- 1 2 3)", "1:1 error sexp/arity"),
        ("(defatom t)", "1:1 error sexp/arity"),
        ("(define (f x) x) (f 1 2)", "1:18 error sexp/arity"),
        ("((lambda (x) x) 1 2)", "1:1 error sexp/arity"),
        ('(defatom t (params a) (instructions "x")) (t (b 1))', "1:43 error sexp/arity"),
        ("(let ((x)) 1)", "1:7 error sexp/clause"),
        ("(let 5 1)", "1:6 error sexp/clause"),
        ("(lambda x 1)", "1:1 error sexp/clause"),
        ("(lambda (x x) 1)", "1:12 error sexp/clause"),
        ("(bind 5 1)", "1:1 error sexp/clause"),
        ("(define x 1 2)", "1:1 error sexp/clause"),
        ("(cond 5)", "1:7 error sexp/clause"),
        ("(try 1 (catch e 2))", "1:8 error sexp/clause"),
        ('(system_read_files "a")', "1:20 error sexp/clause"),
        ("(get_context x)", "1:14 error sexp/clause"),
        ("(iterative-loop (executor list) (executor list))", "1:33 error sexp/clause"),
        ("(iterative-loop (director list))", "1:17 error sexp/clause"),
        ("(iterative-loop 5)", "1:17 error sexp/clause"),
        ("(iterative-loop)", "1:1 error sexp/clause"),
        ("(let ((x 1)) 2)", "1:8 warning sexp/unused"),
        ("(lambda () (bind x 1) 2)", "1:18 warning sexp/unused"),
        ("(let ((first 1)) first)", "1:8 warning sexp/shadowed-addition"),
        ('(defatom when (params) (instructions "x"))', "1:1 warning sexp/shadowed-addition"),
        ('(defatom if (params) (instructions "x"))', "1:1 warning sexp/shadowed-addition"),
        ('(defatom shell (params) (instructions "x"))', "1:1 warning sexp/shadowed-tool"),
        ('(load "nowhere.sexp")', "1:1 error sexp/unreadable-library"),
        ('(load "broken.sexp")', "1:1 error sexp/unreadable-library"),
    ],
)
def test_what_is_wrong_is_found_at_its_place(text: str, found: str) -> None:
    assert found in codes(text)


def test_what_an_input_may_mend_is_no_error() -> None:
    assert codes("(try given (catch (e) (let ((f 5)) (f 1))))") == ["1:6 warning sexp/unbound"]


def test_libraries_that_load_each_other_are_an_error() -> None:
    assert codes('(load "circle.sexp")') == ["1:1 error sexp/evaluation"]


def test_a_function_that_is_defined_twice_has_no_known_arity() -> None:
    assert codes("(log-message 1) (define (f x) x) (define (f x y) y) (f 1)") == []


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ("(list 1", True),
        ("(list 1)", False),
        ('"open', True),
        ("1", False),
        ("[", False),
        ("(a ; b)", True),
        (")", False),
    ],
)
def test_a_line_that_others_may_follow_is_known(text: str, unfinished: bool) -> None:
    assert TypedLines().is_unfinished_with(text) is unfinished


def test_typed_lines_are_each_looked_at_once_and_come_to_what_the_whole_text_does():
    text = '(list "one\n (two\\\n" 3\n; (\n \'(4\n))\n'
    typed, so_far = TypedLines(), ""
    for line in text.splitlines(keepends=True):
        so_far += line
        assert typed.is_unfinished_with(line) is TypedLines().is_unfinished_with(so_far)
    assert not TypedLines().is_unfinished_with(text)
    flood = TypedLines()
    assert all(flood.is_unfinished_with('("text" 1\n') for _ in range(50_000))
