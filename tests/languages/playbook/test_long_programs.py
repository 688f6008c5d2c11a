"""Long programs cost no more per line, and their lines follow the same rules as in short ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.language import Finding, read_with
from stackmem.languages.operations import Source
from stackmem.languages.playbook.errors import PlaybookError
from stackmem.languages.playbook.lint import lint
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.tree import Number, Playbook, StepLine, label_of, lines_after, target_of
from tests.growth import TIMES, stays_linear

from .stage import one, run

STEPS = 5_000


def flat(steps: int = STEPS) -> str:
    return one(*(f"- {line:02}:{'QUE F($x)' if line % 2 else 'YLD call'}" for line in range(1, steps + 1)))


def blocks(steps: int = STEPS) -> str:
    return one(
        *(
            f"- {line:02}:CND If $a\n  - {line:02}.01:QUE Say(hi)\n  - {line:02}.02:YLD call\n  - {line:02}.03:JMP 01"
            for line in range(1, steps // 4)
        )
    )


def one_block(steps: int = STEPS) -> str:
    return one("- 01:CND While $a", *(f"  - 01.{line:02}:QUE F($x)" for line in range(1, steps)))


def playbooks(steps: int = STEPS) -> str:
    return "# A\n" + "".join(
        f"## P{book}\nsays\n\n### Steps\n- 01:QUE P{book + 1}(1)\n- 02:YLD call\n- 03:RET $x\n"
        for book in range(steps // 3)
    )


def agents(steps: int = STEPS) -> str:
    return "".join(
        f"# A{agent}\n## public: P\n### Steps\n- 01:QUE A{agent + 1}.Q()\n- 02:RET\n" for agent in range(steps // 4)
    )


def found(text: str) -> tuple[Finding, ...]:
    return read_with(lint("/p/main.pb", text), lambda asked: Source(asked.path, failed="No such file"))


@pytest.mark.parametrize("made", [flat, blocks, one_block, playbooks, agents])
def test_a_program_of_thousands_of_lines_is_linted_in_seconds(made):
    texts = {size: made(size) for size in (STEPS // TIMES, STEPS)}
    findings = dict[int, tuple[Finding, ...]]()

    def linted(size: int) -> None:
        findings[size] = found(texts[size])

    assert stays_linear(linted, STEPS)
    assert findings[STEPS]
    assert max(len(each.message) for each in findings[STEPS]) < 1_000


def test_a_program_of_thousands_of_lines_runs_in_seconds():
    def runs(steps: int) -> None:
        text = one(*(f"- {line:02}:EXE" for line in range(1, steps)), f"- {steps:02}:RET")
        replies = [
            "\n".join(f'`Step["P:{line:02}"]`' for line in range(first, min(first + 1_000, steps + 1)))
            + ("\nyld call" if first + 1_000 <= steps else "\n`Return[1]`")
            for first in range(1, steps + 1, 1_000)
        ]
        assert run(text, *replies).value == 1

    assert stays_linear(runs, STEPS)


NUMBERS = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
LINES = st.lists(
    st.tuples(NUMBERS, st.sampled_from(["EXE", "CND If $a", "CND While $a", "LOP", "ELS", "JMP"]), NUMBERS)
)


def plainly(book: Playbook, at: StepLine) -> set[Number]:
    """Compute the lines that may follow in a simple way, by searching all steps."""
    numbers = [step.number for step in book.steps]

    def beside(number: Number) -> list[Number]:
        block = [each for each in numbers if each[:-1] == number[:-1]]
        return block[block.index(number) + 1 :] if number in block else [each for each in block if each > number]

    def is_loop(number: Number) -> bool:
        head = next((step for step in book.steps if step.number == number), None)
        back = any(step.number[: len(number)] == number and target_of(step) == number for step in book.steps)
        return head is not None and (head.code == "LOP" or head.text.startswith("While") or back)

    around = [at.number[:length] for length in range(len(at.number) - 1, 0, -1)]
    inside = [each for each in numbers if each[:-1] == at.number]
    branches = at.code in ("CND", "LOP", "ELS")
    found = {at.number, *numbers[numbers.index(at.number) + 1 :][:1], *inside[:1], *filter(is_loop, around)}
    if branches and beside(at.number):
        found.add(beside(at.number)[0])
    elif (branches or not inside) and not beside(at.number):
        found |= set([each for number in around for each in beside(number)[:1]][:1])
    target = target_of(at)
    return {number for number in {*found, *([target] if target else [])} if number in numbers}


@given(LINES)
def test_what_may_follow_a_line_is_what_a_search_of_all_steps_finds(lines):
    steps = {
        number: f"- {label_of(number)}:{text}{f' {label_of(target)}' if text == 'JMP' else ''}"
        for number, text, target in lines
    }
    book = read_program(one(*(steps.values() or ["- 01:EXE"]))).agents[0].playbooks[0]
    for at in book.steps:
        may = lines_after(book, at)
        assert {step.number for step in may} == plainly(book, at)
        assert list(may) == [step for step in book.steps if step in may]


def test_a_number_of_too_many_parts_is_refused_where_it_stands():
    with pytest.raises(PlaybookError, match="use at most 20 parts of 9 digits") as caught:
        read_program(one("- 01:EXE", f"- {'1.' * 20}1:EXE"))
    assert caught.value.line == 5


def test_a_call_by_the_agents_own_name_is_linted_as_it_runs():
    assert not found("# A\n## P\n### Steps\n- 01:QUE A.F(1)\n- 02:YLD call\n## F($x)\n### Steps\n- 01:RET $x\n")


def test_of_many_names_the_first_are_told():
    (first, *_) = found(playbooks().replace("P1(1)", "Nothing(1)"))
    assert first.message.startswith("unknown playbook Nothing; known: P0, P1, P2,")
    assert first.message.endswith("P29, …, Say, SaveArtifact, LoadArtifact, SendMessage, WaitForMessage")
