"""Spans: the official proto package reads them, they link up, and a collector's refusal is reported."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from stackmem.core.errors import UsageError
from stackmem.core.facts import ContextCompacted, RunForked
from stackmem.formats.exports.otel import SPANS_PER_REQUEST, otel_with_content, requests
from stackmem.formats.exports.otlp import send
from stackmem.trace.record import Record
from tests.build import do, play, started
from tests.trace.stories import PLAYED, cut_short, exported, hostile, records, told

RUNS = {**{name: lambda name=name: told(name) for name in PLAYED}, "cut": cut_short, "hostile": hostile}


def received(body: str | bytes) -> ExportTraceServiceRequest:
    """Parse a body as a receiver does; OTLP writes ids in hex, proto's own JSON in base64."""
    request = json.loads(body)
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(request, ExportTraceServiceRequest(), ignore_unknown_fields=False)


def spans(text: str) -> list[Span]:
    found = [received(line) for line in text.splitlines()]
    return [span for one in found for span in one.resource_spans[0].scope_spans[0].spans]


def attributes(span: Span) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def named(found: list[Span], name: str) -> list[Span]:
    return [span for span in found if span.name == name]


@pytest.fixture(scope="module")
def family() -> list[Span]:
    return spans(exported("otel", told("family")))


@pytest.mark.parametrize("run", RUNS)
def test_the_official_package_reads_every_line(run):
    assert spans(exported("otel", RUNS[run]()))
    assert spans("".join(otel_with_content(RUNS[run](), "a-run")))


@pytest.mark.parametrize("run", RUNS)
def test_ids_are_unique_and_whole_and_every_parent_is_there(run):
    found = spans(exported("otel", RUNS[run]()))
    ids = {span.span_id for span in found}
    assert len(ids) == len(found)
    assert {len(span.span_id) for span in found} == {8}
    assert {len(span.trace_id) for span in found} == {16}
    assert len({span.trace_id for span in found}) == 1
    roots = [span for span in found if not span.parent_span_id]
    assert [span.name for span in roots] == ["invoke_agent root"]
    assert {span.parent_span_id for span in found if span.parent_span_id} <= ids


@pytest.mark.parametrize("run", RUNS)
def test_a_span_is_within_its_parent(run):
    found = spans(exported("otel", RUNS[run]()))
    by_id = {span.span_id: span for span in found}
    for span in found:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= parent.end_time_unix_nano


def test_a_frame_hangs_on_the_call_that_pushed_it(family):
    (inner,) = named(family, "invoke_agent inner")
    push = next(span for span in family if span.span_id == inner.parent_span_id)
    assert push.name == "execute_tool push_frame"
    (outer,) = named(family, "invoke_agent outer")
    assert push.parent_span_id == outer.span_id
    assert attributes(inner)["stackmem.frame.depth"] == 2


def test_a_reply_is_a_chat_with_its_whole_prompt_counted(family):
    chats = [span for span in named(family, "chat claude-made-up") if not span.status.code]
    assert len(chats) == 12
    assert {span.kind for span in chats} == {Span.SPAN_KIND_CLIENT}
    given = attributes(chats[0])
    assert given["gen_ai.provider.name"] == "anthropic"
    assert given["gen_ai.usage.input_tokens"] == 100
    assert given["stackmem.usd"] == pytest.approx(0.00014)


def test_a_summary_is_a_chat_that_says_so():
    found = [attributes(span) for span in named(spans(exported("otel", told("compacted"))), "chat script")]
    flags = [given.get("gen_ai.conversation.compacted") for given in found]
    assert flags.count(True) == sum(isinstance(one.event, ContextCompacted) for one in told("compacted")) > 0
    assert flags.count(None) == len(found) - flags.count(True)


def test_a_failed_attempt_is_a_chat_in_error(family):
    (failed,) = [span for span in named(family, "chat claude-made-up") if span.status.code]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert attributes(failed)["error.type"] == "overloaded"


def test_heap_calls_are_memory_spans_that_name_their_chunk(family):
    found = [(span.name, attributes(span)["gen_ai.memory.record.id"]) for span in family if "memory" in span.name]
    assert found == [
        ("create_memory", "spec"), ("search_memory", "spec"), ("upsert_memory", "found"), ("update_memory", "spec"),
        ("delete_memory", "plan"), ("upsert_memory", "plan"),
    ]  # fmt: skip


def test_a_forks_heap_additions_and_removals_are_exported():
    whole = told("family")[:4]
    start = whole[0].event
    fork = RunForked("p", 4, "d", start, dropped=("spec",))
    found = spans(exported("otel", [*whole, Record(5, whole[-1].at, fork)]))
    assert attributes(named(found, "delete_memory")[0])["gen_ai.memory.record.id"] == "spec"


def test_the_verdict_is_an_event_of_the_root(family):
    (root,) = named(family, "invoke_agent root")
    (verdict,) = root.events
    assert verdict.name == "gen_ai.evaluation.result"
    assert {pair.key for pair in verdict.attributes} >= {"gen_ai.evaluation.name", "gen_ai.evaluation.score.value"}


def test_message_texts_are_left_out_unless_requested():
    assert "first this" not in exported("otel", told("family"))
    assert "Do the part." not in exported("otel", told("family"))
    full = "".join(otel_with_content(told("family"), "a-run"))
    assert "first this" in full
    assert json.loads(attributes(spans(full)[0])["gen_ai.output.messages"])[0]["finish_reason"] == "tool_call"


