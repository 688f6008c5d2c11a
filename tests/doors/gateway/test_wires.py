"""Bodies that no client sends are read or raise ``ValueError``, which the gateway treats as "not read"."""

import json

import pytest

from stackmem.doors.gateway.wires.chat import CHAT
from stackmem.doors.gateway.wires.gemini import GEMINI
from stackmem.doors.gateway.wires.messages import MESSAGES
from stackmem.doors.gateway.wires.responses import RESPONSES
from stackmem.providers.event_stream import server_events


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES, GEMINI], ids=lambda wire: wire.name)
@pytest.mark.parametrize("odd", [["a"], {"a": []}, None, 7])
def test_a_role_or_type_that_is_not_text_does_not_crash(wire, odd):
    bodies = (
        {wire.field: [{"role": odd, "content": "Mend it."}]},
        {wire.field: [{"role": "user", "content": "Mend it."}], "response_format": {"type": odd}},
        {wire.field: [{"role": "user", "content": "Mend it."}], "text": {"format": {"type": odd}}},
    )
    for body in bodies:
        try:
            asked = wire.read(json.dumps(body).encode())
        except ValueError:
            continue
        for raw in asked.raw:
            assert wire.shortened(raw, lambda result: result) == raw


def events(*values):
    return list(server_events([b"".join(b"data: %s\n\n" % json.dumps(value).encode() for value in values)], 1e9))


@pytest.mark.parametrize("wire", [CHAT, MESSAGES, RESPONSES, GEMINI], ids=lambda wire: wire.name)
def test_an_answer_of_odd_values_is_a_reply_or_a_failure(wire):
    for value in (None, 7, [], {}, {"type": []}, {"choices": [None]}, {"choices": 7}, {"response": 7}):
        assert wire.reply(events(value)) is not None


def test_a_task_for_a_sub_agent_of_codex_is_a_text_of_the_user():
    item = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": [
        {"type": "input_text", "text": "Message Type: NEW_TASK"},
        {"type": "encrypted_content", "encrypted_content": "gAAAAB of the call"},
    ]}  # fmt: skip
    (message,) = RESPONSES.read(json.dumps({"model": "m", "input": [item]}).encode()).messages
    assert (message.role, [part.text for part in message.parts]) == (
        "user", ["Message Type: NEW_TASK", "gAAAAB of the call"])  # fmt: skip
    assert len(message.identity) == 2
