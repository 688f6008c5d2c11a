"""A checked run halts before its first effect on each fault that lint reports as an error, and only on those."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import Halted, UsageError
from stackmem.core.requests import LoadSource
from stackmem.languages.language import Launch, read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.language import LANGUAGE

from .stage import PACKAGED, run

PATH = "/w/main.pb"
HEAD = "# A\nsays\n\n## P\n### Steps\n"
FAULTS = {
    HEAD + "- 01:QUE Gone()\n- 02:YLD call\n- 03:RET\n": "Unknown Playbook",
    HEAD + "- 01:QUE P(1, 2)\n- 02:YLD call\n- 03:RET\n": "Argument Mismatch",
    HEAD + "- 01:EXE x\n- 02:JMP 09\n": "Unknown Line",
    HEAD + "- 01:CHK N7\n- 02:RET\n": "Unknown Note",
}
STEPS = ("EXE do", "QUE P()", "QUE Gone()", "QUE P(1)", "YLD call", "JMP 01", "JMP 07", "CHK N1", "RET $x", "TNK why")


@pytest.mark.parametrize(("text", "title"), FAULTS.items())
def test_a_fault_that_lint_knows_ends_the_run_before_a_model_is_asked(text: str, title: str) -> None:
    played = run(text, checked=True)
    assert (played.done.halted and played.done.halted.kind, played.asked) == (title, [])
    assert f"At: main.pb:{7 if title == 'Unknown Line' else 6}" in played.report
    with pytest.raises(Halted, match=title):
        outline(text)


def test_a_recorded_run_without_the_option_is_not_checked() -> None:
    (text, _), *_ = FAULTS.items()
    played = run(text, '`Step["P:03"]` `Return[1]`\nyld return')
    assert played.asked


@given(st.lists(st.sampled_from(STEPS), min_size=1, max_size=6))
def test_lint_and_run_agree(steps: list[str]) -> None:
    text = HEAD + "".join(f"- {number:02}:{step}\n" for number, step in enumerate(steps, 1))
    errors = [each for each in read_with(LANGUAGE.lint(PATH, text), load) if each.severity == "error"]
    if errors:
        with pytest.raises(Halted, match=errors[0].title):
            outline(text)
        return
    with suppress(UsageError):  # an entry without its input
        outline(text)


def outline(text: str) -> Any:
    return read_with(LANGUAGE.outline(Launch(PATH, text, options={"checked": True})), load)


def load(asked: LoadSource) -> Source:
    return Source(asked.path, PACKAGED.get(asked.path, ""), failed="" if asked.path in PACKAGED else "No such file")
