"""Send a run's spans to a collector during the run, with OpenTelemetry's official exporter (extra ``otel``).

Rule 1: the run never waits for the collector. Facts are queued, and daemon threads do the rest. Rule 2: spans that the
collector does not accept are counted and reported at the end. They do not affect the run. Rule 3: the spans and ids are
those of ``export --format otel``, so sending them twice gives the same spans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from logging import CRITICAL, getLogger
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from stackmem.core.errors import StackmemError, UsageError
from stackmem.core.facts import RunForked
from stackmem.core.version import VERSION
from stackmem.foreign.installing import install_command
from stackmem.trace.lineage import RunReader
from stackmem.trace.record import Record

from .otel import spans
from .otlp import SCHEMA, Json, collector, send

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
"""The standard variable for the protocol: ``http/protobuf``, the default, or ``http/json``."""
_PROTOCOLS = ("http/protobuf", "http/json")
CLOSE_SECONDS = 3.0
"""How long the end of a run waits for pending spans."""
_REQUEST_SECONDS = 4.0
_DELAY_MILLIS = 500
_MAX_WAITING = 100_000
_KINDS = {1: "INTERNAL", 3: "CLIENT"}


def live_spans(run_dir: Path, url: str, environ: Mapping[str, str]) -> LiveSpans:
    """Return a sender for a run's spans that uses the protocol in the environment.

    Raise UsageError if the address is not valid, or the extra is not installed.
    """
    return LiveSpans(run_dir, url, environ.get(PROTOCOL, "").strip())


class LiveSpans:
    """Sends the spans of one run to one collector."""

    def __init__(self, run_dir: Path, url: str, protocol: str) -> None:
        """Check the settings. Sending starts with the first fact.

        Raise UsageError if the address or the protocol is not valid, or the extra is not installed.

        Args:
            url: ``http://HOST:PORT``, to which ``/v1/traces`` is added. An address with a path is used unchanged.
            protocol: A value of ``PROTOCOL``, or empty for the default.
        """
        collector(url, "--otel")
        if protocol not in ("", *_PROTOCOLS):
            raise UsageError(f"{PROTOCOL} is {protocol[:40]!r}; set it to one of {', '.join(_PROTOCOLS)}")
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
            raise UsageError(f"--otel needs the extra 'otel'; install it: {install_command('otel')}")
        self.accepted_count = self.lost = 0  # spans that the collector accepted, and spans that it did not
        self._run_dir, self._url, self._json = run_dir, url, protocol == "http/json"
        self._facts: SimpleQueue[Record | None] = SimpleQueue()
        self._live = False
        self._broken = ""
        self._thread: threading.Thread | None = None

    def take(self, record: Record) -> None:
        """Queue a recorded fact. Never blocks."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="otel", daemon=True)
            self._thread.start()
        if self._facts.qsize() < _MAX_WAITING:
            self._facts.put(record)
        else:
            self._broken = "facts arrived faster than spans could be created"

    def close(self, seconds: float = CLOSE_SECONDS) -> str:
        """Finish within ``seconds``. Returns why spans were lost, or an empty string if all were accepted."""
        if self._thread is None:
            return ""
        self._facts.put(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            return f"the collector at {self._url} is too slow or gone; it lacks spans of this run"
        if self._broken or self.lost:
            reason = f" ({self._broken})" if self._broken else ""
            return (
                f"the collector at {self._url} accepted {self.accepted_count:,} spans; {self.lost:,} are lost{reason}"
            )
        return ""

    def _work(self) -> None:
        getLogger("opentelemetry").setLevel(CRITICAL)  # it would print every failed attempt
        try:
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            exporter: Any = _Counted(self, self._exporter())
            # Larger than any batch of facts. If facts arrive faster than the collector accepts them, the oldest are
            # dropped.
            batches = BatchSpanProcessor(exporter, max_queue_size=_MAX_WAITING, schedule_delay_millis=_DELAY_MILLIS)
            try:
                for each in spans(self._records(), self._run_dir.name):
                    if self._live:
                        batches.on_end(readable(each, self._run_dir.name))
            finally:
                batches.shutdown()  # type: ignore[no-untyped-call]
        except (StackmemError, ValueError, TypeError, KeyError, RuntimeError, ImportError, OSError) as error:
            self._broken = f"{type(error).__name__}: {error}"[:200]

    def _exporter(self) -> Any:
        scheme_and_place = collector(self._url, "--otel").geturl()
        if self._json:
            return _JsonExporter(scheme_and_place)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=scheme_and_place, timeout=_REQUEST_SECONDS)

    def _records(self) -> Iterator[Record]:
        """Yield the records in the trace before the first new fact, whose spans were sent earlier, then new facts."""
        first = self._facts.get()
        if first is None:
            return
        if first.seq > 1 or isinstance(first.event, RunForked):
            for record in RunReader(self._run_dir):
                if record.at == first.at and record.event == first.event:
                    break
                yield record
        self._live = True
        yield first
        while (record_or_end := self._facts.get()) is not None:
            yield record_or_end


