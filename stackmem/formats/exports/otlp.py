"""Encode spans as OTLP JSON (ids as hex, 64-bit numbers as text, typed attributes) and send them.

A collector that does not accept JSON, such as Phoenix, receives the same request as protobuf. Each request is sent once
without retries, because sending a run again produces the same spans.

Source: OpenTelemetry protocol 1.x, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from stackmem.core.errors import UsageError
from stackmem.core.version import VERSION
from stackmem.foreign.installing import install_command

Json = dict[str, Any]
Value = str | int | float | bool | list[str]

INTERNAL, CLIENT = 1, 3
SCHEMA = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
_ERROR = 2
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_UNSUPPORTED = 415
_IDS = ("traceId", "spanId", "parentSpanId")


def span(
    run: str,
    made_of: str,  # identifies the span within the run; its id is a digest of this and the run
    name: str,
    kind: int,
    started: float,  # in seconds since 1970, like ``ended``
    ended: float,
    *,
    parent: str = "",  # ``made_of`` of its parent; empty for the root
    attributes: dict[str, Value],
    error: str = "",  # its ``error.type``; empty on success
    events: list[Json] | None = None,
) -> Json:
    """Return one span."""
    if error:
        attributes = {**attributes, "error.type": error}
    result: Json = {"traceId": _digest(run, 32), "spanId": _digest(f"{run}\n{made_of}", 16)}
    if parent:
        result["parentSpanId"] = _digest(f"{run}\n{parent}", 16)
    result |= {"name": name, "kind": kind, "startTimeUnixNano": _nanos(started), "endTimeUnixNano": _nanos(ended)}
    result["attributes"] = _pairs(attributes)
    if events:
        result["events"] = events
    if error:
        result["status"] = {"code": _ERROR, "message": error}
    return result


def event(name: str, at: float, attributes: dict[str, Value]) -> Json:
    return {"timeUnixNano": _nanos(at), "name": name, "attributes": _pairs(attributes)}


def request(run: str, spans: list[Json]) -> Json:
    """Return a request for ``/v1/traces``, which is also one line of a trace file."""
    resource = {"attributes": _pairs({"service.name": "stackmem", "service.version": VERSION, "stackmem.run": run})}
    scope = {"scope": {"name": "stackmem", "version": VERSION}, "spans": spans, "schemaUrl": SCHEMA}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope], "schemaUrl": SCHEMA}]}


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _nanos(at: float) -> str:
    return str(max(0, round(at * 1_000)) * 1_000_000)


def _pairs(attributes: dict[str, Value]) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> Json:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}


_SECONDS = 30.0
_ANSWER_BYTES = 64 * 1024
_BUSY = (429, 502, 503, 504)
"""Answers that ask to try again, in the words of the protocol."""


def send(requests: Iterable[dict[str, Any]], endpoint: str) -> int:
    """Send the requests. Returns the number of accepted spans.

    Raise UsageError if the address is not valid, the collector does not answer, or it did not accept everything.

    Args:
        endpoint: ``http://HOST:PORT``, to which ``/v1/traces`` is added. An address with a path is used unchanged.
    """
    url = collector(endpoint, "--endpoint")
    target = f"{url.path}?{url.query}" if url.query else url.path
    sent = 0
    takes_json = True
    for request in requests:
        if takes_json:
            takes_json = _post(url, target, msgspec.json.encode(request), _JSON, endpoint)
        if not takes_json:
            _post(url, target, _protobuf(request, endpoint), _PROTOBUF, endpoint)
        sent += len(request["resourceSpans"][0]["scopeSpans"][0]["spans"])
    return sent


def collector(endpoint: str, flag: str) -> SplitResult:
    """Return the collector's address, with ``/v1/traces`` if it has no path.

    Raise UsageError if the address is not valid, or contains a login.
    """
    wrong = f"{flag} {endpoint!r} is not the address of a collector; write it as http://HOST:4318"
    try:
        url = urlsplit(endpoint)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise UsageError(wrong) from error
    if url.scheme not in ("http", "https") or not host or url.username or not endpoint.isprintable():
        raise UsageError(wrong)
    return url._replace(path="/v1/traces") if url.path in ("", "/") else url


def _protobuf(request: Json, endpoint: str) -> bytes:
    """Return the request as protobuf, whose JSON form encodes ids in base64.

    Raise UsageError if the extra is not installed.
    """
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise UsageError(
            f"the collector at {endpoint} does not accept JSON; protobuf needs the extra: {install_command('otel')}"
        )
    from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def in_base64(node: Any) -> Any:
        if isinstance(node, list):
            return [in_base64(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {
            name: b64encode(bytes.fromhex(value)).decode() if name in _IDS else in_base64(value)
            for name, value in node.items()
        }

    encoded: bytes = ParseDict(in_base64(request), ExportTraceServiceRequest()).SerializeToString()
    return encoded


def _post(url: SplitResult, target: str, body: bytes, content_type: str, endpoint: str) -> bool:
    """Return whether the collector accepts the content type."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=_SECONDS)
    try:
        connection.request("POST", target, body, {"Content-Type": content_type})
        response = connection.getresponse()
        answer = response.read(_ANSWER_BYTES)
    except (OSError, HTTPException, UnicodeError) as error:
        raise UsageError(
            f"no answer from a collector at {endpoint} ({error}); start one, or write a file with -o"
        ) from error
    finally:
        connection.close()
    if response.status == _UNSUPPORTED and content_type == _JSON:
        return False
    if response.status in _BUSY:
        wait = response.headers.get("Retry-After", "")
        after = f" after {wait} s" if wait.isdecimal() else " later"
        raise UsageError(
            f"the collector at {endpoint} answered {response.status}: it takes no more spans now; export again{after}"
        )
    if not 200 <= response.status < 300:
        body_text = " ".join(answer.decode("utf-8", "replace").split())[:200]
        raise UsageError(
            f"the collector at {endpoint} answered {response.status} ({body_text}); check its address and log"
        )
    if answer.lstrip()[:1] == b"<" or "html" in response.headers.get("Content-Type", ""):
        raise UsageError(
            f"{endpoint} answered with a web page, such as one for a login, so it is not a collector; give the address "
            "of the collector itself, which often has the port 4318"
        )
    rejected = _rejected(answer)
    if rejected:
        raise UsageError(f"the collector at {endpoint} rejected spans: {rejected}; check its log")
    return True


def _rejected(answer: bytes) -> str:
    """Return the number and reason of rejected spans; empty for none or if the answer is not JSON."""
    try:
        decoded = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    partial = decoded.get("partialSuccess") if isinstance(decoded, dict) else None
    count = partial.get("rejectedSpans") if isinstance(partial, dict) else None
    if not isinstance(partial, dict) or count in (None, 0, "0", ""):
        return ""
    return f"{count} ({str(partial.get('errorMessage', ''))[:200]})"
