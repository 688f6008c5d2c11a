"""Lints and runs a program in memory with the same few files."""

from __future__ import annotations

from typing import Any

from stackmem.core.requests import LoadSource
from stackmem.languages.language import Finding, Launch, read_with
from stackmem.languages.operations import Complete, Completion, FrameAnswer, RunFrame, Source, ToolAnswer
from stackmem.languages.sexp.language import LANGUAGE
from tests.languages.in_memory import Done, run_in_memory

PATH = "/p/main.sexp"
FILES = {
    "good.sexp": "(define (double x) (* 2 x))",
    "faulty.sexp": "(define (half x) (/ x))",
    "good.json": '{"type": "object"}',
    "bad.json": "{",
}


def _load(asked: LoadSource) -> Source:
    text = FILES.get(asked.path)
    return Source(asked.path, failed="No such file") if text is None else Source(asked.path, text)


def finds(text: str) -> tuple[Finding, ...]:
    found: tuple[Finding, ...] = read_with(LANGUAGE.lint(PATH, text), _load)
    return found


def _answer(effect: Any) -> Any:
    match effect:
        case RunFrame():
            return FrameAnswer("done")
        case Complete():
            return Completion("done")
        case _:
            return ToolAnswer("done")


def run_text(text: str, *, checked: bool) -> Done:
    options = {"checked": True} if checked else {}
    return run_in_memory(LANGUAGE.start(Launch(PATH, text, options=options)), _answer, FILES)


def halts_before_effects(text: str) -> bool:
    """Return whether the run ends with a fault before any effect. A missing input does not count."""
    done = run_text(text, checked=True)
    nothing = all(isinstance(each, LoadSource) for each in done.happened)
    assert nothing or done.halted is None or done.halted.kind not in ("Static Fault", "Syntax Error")
    return nothing and done.halted is not None and done.halted.kind != "Missing Input"
