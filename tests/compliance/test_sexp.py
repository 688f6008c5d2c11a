"""Cases of the S-expression language: ``sexp/*.yaml`` contain text and value, or text and error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import ProgramError
from stackmem.languages.sexp.values import to_source
from tests.compliance.case_files import read_cases
from tests.compliance.sexp_stage import evaluate

FOLDER = Path(__file__).parent / "sexp"


def cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for number, case in enumerate(read_cases(path), 1):
            found.append(pytest.param(*case, *([None] * (3 - len(case))), id=f"{path.stem}-{number}"))
    return found


@pytest.mark.parametrize(("text", "wanted", "env"), cases())
def test_a_text_evaluates_to_its_value_or_its_error(text: str, wanted: Any, env: Any) -> None:
    if isinstance(wanted, str):
        assert to_source(evaluate(text, env)) == wanted
        return
    with pytest.raises(ProgramError) as caught:
        evaluate(text, env)
    error: Any = caught.value
    assert error.message.startswith(wanted["error"])
    assert type(error).__name__ == wanted.get("type", type(error).__name__)
    assert "at" not in wanted or f"{error.position.line}:{error.position.column}" == wanted["at"]
    assert wanted.get("details", "") in getattr(error, "error_details", "")


def test_there_are_enough_cases() -> None:
    assert len(cases()) >= 250
