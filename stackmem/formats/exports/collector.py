"""Sends spans to a collector over HTTP, as OTLP says. One attempt: sending the same run again makes the same spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stackmem.errors import UsageError

_SECONDS = 30.0
_ANSWER_BYTES = 64 * 1024


def send(requests: Iterable[dict[str, Any]], endpoint: str) -> int:
    """How many spans the collector took.

    Args:
        endpoint: ``http://HOST:PORT``, to which ``/v1/traces`` is added, or with a path, which is used as it is.

    Raises:
        UsageError: The address is none, nobody answers there, or the answer is not that all was taken.
    """
    try:
        url = urlsplit(endpoint)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise _no_address(endpoint) from error
    if url.scheme not in ("http", "https") or not host or url.username or not endpoint.isprintable():
        raise _no_address(endpoint)
    path = url.path if url.path not in ("", "/") else "/v1/traces"
    target = f"{path}?{url.query}" if url.query else path
    sent = 0
    for request in requests:
        _post(url.scheme == "https", host, port, target, msgspec.json.encode(request), endpoint)
        sent += len(request["resourceSpans"][0]["scopeSpans"][0]["spans"])
    return sent


def _no_address(endpoint: str) -> UsageError:
    return UsageError(f"--endpoint {endpoint!r} is no address of a collector; write it as http://HOST:4318")


def _post(secure: bool, host: str, port: int | None, target: str, body: bytes, endpoint: str) -> None:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    kind = HTTPSConnection if secure else HTTPConnection
    connection = kind(host, port, timeout=_SECONDS)
    try:
        connection.request("POST", target, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read(_ANSWER_BYTES)
    except (OSError, HTTPException, UnicodeError) as error:
        raise UsageError(
            f"no collector answers at {endpoint} ({error}); start one there, or write a file with -o"
        ) from error
    finally:
        connection.close()
    if response.status != 200:
        said = " ".join(answer.decode("utf-8", "replace").split())[:200]
        raise UsageError(f"the collector at {endpoint} answered {response.status} ({said}); check its address and log")
    rejected = _rejected(answer)
    if rejected:
        raise UsageError(f"the collector at {endpoint} left spans out: {rejected}; check its log")


def _rejected(answer: bytes) -> str:
    """What the collector says of spans it did not take; an answer that is no JSON says nothing."""
    try:
        said = msgspec.json.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    partial = said.get("partialSuccess") if isinstance(said, dict) else None
    count = partial.get("rejectedSpans") if isinstance(partial, dict) else None
    if not isinstance(partial, dict) or count in (None, 0, "0", ""):
        return ""
    return f"{count} ({str(partial.get('errorMessage', ''))[:200]})"
