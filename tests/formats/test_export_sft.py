"""Training samples: one per frame, and the spans contain exactly what the model wrote."""

import json

import pytest

from stackmem.core.facts import ModelReplied
from stackmem.core.messages import Text, ToolCall
from tests.trace.stories import PLAYED, cut_short, exported, hostile, told

RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


def samples(run):
    return [json.loads(line) for line in exported("sft", run).splitlines()]


def written(sample):
    """Map each step to the text that the spans mark as written by the model."""
    return {span["step"]: sample["text"][span["start"] : span["end"]] for span in sample["spans"]}


@pytest.mark.parametrize("run", RUNS)
def test_the_spans_hold_every_reply_once_and_to_the_letter(run):
    told = RUNS[run]()
    replies = [record.event for record in told if isinstance(record.event, ModelReplied)]
    found = {}
    for sample in samples(told):
        again = written(sample)
        assert all(found[step] == again[step] for step in found.keys() & again.keys())
        found |= again
    once = [span["step"] for sample in samples(told) for span in sample["spans"] if not span["elsewhere"]]
    assert sorted(once) == sorted(found) == list(range(1, len(replies) + 1))
    for step, reply in enumerate(replies, 1):
        for part in reply.parts:
            if isinstance(part, Text) and part.text.strip():
                assert part.text in found[step]
            if isinstance(part, ToolCall):
                assert f'"name":{json.dumps(part.name, ensure_ascii=False)}' in found[step]


@pytest.mark.parametrize("run", RUNS)
def test_nothing_outside_the_spans_is_the_models(run):
    for sample in samples(RUNS[run]()):
        at, outside = 0, []
        for span in sample["spans"]:
            assert at <= span["start"] <= span["end"]
            outside.append(sample["text"][at : span["start"]])
            at = span["end"]
        assert "<|assistant|>\n" in outside[0]
        assert all("<|call|>" not in text for text in outside)


def test_a_sample_is_a_frame_in_the_order_of_their_ends():
    found = samples(told("family"))
    assert [sample["frame"]["name"] for sample in found] == ["inner", "outer", "root"]
    assert [sample["ending"] for sample in found] == ["popped"] * 3
    assert found[0]["verified"] == "exit 0"
    assert {sample["outcome"] for sample in found} == {"solved"}
    assert found[0]["rewards"] == {"reward": 1.0}


def test_a_child_holds_nothing_of_its_parents_conversation():
    inner, outer, _ = samples(told("family"))
    assert "R0 INTENT: Go on." in inner["text"]
    assert "heap 'spec', 5 characters" in outer["text"]
    assert "heap 'spec', 5 characters" not in inner["text"]


def test_refused_replies_are_marked():
    inner = samples(told("family"))[0]
    assert [span["refused"] for span in inner["spans"]] == [True, False, False]


def test_a_frame_that_the_harness_ended_or_a_crash_left_open_says_so():
    assert {sample["ending"] for sample in samples(told("mishaps"))} >= {"forced:constraint"}
    assert samples(cut_short())[0]["ending"] == "open"


def test_the_messages_are_a_chat_that_ends_with_the_reply():
    for sample in samples(told("family")):
        roles = [message["role"] for message in sample["messages"]]
        assert roles[:2] == ["system", "user"]
        assert roles[-1] == "assistant"
        calls = [call["id"] for message in sample["messages"] for call in message.get("tool_calls", [])]
        answers = [message["tool_call_id"] for message in sample["messages"] if message["role"] == "tool"]
        assert answers == calls[: len(answers)]


def test_the_conversation_before_a_summary_is_a_separate_sample():
    found = samples(told("compacted"))
    assert [sample["ending"] for sample in found[:-1]] == ["cut"] * (len(found) - 1)
    assert found[-1]["ending"] == "popped"
    assert len({sample["id"] for sample in found}) == len(found) > 2
    assert "It is a long file." in found[-1]["text"]
    assert "It is a long file." not in found[0]["text"]


def test_a_branch_holds_its_parents_conversation_and_marks_what_is_not_its_own():
    inner, outer, root = samples(told("folded"))
    assert [span["elsewhere"] for span in inner["spans"]] == [True, True, True, False, False]
    assert [span["elsewhere"] for span in root["spans"]] == [False, False]
    assert outer["frame"]["name"] == "b"
