"""The examples of docs/programs/sexp.md match the evaluator, and its tables are complete."""

import re

import pytest

from stackmem.core.errors import ProgramError
from stackmem.languages.sexp.evaluator import OPERATORS
from stackmem.languages.sexp.tools import PARAMETERS
from stackmem.languages.sexp.values import to_source
from tests.compliance.sexp_stage import evaluate
from tests.stage import ROOT

PAGE = (ROOT / "docs" / "programs" / "sexp.md").read_text("utf-8")
LINES = re.findall(r"^(.+?) +; (=>|!!) (.+)$", PAGE, re.M)


def test_there_are_examples():
    assert len(LINES) > 30


@pytest.mark.parametrize(("text", "kind", "wanted"), LINES)
def test_an_example_comes_to_what_the_page_says(text, kind, wanted):
    if kind == "=>":
        assert to_source(evaluate(text)) == wanted
        return
    with pytest.raises(ProgramError) as caught:
        evaluate(text)
    assert caught.value.message.startswith(wanted)


def test_every_form_primitive_addition_and_tool_is_named():
    words = set(re.split(r"[^\w?!*+=<>/:-]+", PAGE))
    assert [name for name in sorted(OPERATORS) if name not in words | {"get-context"}] == []
    assert [name for name in sorted(PARAMETERS) if name not in words] == []
