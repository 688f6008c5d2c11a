"""Beginners' mistakes: the message says what to write instead."""

from __future__ import annotations

import pytest

from stackmem.core.requests import LoadSource
from stackmem.languages.apl.language import LANGUAGE as APL
from stackmem.languages.changes import VariableChanges
from stackmem.languages.debugger import DebugMoment, FrameView
from stackmem.languages.language import Language, read_with
from stackmem.languages.operations import Source
from stackmem.languages.sexp.language import LANGUAGE as SEXP
from stackmem.languages.sexp.primitives import kind_of
from tests.compliance.apl_stage import PACKAGED

APL_MISTAKES = {
    'vars: {x: [1], n: "{{ len(x) }}"}': "nearest: the filter `x | length`",
    'vars: {x: [1], n: "{{ str(x) }}"}': "nearest: the filter `x | string`",
    'vars: {x: 1}, if: "{{ true }} == 1"': "an expression has no braces; write `x == 1`, not `{{ x }} == 1`",
    'vars: {x: 1}, if: "true && false"': "write `and` instead of `&&`",
    'vars: {x: 1}, if: "true || false"': "write `or` instead of `||`",
    'vars: {x: 1}, if: "!true"': "write `not` instead of `!`",
    'vars: {x: 1}, if: "1 === 1"': "write `==` instead of `===`",
}


def lint(language: Language, text: str, severity: str = "error") -> list[str]:
    def load(asked: LoadSource) -> Source:
        return Source(asked.path, PACKAGED)

    return [each.message for each in read_with(language.lint("/w/main", text), load) if each.severity == severity]


@pytest.mark.parametrize(("step", "message"), APL_MISTAKES.items())
def test_apl_says_how_it_is_written_here(step: str, message: str) -> None:
    (found,) = lint(APL, f"main:\n  - {{name: S, tool: set_vars, {step}}}\n")
    assert message in found


@pytest.mark.parametrize("name", ["output", "result", "save_as"])
def test_apl_stores_a_result_with_register(name: str) -> None:
    (found,) = lint(APL, f"main:\n  - {{name: S, tool: shell, command: ls, {name}: x}}\n")
    assert found.endswith(f"to store the result in a variable, write `register` instead of `{name}`.")


def test_valid_conditions_with_such_signs_in_texts_stay_valid() -> None:
    condition = "'&&' != '||' and '{{' != '!'"
    assert lint(APL, f'main:\n  - {{name: S, tool: set_vars, vars: {{x: 1}}, if: "{condition}"}}\n') == []


@pytest.mark.parametrize("text", ["main:\n\t- name: a\n", "main:\n  - name: a\n\ttool: log\n"])
def test_a_tab_is_named(text: str) -> None:
    (found,) = lint(APL, text)
    assert found.startswith("A tab; YAML is indented with spaces")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(defun f (x) x)", "nothing here binds 'defun'; write (define (name parameter) body)"),
        ("(setq x 1)", "nothing here binds 'setq'; write (set! name value)"),
        ("(log-message 'x')", "A quote is followed by nothing. A text is written in double quotes."),
        ("(log-message 'two words')", "A quote is followed by nothing. A text is written in double quotes."),
        ("'x'", "A quote is followed by nothing. A text is written in double quotes."),
    ],
)
def test_sexp_says_how_it_is_written_here(text: str, message: str) -> None:
    assert message in lint(SEXP, text)


TASK = '(defatom ask (params) (instructions "Say yes."))\n(define (f x) x)\n'
MISUSED = {
    '(string-append "out: " (shell (command "ls")))': "'string-append' gets a task's result; write (task-content",
    '(let ((r (ask))) (string=? r "yes"))': "'string=?' gets a task's result; write (task-content result)",
    "(let* ((r (ask)) (n (+ 1 r))) n)": "'+' gets a task's result; write (task-content result) for its value",
    '(define r (ask)) (equal? r "yes")': "'equal?' gets a task's result; write (task-content result)",
    '(length (read_file (path "a")))': "'length' gets a task's result; write (task-content result)",
    "(if (ask) 1 2)": "'if' gets a task's result, which is always true; write (task-ok? result)",
    '(write_file (path "a") (content (ask)))': "'content' gets a task's result; write (task-content result)",
}
WELL_USED = (
    '(string-append "out: " (task-content (shell (command "ls"))))',
    "(let ((r (ask))) (if (task-ok? r) (task-content r) (task-exit-code r)))",
    '(let ((r (ask))) (list r (null? r) (get-field r "status")))',
    "(equal? (ask) (ask))",
    "(length (f (ask)))",
    '(let ((r (ask))) (set! r "text") (string-append r "."))',
    "(quote (string-append (ask)))",
)  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISUSED.items())
def test_sexp_names_the_content_of_a_task_result(text: str, message: str) -> None:
    (found,) = lint(SEXP, TASK + text, "warning")
    assert message in found


@pytest.mark.parametrize("text", WELL_USED)
def test_a_task_result_may_be_used_whole(text: str) -> None:
    assert not [each for each in lint(SEXP, TASK + text, "warning") if "task's result" in each]


def test_a_task_result_names_the_way_to_its_value() -> None:
    assert "(task-content result)" in kind_of({"content": "x", "status": "COMPLETE", "notes": {}})
    assert kind_of({"content": "x"}) == "a mapping"


def test_the_whole_report_cuts_nothing() -> None:
    changes = VariableChanges(full=True)
    values: dict[str, object] = {f"v{number}": list(range(number)) for number in range(30)}
    changes.lines(DebugMoment("entered", (FrameView("f", "a", 1, {"old": 1}),), ""))
    lines = changes.lines(DebugMoment("line", (FrameView("f", "a", 2, values),), ""))
    assert lines == (*(f"{name} = {value}" for name, value in values.items()), "old is gone")
    values["v1"] = "x" * 5_000
    assert changes.lines(DebugMoment("line", (FrameView("f", "a", 3, values),), "")) == (f'v1 = "{"x" * 5_000}"',)
