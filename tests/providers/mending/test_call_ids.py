"""Ids of calls are unique, short and never empty in every request, whatever a server sends."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.facts import ModelReplied
from stackmem.core.log import Log
from stackmem.core.messages import Message, Thinking, ToolCall, ToolResult, Usage
from stackmem.providers.mending.call_ids import with_own_ids, with_unique_ids
from tests.providers.views import assistant, user

IDS = st.one_of(st.sampled_from(["0", "1", "read_file:0", "", "x" * 200, "a b", "a_b"]), st.text(max_size=100))


def turn(*ids: str) -> list[Message]:
    """A reply with calls of these ids, and their results in order."""
    calls = [ToolCall(each, "read_file", {"path": f"{number}"}) for number, each in enumerate(ids)]
    return [assistant(*calls), user(*(ToolResult(each, f"{number}") for number, each in enumerate(ids)))]


def pairs(messages: Log[Message]) -> list[tuple[list[str], list[str]]]:
    """The ids of each reply's calls and those of its results."""
    return [
        ([part.id for part in reply.parts if isinstance(part, ToolCall)],
         [part.call_id for part in results.parts if isinstance(part, ToolResult)])
        for reply, results in zip(list(messages)[::2], list(messages)[1::2], strict=True)
    ]  # fmt: skip


@given(st.lists(st.lists(IDS, min_size=1, max_size=4), max_size=6), st.booleans(), st.booleans())
def test_each_result_names_its_own_call(turns: list[list[str]], plain: bool, short: bool) -> None:
    messages = Log([message for ids in turns for message in turn(*ids)])
    sent = with_unique_ids(messages, plain=plain, short=short)
    calls = [each for made, answered in pairs(sent) for each in made]
    assert all(made == answered for made, answered in pairs(sent))
    assert len(set(calls)) == len(calls)
    pattern = r"[a-zA-Z0-9]{9}" if short else r"[a-zA-Z0-9_-]{1,64}" if plain else r"[a-zA-Z0-9_.:-]{1,64}"
    assert all(re.fullmatch(pattern, each) for each in calls)


@given(st.lists(IDS, min_size=2, max_size=8))
def test_a_longer_conversation_begins_with_the_same_ids(ids: list[str]) -> None:
    messages = [message for each in ids for message in turn(each)]
    shorter = with_unique_ids(Log(messages[:-2]))
    assert list(with_unique_ids(Log(messages)))[:-2] == list(shorter)


def test_usable_ids_stay_as_they_are() -> None:
    messages = Log([*turn("call_1"), *turn("functions.read_file:1")])
    assert with_unique_ids(messages) is messages


@pytest.mark.parametrize("key", ["calls", "gemini"])
def test_what_a_thought_says_of_a_call_follows_the_call(key: str) -> None:
    more: dict[str, Any] = {
        "calls": {"0": {"extra_content": {"signature": "S"}}},
        "gemini": [{"kind": "call", "id": "0"}],
    }
    thought = Thinking({"type": "reasoning_content", "thinking": "", key: more[key]})
    messages = Log([*turn("0"), assistant(thought, ToolCall("0", "read_file", {})), user(ToolResult("0", "x"))])
    reply = list(with_unique_ids(messages))[2]
    assert isinstance(reply.parts[0], Thinking)
    assert isinstance(reply.parts[1], ToolCall)
    assert reply.parts[1].id != "0"
    assert reply.parts[1].id in str(reply.parts[0].raw[key])


def test_a_repeated_id_is_renamed_in_the_reply_with_its_reason() -> None:
    reply = ModelReplied((ToolCall("read_file:0", "read_file", {}), ToolCall("read_file:0", "x", {})), "call", Usage())
    renamed, notes = with_own_ids(reply, turn("read_file:0"), 7)
    ids = [part.id for part in renamed.parts if isinstance(part, ToolCall)]
    assert ids == ["call_7_0", "call_7_1"]
    assert all("was used before" in note for note in notes)
    assert with_own_ids(renamed, turn("read_file:0"), 7) == (renamed, ())
