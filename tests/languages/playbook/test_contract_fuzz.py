"""Any reply is read without a traceback, in linear time, and without evaluating anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.frame.bounds import TEXT_CHARS
from stackmem.languages.playbook.literals import CallTo, Variable
from stackmem.languages.playbook.reply import read_reply
from stackmem.languages.playbook.reply_items import MAX_ITEM_CHARS, ReturnItem, SetVar, Unreadable, Yielded
from tests.compliance.playbook_stage import load_cases
from tests.growth import stays_linear

TOKENS = st.sampled_from(
    ["`", "Step[", '"P:01:EXE"', "]", "Var[$x,", "Return[", "Trigger[", "F(", ")", "call", "user", '"', "'",
     "[", "{", "}", ":", ",", "$x", "=", "\\", "trig?", "recap-", "what?", "<br>", "```", "1", "yld ",
     "recap - ", "\n", " ", "-", ".", "e5", "null", "\x00", "é", "🙂", "("]
)  # fmt: skip
CASES = [case.reply for case in load_cases()]


@given(st.one_of(st.text(max_size=300), st.lists(TOKENS, max_size=60).map("".join), st.sampled_from(CASES)), st.data())
def test_any_text_is_read(text, data):
    if text and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(TOKENS) + text[at + 1 :]
    reply = read_reply(text)
    ends = [isinstance(item, ReturnItem | Yielded | Unreadable) for item in reply.items]
    assert not any(ends[:-1])
    for item in reply.items:
        if isinstance(item, SetVar | ReturnItem):
            assert_plain(item.value)


def assert_plain(value):
    match value:
        case None | bool() | int() | float() | str() | Variable():
            return
        case list():
            for each in value:
                assert_plain(each)
        case dict():
            for key, each in value.items():
                assert isinstance(key, str)
                assert_plain(each)
        case _:
            raise AssertionError(value)


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "`F(",
        "`Var[$x, ",
        "[",
        '"',
        "`Step[",
        "yld ",
        "trig? ",
        "``",
        "` ",
        "a ",
        "<br>",
        "`a.",
        "`a b(",
        "\\`",
        "`$x=",
        "1. ",
    ],
)
def test_a_flood_is_read_in_time(piece):
    text = (piece * (300_000 // len(piece)))[:300_000]
    assert stays_linear(lambda size: read_reply(text[:size]), len(text) // 4)


def test_a_reply_that_floods_is_a_fault():
    (only,) = read_reply("x" * (TEXT_CHARS + 1)).items
    assert isinstance(only, Unreadable)


def test_an_item_has_a_limit_of_characters():
    items = read_reply(f'`Say("{"x" * MAX_ITEM_CHARS}")`').items
    assert isinstance(items[-1], Unreadable)
    assert "over 200,000 characters" in items[-1].reason
    fine = read_reply(f'`Say("{"x" * (MAX_ITEM_CHARS - 20)}")`').items
    assert not isinstance(fine[-1], Unreadable)


def test_nothing_that_a_reply_says_is_run(tmp_path):
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    for form in ("`Return[{}]`", "`Var[$x, {}]`", "`F({})`", "`{}`", "`F(x={})`", '`F(f"{{{}}}")`'):
        items = read_reply(form.format(code)).items
        assert not any(isinstance(getattr(item, "call", None), CallTo) and item.call.name == "touch" for item in items)
    assert not marker.exists()
