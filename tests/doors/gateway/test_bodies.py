"""Reading a body continues after a recent similar one, with the same result as reading it alone."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.messages import Text
from stackmem.doors.gateway.wires import bodies as module
from stackmem.doors.gateway.wires.bodies import ReadBodies
from stackmem.doors.gateway.wires.wire import ForeignMessage, message


class Counted:
    """Converts a message to a text of all its bytes, and counts the calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, raw: bytes) -> ForeignMessage:
        self.count += 1
        return message("user", [Text(raw.decode())])


def spelled(told: list[Any], dice: Random, *, after: str = "") -> bytes:
    """Return a body with fields and blanks in any order."""
    blank = dice.choice(["", " ", "\n\t "])
    listed = f"[{blank}" + f"{blank},{blank}".join(json.dumps(one) for one in told) + f"{blank}]"
    return f'{{"model": "m",{blank}"messages" :{blank}{listed}{blank}{after}}}'.encode()


TOLD = st.lists(st.sampled_from(["", "a", "],", '"messages":[]', "é", "]}"]).map(lambda word: {"w": word}), max_size=8)


@given(st.lists(TOLD, min_size=1, max_size=6), st.integers(0, 10), st.sampled_from(["", ', "x": [1]', ', "tools": []']))
def test_reading_next_to_a_recent_body_equals_reading_alone(conversations, seed, after):
    many, dice = ReadBodies("messages", Counted()), Random(seed)
    for told in conversations:
        for length in range(len(told) + 1):
            body = spelled(told[:length], dice, after=after)
            found, alone = many.read(body), ReadBodies("messages", Counted()).read(body)
            assert (found.raw, found.messages, found.span, found.ends) == (
                alone.raw, alone.messages, alone.span, alone.ends
            )  # fmt: skip
            assert (found.fields.model, found.fields.tools) == (alone.fields.model, alone.fields.tools)
            if found.span is not None:
                assert json.loads(body[: found.span[0]] + body[found.span[1] :])["messages"] == []


def test_a_turn_reads_what_is_new_also_where_the_last_message_changed_its_form():
    read = Counted()
    bodies, dice = ReadBodies("messages", read), Random(0)
    told: list[Any] = [{"n": number} for number in range(100)]
    bodies.read(spelled(told, dice, after=', "tools": []'))
    before = read.count
    found = bodies.read(spelled([*told[:-1], {"n": 99, "marked": False}, {"n": 100}], dice, after=', "tools": [1]'))
    assert (read.count - before, len(found.messages), bytes(found.fields.tools)) in [(2, 101, b"[1]")]


class Weighed:
    """A JSON decoder that counts the bytes it decodes."""

    def __init__(self, decoder: Any) -> None:
        self._decoder, self.decoded = decoder, 0

    def decode(self, raw: bytes) -> Any:
        self.decoded += len(raw)
        return self._decoder.decode(raw)


@pytest.mark.parametrize("turns", [10, 1_000])
def test_content_of_a_recent_body_is_compared_instead_of_decoded_again(monkeypatch, turns):
    fields, items = Weighed(module._body), Weighed(module._items)
    monkeypatch.setattr(module, "_body", fields)
    monkeypatch.setattr(module, "_items", items)
    bodies, told = ReadBodies("messages", Counted()), [{"n": number, "text": "x" * 100} for number in range(turns)]
    bodies.read(json.dumps({"model": "m", "messages": told}).encode())
    before = fields.decoded + items.decoded
    body = json.dumps({"model": "m", "messages": [*told, {"n": -1, "text": "y" * 100}, {"n": -2}]}).encode()
    assert len(bodies.read(body).messages) == turns + 2
    assert fields.decoded + items.decoded - before < 500


def test_two_conversations_that_begin_alike_are_both_remembered():
    read, bodies = Counted(), ReadBodies("messages", Counted())
    bodies = ReadBodies("messages", read)
    both = [[{"task": "same"}, *({"who": who, "n": number} for number in range(50))] for who in ("a", "b")]
    for told in both:
        bodies.read(json.dumps({"model": "m", "messages": told}).encode())
    before, kept = read.count, [one.read.raw for one in bodies._recent]
    for told in both:
        bodies.read(json.dumps({"model": "m", "messages": [*told, {"n": 51}]}).encode())
    assert read.count - before <= 2
    assert len(kept) == 2


def test_several_gateways_of_a_process_read_at_once():
    """A gateway continues from a body that another one has just continued from: both read the right content."""

    def slow(raw: bytes) -> ForeignMessage:
        time.sleep(0.001)
        return message("user", [Text(raw.decode())])

    bodies = ReadBodies("messages", slow)

    def body(*told: dict[str, int]) -> bytes:
        return json.dumps({"model": "m", "messages": [{"n": 1}, *told]}).encode()

    with ThreadPoolExecutor(4) as pool:
        for turn in range(10):
            bodies.read(body({"turn": turn}))
            answers = [body({"turn": turn}, {"who": who}, {"turn": turn, "of": who}) for who in range(4)]
            assert [len(found.raw) for found in pool.map(bodies.read, answers)] == [4] * 4


@pytest.mark.parametrize(
    "body", [b'{"messages":[{"a":1},{"a":2}', b'{"messages":[{"a":1},{"a":2}]', b'{"messages":[{"a":1},2 3]}', b"[]"]
)
def test_invalid_json_is_refused_next_to_a_recent_body_too(body):
    bodies = ReadBodies("messages", Counted())
    bodies.read(b'{"messages":[{"a":1},{"a":2}]}')
    with pytest.raises(ValueError, match=r"."):
        bodies.read(body)


def test_the_last_of_duplicate_fields_is_read():
    bodies = ReadBodies("messages", Counted())
    bodies.read(b'{"messages":[{"a":1}]}')
    for body in (
        b'{"messages":[{"a":1},{"a":2}],"messages":[{"b":3}]}',
        b'{"messages":[{"a":1}],"messages":[{"b":3}]}',
    ):
        assert bodies.read(body).raw == (b'{"b":3}',)
