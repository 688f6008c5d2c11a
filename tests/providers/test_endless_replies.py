"""A reply that endlessly repeats one piece is cut; long text without repetition is not."""

import json
from collections.abc import Iterator

import pytest

from stackmem.providers.openai_stream import read_chat


def stream(pieces: Iterator[str], taken: list[int], field: str = "content") -> Iterator[str]:
    for number, piece in enumerate(pieces):
        taken.append(number)
        call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "write_file", "arguments": piece}}]}
        yield json.dumps({"choices": [{"index": 0, "delta": {"content": piece} if field == "content" else call}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


@pytest.mark.parametrize("field", ["content", "arguments"])
@pytest.mark.parametrize("piece", ["\n", "and so on ", "def f():\n    return 1\n\n"])
def test_a_reply_that_repeats_itself_is_cut_and_counts_as_truncated(piece: str, field: str):
    taken: list[int] = []
    reply = read_chat(stream((piece for _ in range(100_000)), taken, field), 1)
    assert reply.stop == "truncated"
    assert len(taken) < 6_000


def test_long_text_that_does_not_repeat_is_read_to_its_end():
    taken: list[int] = []
    reply = read_chat(stream((f"line {number} of the file\n" for number in range(20_000)), taken), 1)
    assert reply.stop == "end"
    assert len(taken) == 20_000


def test_a_line_of_a_few_thousand_characters_is_not_endless():
    taken: list[int] = []
    reply = read_chat(stream(iter(["#" * 3_900, *(f"{number} x\n" for number in range(200))]), taken), 1)
    assert reply.stop == "end"
