"""Spans as OTLP spells them in JSON: ids in hex, 64-bit numbers as text, attributes as typed pairs.

Source: OpenTelemetry protocol 1.x, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import hashlib
from typing import Any

from stackmem.version import VERSION

Json = dict[str, Any]
Value = str | int | float | bool | list[str]

INTERNAL, CLIENT = 1, 3
SCHEMA = "https://opentelemetry.io/schemas/gen-ai/1.42.0"
_ERROR = 2


def span(
    run: str,
    made_of: str,
    name: str,
    kind: int,
    started: float,
    ended: float,
    *,
    parent: str = "",
    attributes: dict[str, Value],
    error: str = "",
    events: list[Json] | None = None,
) -> Json:
    """One span.

    Args:
        made_of: What tells it from the run's other spans; its id is the digest of that and the run.
        started: In seconds since 1970, as ``ended``.
        parent: What its parent is made of; empty for the root.
        error: Its ``error.type``; empty where all went well.
    """
    if error:
        attributes = {**attributes, "error.type": error}
    found: Json = {"traceId": _digest(run, 32), "spanId": _digest(f"{run}\n{made_of}", 16)}
    if parent:
        found["parentSpanId"] = _digest(f"{run}\n{parent}", 16)
    found |= {"name": name, "kind": kind, "startTimeUnixNano": _nanos(started), "endTimeUnixNano": _nanos(ended)}
    found["attributes"] = _pairs(attributes)
    if events:
        found["events"] = events
    if error:
        found["status"] = {"code": _ERROR, "message": error}
    return found


def event(name: str, at: float, attributes: dict[str, Value]) -> Json:
    return {"timeUnixNano": _nanos(at), "name": name, "attributes": _pairs(attributes)}


def request(run: str, spans: list[Json]) -> Json:
    """What a collector takes at ``/v1/traces``, and a line of a file of traces."""
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
            return {"arrayValue": {"values": [_value(one) for one in value]}}
