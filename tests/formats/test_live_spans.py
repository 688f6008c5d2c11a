"""Spans sent during a run: to a collector that accepts them, to one that hangs, and to a missing one."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from stackmem import UsageError
from stackmem.formats.exports.live_spans import PROTOCOL, LiveSpans
from stackmem.formats.exports.otel import requests
from stackmem.trace.lineage import RunReader
from tests.stage import Stage, call, command, pop, push

Json = dict[str, Any]
WORK = (
    call("heap_alloc", name="spec", content="Do the part.", description="the task"),
    push(),
    call("heap_read", name="spec"),
    command("echo done > done.txt"),
    pop(),
    call("heap_free", name="spec"),
    pop(),
)


class Collector(ThreadingHTTPServer):
    """Accepts spans in either spelling; calls ``meanwhile`` with each request before answering it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receive)
        self.kinds: set[str] = set()
        self.spans: list[Json] = []
        self.meanwhile: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Receive(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Collector)
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.headers["content-type"]
        server.kinds.add(f"{self.path} {kind}")
        server.spans += spans_of(json.loads(body) if kind == "application/json" else from_protobuf(body))
        server.meanwhile()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def from_protobuf(body: bytes) -> Json:
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    spelled: Json = json_format.MessageToDict(request, use_integers_for_enums=True)
    return spelled


def spans_of(request: Json) -> list[Json]:
    return [span for kind in request["resourceSpans"] for scope in kind["scopeSpans"] for span in scope["spans"]]


def hexed(span: Json) -> str:
    """Return the span with its id in hex; JSON has that already, protobuf's own JSON uses base64."""
    identity = str(span["spanId"])
    if len(identity) == 16:
        return identity
    from base64 import b64decode

    return b64decode(identity).hex()


def attributes(span: Json) -> Json:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.mark.parametrize("protocol", ["", "http/json"])
def test_live_spans_equal_the_later_export(
    protocol: str, stage: Stage, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROTOCOL, protocol)
    solved = stage.solve(stage.task(*WORK), otel=collector.url)
    assert (solved.outcome, solved.steps) == ("solved", len(WORK))
    told = [span for one in requests(RunReader(Path(solved.run_dir)), solved.run) for span in spans_of(one)]
    assert sorted(map(hexed, collector.spans)) == sorted(span["spanId"] for span in told)
    assert collector.kinds == {f"/v1/traces application/{'json' if protocol else 'x-protobuf'}"}
    kinds = {str(attributes(span)["gen_ai.operation.name"]) for span in collector.spans}
    assert {"chat", "execute_tool", "invoke_agent", "create_memory", "delete_memory"} <= kinds
    chats = [attributes(span) for span in collector.spans if span["name"].startswith("chat ")]
    assert all(int(chat["gen_ai.usage.input_tokens"]) > 0 for chat in chats)
    (root,) = [span for span in collector.spans if "parentSpanId" not in span]
    assert (root["name"], root["events"][0]["name"]) == ("invoke_agent root", "gen_ai.evaluation.result")


def records_of(stage: Stage) -> tuple[Path, list[Any]]:
    solved = stage.solve(stage.task(*WORK))
    folder = Path(solved.run_dir)
    return folder, list(RunReader(folder))


def test_spans_arrive_before_the_run_is_over_and_what_was_sent_before_is_not_sent_again(
    stage: Stage, collector: Collector
) -> None:
    folder, records = records_of(stage)
    arrived = threading.Event()
    collector.meanwhile = arrived.set
    live = LiveSpans(folder, collector.url, "")
    for record in records[:-3]:
        live.take(record)
    assert arrived.wait(100)
    assert live.close(100) == ""
    before = len(collector.spans)
    again = LiveSpans(folder, collector.url, "")
    for record in records[-3:]:
        again.take(record)
    assert again.close(100) == ""
    late = [span["name"] for span in collector.spans[before:]]
    assert 0 < len(late) < 6
    assert late[-1] == "invoke_agent root"


def test_a_collector_that_hangs_or_is_gone_changes_nothing_about_a_run(stage: Stage, collector: Collector) -> None:
    hold = threading.Event()
    collector.meanwhile = lambda: hold.wait(100)
    folder, records = records_of(stage)
    hanging = LiveSpans(folder, collector.url, "")
    for record in records:
        hanging.take(record)
    assert "too slow or gone" in hanging.close(0.5)
    hold.set()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        solved = stage.solve(stage.task(*WORK, name="again"), otel=address)
    assert (solved.outcome, solved.failure) == ("solved", "")


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://x", "http://user:secret@x", "http://"])
def test_an_invalid_collector_address_prevents_the_run(url: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^--otel '.*' is not the address of a collector; write it as http://HOST:4318"
    ):
        LiveSpans(tmp_path, url, "")
    with pytest.raises(UsageError, match=f"{PROTOCOL} is 'grpc'; set it to one of http/protobuf, http/json"):
        LiveSpans(tmp_path, "http://127.0.0.1:4318", "grpc")
