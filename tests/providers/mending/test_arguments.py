"""Arguments that are almost JSON are repaired if they have one meaning; otherwise the refusal says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from stackmem.core.budgets import Budgets
from stackmem.core.facts import ModelReplied, Stop
from stackmem.core.messages import ToolCall, ToolSpec, Usage
from stackmem.core.strict_json import fault_of_json
from stackmem.core.tool_schemas import parse, prompt_slots, spec
from stackmem.core.tools import Refusal, WriteFile
from stackmem.providers.json_text import parse_arguments
from stackmem.providers.mending.arguments import with_mended_arguments
from tests.providers.views import asking

WRITE: ToolSpec = spec(WriteFile, prompt_slots(Budgets(), 60.0))
LONG = '{"path": "n.txt", "content": "a"}'


def mended(text: str, stop: Stop = "call") -> tuple[Any, str]:
    """The arguments after repair, and the text if they are still not JSON."""
    value, malformed = parse_arguments(text)
    reply = ModelReplied((ToolCall("1", "write_file", value, malformed),), stop, Usage())
    answer = with_mended_arguments(reply, asking(tools=(WRITE,)))
    call = answer.parts[0]
    assert isinstance(call, ToolCall)
    assert (answer.repairs is UNSET) == (call == reply.parts[0])
    return call.arguments, call.malformed or ""


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "n.txt", "content": "a",}',
        f"```json\n{LONG}\n```",
        f"{LONG}<|im_end|>",
        f"{LONG}</tool_call>",
        f'{LONG}""',
        f"{LONG}}}",
        f"{{}}{LONG}",
        f"{LONG}{LONG}",
        f"{LONG}\n```",
        "{'path': 'n.txt', 'content': 'a'}",
        '{path: "n.txt", content: "a"}',
    ],
)
def test_one_meaning_is_read(text: str) -> None:
    assert mended(text) == ({"path": "n.txt", "content": "a"}, "")


def test_line_breaks_in_a_text_are_kept() -> None:
    assert mended('{"path": "n.txt", "content": "a\n\tb"}') == ({"path": "n.txt", "content": "a\n\tb"}, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"path": "n.txt", "content": "a', "break off after 31 characters"),
        ('{"path": "n.txt", "content": "a"', "break off"),
        ('{"path": "n.txt", "content": "\\U0001F600"}', "Invalid \\escape"),
        (f"{LONG} done", "Extra data at line 1, column 35"),
        (f'{LONG}{{"path": "m.txt", "content": "b"}}', "Extra data"),
        ('{"path": "n.txt", "content": NaN}', "NaN"),
        ('{"path" "n.txt"}', "':'"),
        ("", ""),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong_and_where(text: str, said: str) -> None:
    _, malformed = mended(text)
    assert malformed == text.strip() or not text
    refusal = parse(ToolCall("1", "write_file", None, text), (WriteFile,))
    assert isinstance(refusal, Refusal)
    assert "not JSON" in refusal.reason
    assert said in refusal.reason


def test_a_reply_that_was_cut_is_not_repaired() -> None:
    assert mended('{"path": "n.txt", "content": "a",}', "truncated")[1]


@given(st.text(max_size=80))
def test_any_text_is_either_read_or_has_a_fault(text: str) -> None:
    value, malformed = mended(text)
    assert isinstance(malformed, str)
    if malformed:
        assert fault_of_json(malformed)
    else:
        assert value is not None or text.strip()
