"""Every rule of spec.md, on expressions the spec does not show."""

import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

WORKSPACE = Path(os.environ["WORKSPACE"])
APART = shlex.split(os.environ.get("APART", ""))  # holds the code under test apart from this folder and the verdict
PROBE = Path(__file__).with_name("probe.py")

VALUES = {
    "0": 0.0,
    "42": 42.0,
    "007": 7.0,
    "3.25": 3.25,
    ".75": 0.75,
    "6.": 6.0,
    "1+2": 3.0,
    "10-4-3": 3.0,
    "10-(4-3)": 9.0,
    "100/10/5": 2.0,
    "100/(10/5)": 50.0,
    "12/4*3": 9.0,
    "2*3/4": 1.5,
    "1+2*3": 7.0,
    "2*3+4*5": 26.0,
    "1-6/3": -1.0,
    "1-2*3-4": -9.0,
    "(1+2)*3": 9.0,
    "(1-2)*(3-4)": 1.0,
    "((((5))))": 5.0,
    "2*(3+4*(5-6))": -2.0,
    "-7": -7.0,
    "+7": 7.0,
    "---7": -7.0,
    "-+-7": 7.0,
    "5--2": 7.0,
    "5-+2": 3.0,
    "5+-2": 3.0,
    "-5+2": -3.0,
    "4*-2": -8.0,
    "-4*2": -8.0,
    "-4*-2": 8.0,
    "8/-2": -4.0,
    "8/--2": 4.0,
    "-(2+3)": -5.0,
    "-(-(3))": 3.0,
    "2-(-3)": 5.0,
    "-2*(1+1)": -4.0,
    "7/2": 3.5,
    "1/3": 1 / 3,
    "0.1+0.2": 0.1 + 0.2,
    "1.5*.5": 0.75,
    "0/5": 0.0,
    "  8\t*\n2 ": 16.0,
    " ( 1 +1 ) ": 2.0,
    "- 3": -3.0,
    "\r\n4": 4.0,
    "123456789*1000": 123456789000.0,
    "0.5-.25-.125": 0.125,
    "(" * 200 + "9" + ")" * 200: 9.0,
    "+".join(["1"] * 500): 500.0,
}

MALFORMED = [
    "", " \t\n", "+", "-", "1+", "1-", "3*", "3/", "*3", "/3", "1+*2", "1*/2", "1//2", "2**3", "1 2", "1. 5", "1 .5",
    "1 (2)", "(1)(2)", "2(3)", "(3)2", "(", ")", "()", "(1", "1)", "((1)", "(1))", ")1(", "(1+)", "1..2", "1.2.3", ".",
    "..", "-.", "1e3", "1E3", "0x10", "1_000", "1,5", "5%2", "2^3", "x", "1+x", "1=1", "nan", "inf", "1;2", "'1'",
    "1/0+", "(1/0", "1/0)", "\u0661", "1\u00b2", "\uff11", "1\u00a0+1", "1\x00", "__import__('os')", "[1]", "not 1",
]  # fmt: skip

NOT_TEXTS = [None, 1, 2.5, True, ["1"], {}]

BY_ZERO = ["1/0", "0/0", "5/0.0", "5/(1-1)", "5/-0", "1/(0*9)", "1+2/0", "2*(3/0)", "-1/.0", " 1 / 0 "]


@pytest.fixture(scope="module")
def answers():
    asked = [*VALUES, *MALFORMED, *NOT_TEXTS, *BY_ZERO]
    try:
        done = subprocess.run(
            [*APART, sys.executable, "-P", "-B", str(PROBE), str(WORKSPACE / "src")],
            input="".join(json.dumps(expression) + "\n" for expression in asked),
            capture_output=True,
            text=True,
            timeout=30,
            cwd=WORKSPACE,
            check=False,
        )
        printed, noise = done.stdout, done.stderr
    except subprocess.TimeoutExpired as error:
        printed, noise = (error.stdout or b"").decode(), "the evaluator took longer than 30 s"
    lines = [json.loads(line) for line in printed.splitlines()]
    print(noise[-2000:])
    lines += [{"raises": ["nothing: the process ended"]}] * (len(asked) - len(lines))
    return {repr(expression): answer for expression, answer in zip(asked, lines, strict=True)}


@pytest.mark.parametrize("expression", VALUES)
def test_a_value(answers, expression):
    answer = answers[repr(expression)]
    assert "value" in answer, answer
    assert answer["type"] == "float"
    assert math.isclose(answer["value"], VALUES[expression], rel_tol=1e-12, abs_tol=1e-15), answer


@pytest.mark.parametrize("expression", [*MALFORMED, *NOT_TEXTS], ids=repr)
def test_malformed_is_a_value_error(answers, expression):
    raised = answers[repr(expression)].get("raises", [])
    assert "ValueError" in raised, answers[repr(expression)]


@pytest.mark.parametrize("expression", BY_ZERO, ids=repr)
def test_division_by_zero(answers, expression):
    raised = answers[repr(expression)].get("raises", [])
    assert raised[:1] == ["ZeroDivisionError"], answers[repr(expression)]


def test_the_module_does_not_lean_on_pythons_own_parser():
    source = (WORKSPACE / "src" / "calculator.py").read_text(encoding="utf-8")
    assert not re.search(r"\b(?:eval|exec|compile|__import__)\s*\(|\bimport\s+ast\b|\bfrom\s+ast\b", _code(source))


def _code(source):
    """The source without texts and comments, where the words may stand, and without methods such as re.compile."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kept = [token.string for token in tokens if token.type not in (tokenize.STRING, tokenize.COMMENT)]
    return re.sub(r"\. *\w+|\bdef +\w+", "", " ".join(kept))
