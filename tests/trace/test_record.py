"""Each line's digest covers all lines before it."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.errors import TraceError
from stackmem.core.facts import ClockRead, ToolReturned
from stackmem.trace.record import Record, read_line
from stackmem.trace.store import write_line

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=200)


def test_a_line_is_its_record_and_the_digest_of_all_before():
    line, digest = write_line(Record(3, 1.5, ClockRead(2.25)), "before")
    body = b'{"seq":3,"at":1.5,"event":{"type":"ClockRead","elapsed_seconds":2.25}}'
    assert digest == hashlib.sha256(b"before" + body).hexdigest()
    assert line == body[:-1] + f',"digest":"{digest}"}}\n'.encode()
    assert msgspec.json.decode(line)["digest"] == digest


@given(TEXTS, st.text(max_size=64).filter(str.isascii))
def test_a_record_round_trips(text, previous):
    record = Record(1, 0.0, ToolReturned(text, True, 7, {text: text}))
    line, digest = write_line(record, previous)
    assert line.count(b"\n") == 1
    assert read_line(line[:-1], previous, 1) == (record, digest)


@given(st.binary(max_size=300), st.integers(1, 9))
def test_no_bytes_at_all_raise_anything_but_a_trace_error(line, number):
    with pytest.raises(TraceError, match=f"line {number} "):
        read_line(line, "", number)


def chained(body: bytes) -> bytes:
    return body[:-1] + b',"digest":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]}",
        b'{"seq":1,"at":0,"event":{"type":"SomethingNew"}}',
        b'{"seq":1,"at":1e308,"event":{"type":"ClockRead","elapsed_seconds":2.25}}',
        b'{"seq":1,"at":-1e12,"event":{"type":"ClockRead","elapsed_seconds":2.25}}',
        b'{"seq":1,"at":0,"event":{"type":"ClockRead","elapsed_seconds":"soon"}}',
        b'{"seq":1,"at":0,"event":{"type":"ClockRead","elapsed_seconds":1e999}}',
        b'{"seq":1,"at":0,"event":{"type":"ToolReturned","text":"\xff"}}',
        b'{"seq":1,"at":0,"event":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    ],
)
def test_an_invalid_line_is_refused_with_its_number(body):
    with pytest.raises(TraceError, match=r"^line 1 is complete, but this version cannot read its record"):
        read_line(chained(body), "", 1)


def test_a_record_out_of_its_place_is_refused():
    line, _ = write_line(Record(2, 0.0, ClockRead(1.0)), "")
    with pytest.raises(TraceError, match="line 1 is record 2"):
        read_line(line[:-1], "", 1)
