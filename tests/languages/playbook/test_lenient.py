"""Programs and replies that are written more loosely than the contract, with the same meaning."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.playbook.errors import PlaybookError
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.reply import read_reply
from stackmem.languages.playbook.reply_items import Yielded
from stackmem.languages.playbook.tree import Playbook, lines_after

from .stage import one, run

STEPS = ("01:QUE Say(hello)", "02:YLD user", "03:CND If nothing was said", "03.01:JMP 01", "04:RET $x")


def book_of(section: str) -> Playbook:
    (agent,) = read_program(f"# A\nsays\n\n## P\nis\n\n{section}\n").agents
    return agent.playbooks[0]


def steps_of(book: Playbook) -> list[tuple[str, str, str]]:
    return [(step.label, step.code, step.text) for step in book.steps]


BULLETS = book_of("### Steps\n" + "\n".join(f"{'  ' * line.partition(':')[0].count('.')}- {line}" for line in STEPS))


@pytest.mark.parametrize("between", ["\n", "\n\n", "\n\n\n"])
@pytest.mark.parametrize("indent", ["", "  ", "    "])
def test_steps_without_bullets_are_the_steps_with_bullets(between: str, indent: str) -> None:
    book = book_of("### Steps\n" + between.join(indent * line.partition(":")[0].count(".") + line for line in STEPS))
    assert (steps_of(book), book.plain) == (steps_of(BULLETS), ())


def test_each_step_without_a_bullet_has_its_own_line_of_the_file() -> None:
    assert [step.line for step in book_of("### Steps\n" + "\n".join(STEPS)).steps] == [8, 9, 10, 11, 12]


def test_steps_without_bullets_and_numbers_are_numbered_in_order() -> None:
    book = book_of("### Steps\nQUE Say(hello)\nand smile\nYLD user\nRET")
    assert steps_of(book) == [("01", "QUE", "Say(hello)\nand smile"), ("02", "YLD", "user"), ("03", "RET", "")]


def test_a_line_without_a_bullet_after_a_list_is_a_step() -> None:
    book = book_of("### Steps\n- 01:QUE Say(hello)\n02:YLD user\n- 03:RET")
    assert [each[0] for each in steps_of(book)] == ["01", "02", "03"]


def test_a_wrapped_step_stays_one_step() -> None:
    book = book_of("### Steps\n- 01:EXE compare the codes\n  RET and CND\n- 02:RET")
    assert steps_of(book) == [("01", "EXE", "compare the codes\nRET and CND"), ("02", "RET", "")]


def test_triggers_without_bullets() -> None:
    book = book_of("### Triggers\nT1:BGN At the beginning\nT2:CND When the user\nis lost\n\n### Steps\n- 01:RET")
    assert [(each.number, each.code, each.text) for each in book.triggers] == [
        (1, "BGN", "At the beginning"),
        (2, "CND", "When the user\nis lost"),
    ]


def test_a_sentence_as_a_trigger_without_a_bullet_is_compiled_like_one_with_a_bullet() -> None:
    without = book_of("### Triggers\nWhen the program starts\n\n### Steps\n- 01:RET")
    with_one = book_of("### Triggers\n- When the program starts\n\n### Steps\n- 01:RET")
    assert without.plain == with_one.plain == ("triggers",)


def test_sentences_as_steps_without_bullets_are_compiled() -> None:
    assert book_of("### Steps\nGreet the user.\nThen stop.").plain == ("steps",)


@given(st.lists(st.sampled_from((*STEPS, "", "more words", "- 07:RET", "T1:BGN x")), max_size=8))
def test_any_mixture_is_read_or_refused(lines: list[str]) -> None:
    with suppress(PlaybookError):  # a doubled line
        assert len(book_of("### Steps\n" + "\n".join(lines)).steps) <= len(lines)


@pytest.mark.parametrize("given_as", ['"When asked"', '["When asked"]'])
def test_triggers_of_a_function_may_be_a_text(given_as: str) -> None:
    text = f"# A\n```python\n@playbook(triggers={given_as})\ndef f():\n    return 1\n```\n## P\n### Steps\n- 01:RET\n"
    trigger = read_program(text).agents[0].playbooks[0].triggers[0]
    assert (trigger.code, trigger.text) == ("CND", "When asked")


@pytest.mark.parametrize("no", ["yld? no", "yld? no, more to do", "- yld? No.", "`yld? no`", "yld?: no - I go on"])
def test_a_line_that_does_not_yield_is_no_yield(no: str) -> None:
    items = read_reply(f'`Var[$x, 1]`\n{no}\n`Step["P:02:YLD"]` yld user').items
    assert [type(each).__name__ for each in items] == ["SetVar", "AtStep", "Yielded"]
    after = read_reply(f'`Step["P:01:EXE"]` {no.lstrip("- ")}\n`Step["P:02:YLD"]` yld call').items
    assert isinstance(after[-1], Yielded)
    assert read_reply(f"`Return[1]`\n{no}\n").ignored == ""


def test_yields_of_the_contract_mean_what_they_meant() -> None:
    for word in ("user", "call", "return", "exit"):
        assert read_reply(f"yld {word}").items == (Yielded(word),)  # type: ignore[arg-type]
        assert read_reply(f"yld? {word}").items == (Yielded(word),)  # type: ignore[arg-type]


SKIPS = one(
    "- 01:EXE Look for the name.", "- 02:QUE Say(ask for the name) unless $name is known, then JMP 04",
    "- 03:YLD user", "- 04:RET $name",
)  # fmt: skip


def test_a_queue_with_unless_may_jump() -> None:
    book = read_program(SKIPS).agents[0].playbooks[0]
    assert [step.label for step in lines_after(book, book.steps[1])] == ["02", "03", "04"]
    played = run(SKIPS, '`Step["P:01:EXE"]` `Var[$name, "Ada"]`\n`Step["P:04:RET"]` `Return[$name]`\nyld return')
    assert played.value == "Ada"


@pytest.mark.parametrize("text", ["Say(ask, unless $name is known)", 'Say("unless")', "Say(hello)"])
def test_other_queues_are_not_skipped(text: str) -> None:
    program = one("- 01:EXE Look.", f"- 02:QUE {text}", "- 03:YLD call", "- 04:RET $name")
    skipping = '`Step["P:01:EXE"]` `Var[$name, "Ada"]`\n`Step["P:04:RET"]` `Return[$name]`\nyld return'
    played = run(program, *[skipping] * 4)
    assert "Contract Broken" in played.report
