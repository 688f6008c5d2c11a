"""Lint and run agree: exactly the faults that end every run of a program are lint errors."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .agreement import finds, halts_before_effects, run_text

NUMBERS = ("1", "2.5", "(+ 1 2)", "(- 7)", "(length (list 1))", "(mod 7 2)", "(nth (list 4) 0)")
TEXTS = ('"a"', '(string-append "a" 1)', '(string-join (list "a" "b") "-")', '(task-content (judge (text "x")))')
LISTS = (
    "nil",
    "'(1 2)",
    "(list 1 2)",
    "(map 'car '((1)))",
    "(map double '(1 2))",
    "(filter even '(1 2))",
    "(cdr '(1))",
)
TAKES = {
    "+": ("number", "number"), "-": ("number", "number"), "*": ("number", "number"), "<": ("number", "number"),
    "string-append": ("text", "text"), "string=?": ("text", "text"), "string-split": ("text", "separator"),
    "car": ("list",), "length": ("list",), "append": ("list", "list"), "cons": ("number", "list"),
    "nth": ("list", "index"), "double": ("number",), "even": ("number",), "if": ("number", "text", "list"),
    "loop": ("index", "text"), "when": ("number", "list"), "not": ("text",), "list": ("number", "text"),
}  # fmt: skip
KINDS = {"number": NUMBERS, "text": TEXTS, "list": LISTS, "separator": ('","',), "index": ("0", "1")}
WRONG = {"number": '"a"', "text": "5", "list": "5", "separator": "5", "index": '"a"'}
CHECKED = TAKES.keys() - {"if", "when", "not", "list", "double", "even", "string-append"}
HEAD = (
    '(defatom judge (params text (tone optional str)) (instructions "{{text}} {{tone}}") (subtype "evaluator"))'
    "(define (double x) (* 2 x)) (define (even x) (= 0 (mod x 2)))"
)
CALLS = (
    '(judge (text "a"))', '(judge (text "a") (tone "b"))', '(read_file (path "a"))',
    '(write_file (path "a") (content "b"))',
    '(get_context (query "a"))', "(loop 2 (double 3))", "(let ((x 1)) (+ x x))", "((lambda (x y) (list x y)) 1 2)",
    "(try (car 5) (catch (e) 1))", "(cond (false 1) (else 2))", '(map judge (list "a"))', '(load "good.sexp")',
    '(iterative-loop (max-iterations 1) (initial-input 1) (test-command "x") (executor (lambda (i n) i))'
    " (validator (lambda (c n) c)) (controller (lambda (x v i n) (list 'stop x))))",
)  # fmt: skip
FAULTY = (
    "(judge)", '(judge (text "a") (text "b"))', '(judge (txt "a"))', '(judge (text "a") (tone 5))', "(read_file)",
    '(reed_file (path "a"))', "(read_file (path 5))", "(get_context (query 5))", "(loop -1 2)", "(let ((x)) 1)",
    "((lambda (x) x))", "(cond 5)", '(map judge (list "a") (list "b") (list "c"))', '(load "gone.sexp")', "(5 1)",
    '(load "faulty.sexp") (half 1)', "(double 1 2)", "(map 'nosuch (list 1))", "(filter cons '(1))", "(bind 5 1)",
    '(defatom t (params a a) (instructions "x"))', '(defatom t (params a) (instructions "{{b}}")) (t (a 1))',
    '(defatom t (params) (instructions "x") (output_format ((schema "gone.json"))))', "(undefined 1)",
    "(director-evaluator-loop (max-iterations 1) (initial-director-input 1) (director (lambda (i) i))"
    " (executor list) (evaluator list) (controller list))",
)  # fmt: skip

WRITTEN = ("sexp/unreadable-library", "sexp/unreadable-schema", "sexp/faulty-library")
"""Findings that are only warnings if an earlier effect may write the file."""


@st.composite
def primitive_call(draw: Any) -> str:
    """Return a call with valid arguments, or with one that is wrong, missing or superfluous."""
    name = draw(st.sampled_from(sorted(TAKES)))
    args = [draw(st.sampled_from(KINDS[kind])) for kind in TAKES[name]]
    at = draw(st.integers(0, len(args) - 1))
    match draw(st.sampled_from(["right", "right", "wrong", "missing", "more", "misspelt"])):
        case "wrong" if name in CHECKED:
            args[at] = WRONG[TAKES[name][at]]
        case "missing":
            del args[at]
        case "more":
            args.insert(at, args[at])
        case "misspelt":
            name += "x"
    return f"({' '.join([name, *args])})"


@st.composite
def programs(draw: Any) -> str:
    """Return a program of mostly valid expressions, all of which are reached."""
    parts = draw(st.lists(primitive_call() | st.sampled_from(CALLS) | st.sampled_from(CALLS + FAULTY), max_size=5))
    around = draw(st.sampled_from(["{}", "(progn {} 1)", "(let ((here 1)) {} here)", "(define (main) {} 1) (main)"]))
    return f"{HEAD} {around.format(' '.join(parts))}"


@given(programs())
def test_what_ends_a_run_by_its_text_alone_is_an_error_of_lint(text: str) -> None:
    halted = run_text(text, checked=False).halted
    found = finds(text)
    errors = [each for each in found if each.severity == "error"]
    written = [each for each in found if each.code in WRITTEN]
    assert errors or written or halted is None, halted and halted.report


@given(programs())
def test_what_is_an_error_of_lint_is_refused_before_anything_is_done(text: str) -> None:
    assert halts_before_effects(text) == any(each.severity == "error" for each in finds(text))


def test_every_faulty_call_is_found() -> None:
    assert [call for call in FAULTY if not halts_before_effects(f"{HEAD} {call}")] == []
    assert [call for call in CALLS if halts_before_effects(f"{HEAD} {call}")] == []


def test_an_input_that_is_missing_stops_a_run_before_anything_is_done() -> None:
    done = run_text('(read_file (path "a")) (list who what)', checked=True)
    assert done.halted is not None
    assert (done.happened, done.halted.kind, done.halted.path) == ([], "Missing Input", "1:34")
    assert [name for name in ("who", "what") if f"--input {name}=TEXT" not in done.halted.report] == []