class _Counted:
    """An exporter that counts accepted spans. Any exception counts as a failure."""

    def __init__(self, counts: LiveSpans, exporter: Any) -> None:
        self._counts, self._exporter = counts, exporter

    def export(self, batch: Sequence[ReadableSpan]) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            result = self._exporter.export(batch)
        except (StackmemError, OSError, ValueError, RuntimeError):
            result = SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self._counts.accepted_count += len(batch)
        else:
            self._counts.lost += len(batch)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class _JsonExporter:
    """An exporter that sends OTLP's JSON, which encodes ids as hex."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    def export(self, batch: Sequence[ReadableSpan]) -> Any:
        from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace.export import SpanExportResult

        request = MessageToDict(encode_spans(batch), use_integers_for_enums=True)
        for each in (
            span for kind in request["resourceSpans"] for scope in kind["scopeSpans"] for span in scope["spans"]
        ):
            for name in {"traceId", "spanId", "parentSpanId"} & each.keys():
                each[name] = _hex(each[name])
        send([request], self._endpoint)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing: requests are sent immediately."""


def _hex(base64: str) -> str:
    from base64 import b64decode

    return b64decode(base64).hex()


def readable(encoded: Json, run: str) -> ReadableSpan:
    """Convert a span from OTLP's JSON to the SDK's class."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context_of(span: str) -> SpanContext:
        return SpanContext(int(encoded["traceId"], 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(1))

    metadata = {"service.name": "stackmem", "service.version": VERSION, "stackmem.run": run}
    status = encoded.get("status")
    return ReadableSpan(
        encoded["name"],
        context=context_of(encoded["spanId"]),
        parent=context_of(encoded["parentSpanId"]) if "parentSpanId" in encoded else None,
        resource=Resource(metadata, SCHEMA),
        attributes=_values(encoded["attributes"]),
        events=[
            Event(each["name"], _values(each["attributes"]), int(each["timeUnixNano"]))
            for each in encoded.get("events", ())
        ],
        kind=SpanKind[_KINDS[encoded["kind"]]],
        status=Status(StatusCode.ERROR, status["message"]) if status else Status(StatusCode.UNSET),
        start_time=int(encoded["startTimeUnixNano"]),
        end_time=int(encoded["endTimeUnixNano"]),
        instrumentation_scope=InstrumentationScope("stackmem", VERSION, SCHEMA),
    )


def _values(pairs: list[Json]) -> dict[str, Any]:
    return {pair["key"]: _value(pair["value"]) for pair in pairs}


def _value(typed: Json) -> Any:
    ((kind, value),) = typed.items()
    readers: dict[str, Callable[[Any], Any]] = {
        "intValue": int, "arrayValue": lambda array: [_value(each) for each in array["values"]],
    }  # fmt: skip
    return readers.get(kind, lambda raw: raw)(value)