def test_other_runs_have_other_ids_and_the_same_run_the_same():
    one, other = (spans(exported("otel", told("family"), run)) for run in ("one", "other"))
    assert not {span.span_id for span in one} & {span.span_id for span in other}


class Collector(ThreadingHTTPServer):
    """Answers like a collector and stores its requests."""

    def __init__(self, status: int = 200, answer: bytes = b"{}") -> None:
        super().__init__(("127.0.0.1", 0), Receive)
        self.status, self.answer = status, answer
        self.got: list[tuple[str, str, ExportTraceServiceRequest]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Receive(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Collector)
        server.got.append((self.path, self.headers["Content-Type"], received(body)))
        self.send_response(server.status)
        self.send_header("Location", "http://192.0.2.1/")
        self.send_header("Content-Length", str(len(server.answer)))
        self.end_headers()
        self.wfile.write(server.answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_collector_built_from_the_official_package_takes_it(collector):
    assert send(requests(told("family"), "a-run"), collector.url) == len(spans(exported("otel", told("family"))))
    ((path, kind, request),) = collector.got
    assert (path, kind) == ("/v1/traces", "application/json")
    resource = {pair.key: pair.value.string_value for pair in request.resource_spans[0].resource.attributes}
    assert resource["service.name"] == "stackmem"


class TakesProtobuf(Receive):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Collector)
        if self.headers["Content-Type"] == "application/json":
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(415)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
        server.got.append((self.path, self.headers["Content-Type"], request))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_collector_that_takes_no_json_is_sent_the_same_in_protobuf(collector):
    send(requests(told("family"), "a-run"), collector.url)
    collector.RequestHandlerClass = TakesProtobuf
    send(requests(told("family"), "a-run"), collector.url)
    (_, _, in_json), (_, kind, in_protobuf) = collector.got
    assert kind == "application/x-protobuf"
    assert in_protobuf == in_json


def test_a_path_of_the_address_is_used_as_it_is(collector):
    send(requests(told("family"), "a-run"), collector.url + "/otlp/in?tenant=1")
    assert collector.got[0][0] == "/otlp/in?tenant=1"


def test_a_long_run_is_sent_in_parts(collector):
    long = records(play(*(do("list_files") for _ in range(600)), start=started(limits=started().limits)).events)
    many = [*long, *(Record(len(long) + at, 5e9, one.event) for at, one in enumerate(long[1:], 1))] * 3
    middle = [one for one in many if type(one.event).__name__ not in ("RunStarted", "RunEnded")]
    steps = [many[0], *(Record(seq, 5e9, one.event) for seq, one in enumerate(middle, 2))]
    sent = send(requests(steps, "r"), collector.url)
    sizes = [len(request.resource_spans[0].scope_spans[0].spans) for _, _, request in collector.got]
    assert sum(sizes) == sent > SPANS_PER_REQUEST == sizes[0]


@pytest.mark.parametrize("status", [200, 202, 299])
def test_any_success_is_one(collector, status):
    collector.status = status
    assert send(requests(told("family"), "r"), collector.url)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_collector_is_to_be_asked_later(collector, status):
    collector.status = status
    with pytest.raises(UsageError, match=rf"answered {status}: it takes no more spans now; export again later"):
        send(requests(told("family"), "r"), collector.url)


@pytest.mark.parametrize("page", [b"<html><title>Log in</title></html>", b"\n<!DOCTYPE html>"])
def test_a_web_page_is_not_a_collector(collector, page):
    collector.answer = page
    with pytest.raises(UsageError, match="answered with a web page"):
        send(requests(told("family"), "r"), collector.url)


@pytest.mark.parametrize("status", [302, 400, 404])
def test_any_other_answer_is_one_sentence(collector, status):
    collector.status, collector.answer = status, b"no\x1b[31m\nroom"
    with pytest.raises(UsageError, match=rf"answered {status} \(no"):
        send(requests(told("family"), "r"), collector.url)


def test_spans_rejected_by_the_collector_are_reported(collector):
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 3
    answer.partial_success.error_message = "too old"
    collector.answer = json_format.MessageToJson(answer).encode()
    with pytest.raises(UsageError, match=r"rejected spans: 3 \(too old\)"):
        send(requests(told("family"), "r"), collector.url)


@pytest.mark.parametrize("answer", [b"", b"null", b"[]", b"\xff", b'{"partialSuccess":{}}', b'{"partialSuccess":[]}'])
def test_an_answer_that_rejects_nothing_is_a_success(collector, answer):
    collector.answer = answer
    assert send(requests(told("family"), "r"), collector.url)


@pytest.mark.parametrize(
    "url",
    ["", "collector:4318", "ftp://127.0.0.1", "http://", "http://[::1", "http://h:port", "http://u:p@h", "http://h\n"],
)
def test_an_invalid_address_is_refused_before_anything_is_read(url):
    with pytest.raises(UsageError, match="is not the address of a collector"):
        send(iter(()), url)


def test_a_missing_collector_is_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UsageError, match=rf"no answer from a collector at http://127\.0\.0\.1:{port} "):
        send(requests(told("family"), "r"), f"http://127.0.0.1:{port}")
