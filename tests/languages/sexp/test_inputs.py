"""Inputs: the outline lists those a program needs, and a missing one is reported as such."""

from __future__ import annotations

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.requests import LoadSource
from stackmem.languages.language import Launch, read_with
from stackmem.languages.operations import Source
from stackmem.languages.sexp.language import LANGUAGE

from .test_workflow import run

LIBRARY = {"lib.sexp": "(define (double x) (* 2 x))", "needy.sexp": "(define (greet) (string-append hello 1))"}


def halt(text: str, **more: object) -> tuple[str, str]:
    halted = run(text, sources=LIBRARY, **more).halted  # type: ignore[arg-type]
    assert halted is not None
    return halted.kind, halted.report


@pytest.mark.parametrize(
    "text",
    [
        "(list 1\n who)",
        "(let ((x who)) x)",
        "(if true who 1)",
        "(map (lambda (x) (+ x who)) (list 1))",
        "((lambda () (let ((y (+ 1 who))) y)))",
        '(iterative-loop (max-iterations 1) (initial-input who) (test-command "x") (executor list) (validator list)'
        " (controller list))",
        '(iterative-loop (max-iterations 1) (initial-input 1) (test-command "x")'
        " (executor (lambda (i n) who)) (validator list) (controller list))",
        '(load "lib.sexp") (double who)',
    ],
)  # fmt: skip
def test_an_input_that_is_missing_is_named_with_the_flag_that_gives_it(text: str) -> None:
    kind, report = halt(text)
    assert kind == "Missing Input"
    first, *rest = report.split("\n")
    assert first == (
        "Missing input: 'who' has no value, and nothing in the program binds it; "
        "give it with --input who=TEXT (or who:=JSON, who=@FILE), or mend the name."
    )
    assert any("main.sexp:" in line for line in rest)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("(foo 1)", "Unbound symbol or unrecognized operator: foo"),
        ("(set! who 1)", "Cannot 'set!' unbound symbol: who."),
        ("(list x) (bind x 1)", "Unbound symbol: Name 'x' is not defined."),
        ('(load "needy.sexp") (greet)', "Unbound symbol: Name 'hello' is not defined."),
    ],
)
def test_what_no_input_can_be_is_told_as_unbound(text: str, told: str) -> None:
    assert halt(text) == ("Evaluation Error", halt(text)[1])
    assert halt(text)[1].startswith(told)


def test_an_input_that_a_library_beside_the_program_needs_is_missing_too() -> None:
    kind, report = halt("(greet)", options={"lib": ("needy.sexp",)})
    assert (kind, "--input hello=TEXT" in report) == ("Missing Input", True)


def test_a_missing_input_can_be_caught_and_a_given_one_is_not_missing() -> None:
    assert run("(try who (catch (e) 1))").value == 1
    assert run("(list who)", inputs={"who": 2}).value == [2]


def read(launch: Launch) -> tuple[str, ...]:
    def load(asked: LoadSource) -> Source:
        return Source(asked.path, LIBRARY[asked.path])

    told: tuple[str, ...] = read_with(LANGUAGE.outline(launch), load)
    return told


def test_what_a_library_binds_is_no_input() -> None:
    text = '(load "lib.sexp") (double who)'
    assert read(Launch("/p/main.sexp", text))[2:] == ("needs the input who",)
    with pytest.raises(UsageError, match=r"no input 'you'; known: who$"):
        read(Launch("/p/main.sexp", text, {"you": 1}))
