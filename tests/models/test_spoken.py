"""A reply's words are announced as they stream, in any protocol, and the reply stays the same."""

import json

import pytest

from stackmem.core.messages import Text
from stackmem.models.spoken import listening, overheard, progress_of, watching, words_of
from stackmem.providers.anthropic_stream import read_reply
from stackmem.providers.openai_stream import read_chat

MESSAGES = [
    {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "day"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
CHAT = [
    {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Good "}}]},
    {"id": "c", "choices": [{"index": 0, "delta": {"content": "day"}}]},
    {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
RESPONSES = [
    {"type": "response.output_text.delta", "delta": "Good "},
    {"type": "response.output_text.delta", "delta": "day"},
    {"type": "response.function_call_arguments.delta", "delta": "{}"},
]


@pytest.mark.parametrize("events", [MESSAGES, CHAT, RESPONSES], ids=["messages", "chat", "responses"])
def test_words_are_announced_piece_by_piece_and_every_event_passes(events):
    heard: list[str] = []
    texts = [json.dumps(event) for event in events]
    with listening(heard.append):
        passed = list(overheard(texts))
    assert passed == texts
    assert heard == ["Good ", "day"]
    assert list(overheard(texts)) == texts  # the listener is gone
    assert heard == ["Good ", "day"]


def test_the_reply_is_the_same_whether_somebody_listens_or_not():
    messages, chat = ([json.dumps(event) for event in events] for events in (MESSAGES, CHAT))
    with listening(str):
        assert read_reply(overheard(messages)) == read_reply(messages)
        assert read_chat(overheard(chat), 0) == read_chat(chat, 0)
        assert read_chat(overheard(chat), 0).parts == (Text("Good day"),)


@pytest.mark.parametrize(
    "event",
    ["", "[DONE]", '"delta"', '{"delta": 1}', '{"delta": {"text": 1}}', '{"delta": null, "choices": []}',
     '{"choices": [{"delta": null}]}', '{"choices": {"delta": 1}}', '["delta"]', "[" * 100_000 + '"delta"'],
)  # fmt: skip
def test_other_events_announce_no_words_without_an_error(event):
    assert words_of(event) == ""


def test_the_progress_of_reading_a_prompt_is_told_and_no_words_are_made_of_it():
    shown: list[tuple[int, int]] = []
    heard: list[str] = []
    texts = [
        json.dumps({"choices": [{"delta": {"content": None}}], "prompt_progress": {"processed": read, "total": 31}})
        for read in (5, 31)
    ]
    with watching(lambda read, total: shown.append((read, total))), listening(heard.append):
        assert list(overheard([*texts, *map(json.dumps, CHAT)])) == [*texts, *map(json.dumps, CHAT)]
    assert shown == [(5, 31), (31, 31)]
    assert heard == ["Good ", "day"]
    assert read_chat([*texts, *map(json.dumps, CHAT)], 1).parts == (Text("Good day"),)


@pytest.mark.parametrize(
    "progress",
    [None, 7, {}, {"processed": "5", "total": 31}, {"processed": 40, "total": 31}, {"processed": True, "total": 1}],
)
def test_progress_that_makes_no_sense_is_not_told(progress):
    assert progress_of(json.dumps({"prompt_progress": progress})) is None
