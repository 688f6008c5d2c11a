"""Compressed requests and answers are forwarded as they came, and read, counted and cut like plain ones."""

import base64
import gzip
import json
import resource
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from stackmem.core.facts import ModelReplied
from stackmem.doors.gateway.codings import decoded
from stackmem.doors.gateway.exchanges import AnswerPassed, RequestPassed, read_exchanges
from stackmem.run.run_folder import EXCHANGES
from tests.doors.gateway.test_proxy import DONE, HEADERS, gateway, only_run
from tests.doors.gateway.upstream import (
    CLIENT,
    RawAnswer,
    RawUpstream,
    assistant,
    message_events,
    request,
    result,
    text,
    use,
    user,
)

CODERS = {
    "gzip": partial(gzip.compress, mtime=0), "deflate": zlib.compress, "br": brotli.compress,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda plain: zstandard.compress(gzip.compress(plain, mtime=0)),
}  # fmt: skip
MIB = 1 << 20


def post(served: Any, coding: str, body: bytes, path: str = "/v1/messages") -> Any:
    headers = {**HEADERS, "content-type": "application/json", "content-encoding": coding}
    return CLIENT.post(f"{served.url}{path}", content=CODERS[coding](body), headers=headers, timeout=60)


def asked(runs: Path) -> list[RequestPassed]:
    return [one for one in read_exchanges(only_run(runs) / EXCHANGES) if isinstance(one, RequestPassed)]


@pytest.mark.parametrize("coding", CODERS)
def test_a_compressed_request_is_forwarded_as_it_came_and_recorded(tmp_path, coding):
    body = request(user("Mend it."))
    with RawUpstream(DONE) as upstream, gateway(upstream, tmp_path, max_usd=1.0) as served:
        assert post(served, coding, body).content == b"".join(DONE.pieces)
        _, headers, came = upstream.seen[0]
        assert served.gateway.notes == []
    assert (came, headers["content-encoding"]) == (CODERS[coding](body), coding)
    (one,) = asked(tmp_path)
    assert (one.body_sha256, one.body_bytes) == (one.sent_sha256, len(body))


@pytest.mark.parametrize("coding", CODERS)
def test_a_strategy_cuts_a_compressed_request(tmp_path, coding):
    told = [user("Mend it.")]
    for number in range(4):
        told += [assistant(use("run", f"c{number}", n=number)), user(result(f"c{number}", "x" * 900))]
    with RawUpstream(DONE, RawAnswer((b"{}",))) as upstream:
        with gateway(upstream, tmp_path, strategy="mask:1,poll=1") as served:
            post(served, coding, request(*told))
            post(served, coding, request(*told), "/v1/messages/count_tokens")
        sent = [(headers.get("content-encoding"), body) for _, headers, body in upstream.seen]
    assert [coding for coding, _ in sent] == [None, None]
    assert ["masked" in json.loads(body)["messages"][2]["content"][0]["content"] for _, body in sent] == [True, True]


@pytest.mark.parametrize("coding", CODERS)
def test_money_that_is_spent_refuses_a_compressed_request(tmp_path, coding):
    with RawUpstream(answer=lambda _: DONE) as upstream, gateway(upstream, tmp_path, max_usd=0.00001) as served:
        answers = [post(served, coding, request(user(words))).status_code for words in ("Hi", "More")]
    assert (answers, len(upstream.seen)) == ([200, 400], 1)


@pytest.mark.parametrize(("bound", "status"), [({"max_usd": 1.0}, 400), ({}, 200)])
@pytest.mark.parametrize("coding", ["rot13", "zstd", "gzip, gzip, gzip, gzip, gzip"])
def test_a_coding_that_cannot_be_read_is_refused_under_a_bound_and_forwarded_else(tmp_path, bound, status, coding):
    headers = {**HEADERS, "content-encoding": coding}
    with RawUpstream(answer=lambda _: DONE) as upstream, gateway(upstream, tmp_path, **bound) as served:
        answer = CLIENT.post(f"{served.url}/v1/messages", content=b"not compressed", headers=headers)
        assert "the request is" in served.gateway.notes[0]
    assert (answer.status_code, len(upstream.seen)) == (status, int(status == 200))


def test_a_request_that_grows_without_end_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("stackmem.doors.gateway.ledger._MAX_READ_REQUEST", MIB)
    body = request(user("x" * 2 * MIB))
    with RawUpstream() as upstream, gateway(upstream, tmp_path, max_usd=1.0) as served:
        answers = [post(served, coding, body).status_code for coding in CODERS]
        assert {note.partition(";")[0] for note in served.gateway.notes} >= {
            "a request cannot be read: the request is longer than 1 MiB"
        }
    assert (set(answers), upstream.seen) == ({400}, [])


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_an_answer_in_a_newer_coding_is_read(tmp_path, coding):
    packed = CODERS[coding](b"".join(message_events(text("Done."))))
    coded = RawAnswer((packed,), headers=(("content-encoding", coding), ("content-type", "text/event-stream")))
    with RawUpstream(coded) as upstream, gateway(upstream, tmp_path) as served:
        url = f"{served.url}/v1/messages"
        given = HEADERS | {"accept-encoding": "gzip, br, zstd, other"}
        with CLIENT.stream("POST", url, content=request(user("Hi")), headers=given) as answer:
            assert b"".join(answer.iter_raw()) == packed
        assert upstream.seen[0][1]["accept-encoding"] == "gzip, br, zstd"
    (answered,) = [one for one in read_exchanges(only_run(tmp_path) / EXCHANGES) if isinstance(one, AnswerPassed)]
    assert isinstance(answered.reply, ModelReplied)


def test_deflate_without_its_header_and_several_frames_are_read():
    coder = zlib.compressobj(wbits=-15)
    assert decoded(coder.compress(b"plain") + coder.flush(), "deflate", MIB, "it") == b"plain"
    assert decoded(zstandard.compress(b"a") + zstandard.compress(b"b"), "ZSTD", MIB, "it") == b"ab"


@pytest.mark.parametrize("coding", CODERS)
def test_the_beginning_of_a_body_gives_its_beginning_or_nothing(coding):
    plain = b"some text " * 5_000
    packed = CODERS[coding](plain)
    for end in range(0, len(packed), max(1, len(packed) // 20)):
        assert plain.startswith(decoded(packed[:end], coding, MIB, "it"))


BOMB = base64.b64decode(
    "KLUv/SBEDQIAAkQOGMBrDiB+UCZ2tD2q6v/2GlzSoClVblbKFK6S2G7HDjBYL9u+CFH1qG3RuUl513Yx05TGBo0nSyAkAQAQzC8="
)
"""74 bytes of zstd, three times compressed: 10 GiB of zeros."""


@pytest.mark.parametrize("bound", [{"max_usd": 1.0}, {}])
def test_ten_gibibytes_in_74_bytes_are_not_unpacked(tmp_path, bound):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with RawUpstream(answer=lambda _: DONE) as upstream, gateway(upstream, tmp_path, **bound) as served:
        headers = {**HEADERS, "content-encoding": "zstd, zstd, zstd"}
        answer = CLIENT.post(f"{served.url}/v1/messages", content=BOMB, headers=headers, timeout=60)
        assert "the request is longer than 64 MiB" in served.gateway.notes[0]
    assert (answer.status_code, len(upstream.seen)) == ((400, 0) if bound else (200, 1))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10  # KiB
