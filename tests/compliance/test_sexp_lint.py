"""Lint and run cases of S-expressions: ``sexp_lint/*.yaml`` contain programs and their findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compliance.case_files import read_cases
from tests.languages.sexp.agreement import finds, halts_before_effects

FOLDER = Path(__file__).parent / "sexp_lint"


def cases() -> list[Any]:
    return [
        pytest.param(*case, id=f"{path.stem}-{number}")
        for path in sorted(FOLDER.glob("*.yaml"))
        for number, case in enumerate(read_cases(path), 1)
    ]


@pytest.mark.parametrize(("text", "wanted"), cases())
def test_lint_finds_what_is_there_and_the_run_refuses_what_is_an_error(text: str, wanted: list[str]) -> None:
    found = [f"{each.line}:{each.column} {each.severity} {each.code.removeprefix('sexp/')}" for each in finds(text)]
    assert sorted(found) == sorted(wanted)
    refused = halts_before_effects(text)
    assert refused or not any(" error " in one for one in wanted)
    assert not refused or any(" error " in one or "unknown-operator" in one for one in wanted)  # from a server's tool


def test_there_are_enough_cases() -> None:
    assert len(cases()) >= 90
