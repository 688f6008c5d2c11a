"""Cases of whole playbook programs: how they parse, what lint finds, and what happens with the given replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import Halted
from stackmem.languages.language import read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.language import LANGUAGE
from tests.compliance.case_files import read_cases
from tests.languages.playbook.stage import launch, run


class ProgramCase(msgspec.Struct, forbid_unknown_fields=True):
    """One case.

    Attributes:
        lint: Every finding, as ``line severity code``; checked if present.
        outline: Some of the lines that ``--dry-run`` prints.
        loads: False if the program is not valid.
        replies: Replies of the model; empty if the program is not run.
        said: The messages to the user; ``value`` is the program's return value.
        told: Part of what the model reads after each reply; with ``not`` in front, what it must not read.
        halts: Part of the report of a program that halts.
    """

    says: str
    program: str
    lint: list[str] | None = None
    outline: list[str] = []
    loads: bool = True
    replies: list[str] = []
    user: list[str] = []
    inputs: dict[str, Any] = {}
    said: list[str] = []
    value: Any = None
    told: list[str] = []
    halts: str = ""


def _cases() -> list[ProgramCase]:
    folder = Path(__file__).parent / "playbook_programs"
    return [msgspec.convert(raw, ProgramCase) for file in sorted(folder.glob("*.yaml")) for raw in read_cases(file)]


CASES = _cases()
EACH = pytest.mark.parametrize("case", [pytest.param(case, id=case.says) for case in CASES])


def _findings(text: str) -> list[str]:
    found = read_with(LANGUAGE.lint("main.pb", text), lambda _: Source(""))
    return [f"{each.line} {each.severity} {each.code.removeprefix('playbook/')}" for each in found]


@EACH
def test_lint_and_load_agree(case: ProgramCase):
    found = _findings(case.program)
    if case.lint is not None:
        assert found == case.lint
    try:
        lines = read_with(LANGUAGE.outline(launch(case.program, compile=True)), lambda _: Source(""))
    except Halted:
        assert not case.loads
        assert any(" error " in each for each in found)
    else:
        assert case.loads
        assert set(case.outline) <= {line.strip() for line in lines}, lines


@pytest.mark.parametrize("case", [pytest.param(case, id=case.says) for case in CASES if case.replies])
def test_the_program_runs_so(case: ProgramCase, tmp_path: Path):
    played = run(case.program, *case.replies, user=tuple(case.user), folder=tmp_path, inputs=case.inputs)
    for index, told in enumerate(case.told, 1):
        if told.startswith("not "):
            assert told.removeprefix("not ") not in played.instruction(index)
        else:
            assert told in played.instruction(index)
    assert played.said == case.said
    if case.halts:
        assert case.halts in played.report
    else:
        assert played.value == case.value


def test_no_two_cases_say_the_same():
    assert len({case.says for case in CASES}) == len(CASES)


LINES = (
    "# A", "# B:AI", "## P", "## Q($x)", "## public: R", "### Steps", "### Trigger", "### Notes", "## Steps",
    "#### Notes", "- 01:QUE P()", "- 02:YLD call", "- 02:RET", "  - 02.01:EXE x", "- say hello", "- T1:BGN first",
    "- T1:ODD", "- At the beginning", "- N1 note", "public: true", "meeting: true", "metadata:", "  author: me", "---",
    "text", "", "```python\nx = 1\n```", "```python\n@playbook\ndef f(): return y\n```", "```python\n@playbook(\n```",
    "```public.json\n[]\n```",
)  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_what_lint_passes_never_halts_before_it_runs_and_what_halts_lint_refuses(lines: list[str]):
    text = "\n".join(["# Main", "## Start", *lines])
    errors = [each for each in _findings(text) if " error " in each]
    try:
        read_with(LANGUAGE.outline(launch(text, compile=True)), lambda _: Source(""))
    except Halted:
        assert errors
    else:
        faults = {each.split()[2] for each in errors}
        assert faults <= {"unknown-playbook", "unknown-line", "unknown-note", "argument-mismatch", "unknown-name"}
