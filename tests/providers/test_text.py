"""Text, JSON and event streams as hostile servers send them."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.text import whole
from stackmem.providers.event_stream import server_events
from stackmem.providers.failures import one_line
from stackmem.providers.json_text import parse_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(JSON)
def test_json_is_parsed_to_the_value_it_spells(value: object) -> None:
    assert parse_arguments(json.dumps(value)) == (value, None)


@given(ANY_TEXT)
def test_whatever_a_model_writes_as_arguments_can_be_stored(text: str) -> None:
    assert msgspec.json.encode(parse_arguments(text))


@given(st.text())
def test_whole_text_stays_as_it_is(text: str) -> None:
    assert whole(text) == text


@given(ANY_TEXT)
def test_any_text_can_be_written_as_utf8_once_it_is_whole(text: str) -> None:
    assert whole(text).encode().decode() == whole(text)


@pytest.mark.parametrize("text", ["[" * 66 + "]" * 66, '{"a":' * 100 + "1" + "}" * 100, "9" * 5_000, "Infinity"])
def test_json_that_could_not_be_stored_is_malformed(text: str) -> None:
    assert parse_arguments(text) == (None, text)


@given(st.text(min_size=1), st.integers(1, 50))
def test_a_detail_is_one_line_without_the_key_however_long(text: str, times: int) -> None:
    line = one_line(f"{text} sk-secret " * times, "sk-secret")
    assert len(line) <= 500
    assert "sk-secret" not in line
    assert line == "" or line.isprintable()


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\n")), max_size=8), st.data())
def test_events_are_the_same_however_their_bytes_are_cut(texts: list[str], data: st.DataObject) -> None:
    stream = b": ping\n\n" + b"".join(f"event: x\r\ndata: {text}\r\n\r\n".encode() for text in texts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert list(server_events(chunks, deadline=1, clock=lambda: 0)) == texts


def test_an_event_without_its_blank_line_is_ignored() -> None:
    assert list(server_events([b"data: one\n\ndata: two\n"], 1, lambda: 0)) == ["one"]


def test_a_stream_over_the_limit_of_size_is_given_up() -> None:
    with pytest.raises(ValueError, match="longer than 1 MiB"):
        list(server_events([b"x" * 600_000] * 2, 1, lambda: 0, most_bytes=1024 * 1024))


def test_a_stream_over_its_time_is_given_up() -> None:
    clock = iter([0.5, 1.5])
    with pytest.raises(TimeoutError):
        list(server_events([b"data: x\n\n"] * 2, 1, lambda: next(clock)))


def test_a_long_event_in_small_pieces_takes_no_quadratic_time() -> None:
    pieces = [b"data: ", *[b"x" * 64] * 100_000, b"\n\n"]
    (event,) = server_events(pieces, 1, lambda: 0)
    assert len(event) == 6_400_000
