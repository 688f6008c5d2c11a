"""The official SDKs against odd servers: each row of ``odd_servers.py`` and its two sibling modules."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stackmem.core.facts import ModelFailed
from stackmem.core.messages import Thinking
from stackmem.models.endpoint import Endpoint
from stackmem.providers.anthropic import AnthropicModel
from stackmem.providers.gemini import GeminiModel
from stackmem.providers.openai import OpenAIModel
from tests.providers.views import asking

from .odd_gemini import ROWS as GEMINI
from .odd_messages import ROWS as MESSAGES
from .odd_servers import rows

EACH = ((OpenAIModel, (*rows(),)), (AnthropicModel, MESSAGES), (GeminiModel, GEMINI))
ROWS = tuple(row for _, some in EACH for row in some)
KINDS = tuple(kind for kind, some in EACH for _ in some)
LIMIT_SECONDS = 0.3
"""Time limit for a whole reply, in rows about a server that would never stop."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Return the address of all servers; the path starts with the row's number."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def answer(connection: socket.socket) -> None:
    with connection, suppress(OSError), connection.makefile("rb") as reading:
        number = int(reading.readline().split(b"/")[1])
        headers = iter(reading.readline, b"\r\n")
        size = next(int(line[15:]) for line in headers if line.lower().startswith(b"content-length:"))
        while reading.readline() != b"\r\n":
            pass
        sends = ROWS[number].sends
        body = json.loads(reading.read(size))
        *first, last = sent if isinstance(sent := sends(body) if callable(sends) else sends, tuple) else (sent, None)
        for piece in first:
            connection.sendall(piece)
        while last:
            connection.sendall(last)
        if last is not None:
            reading.read(1)  # until the client disconnects


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{row.does}, {number}" for number, row in enumerate(ROWS)])
def test_an_odd_server_gives_the_result_in_its_row(number: int, servers: str) -> None:
    row = ROWS[number]
    seconds = LIMIT_SECONDS if row.kind == "timeout" else 60.0
    got = KINDS[number]("any", Endpoint(f"{servers}/{number}/v1", "sk-0123456789", 20.0, 20.0, seconds)).reply(asking())
    if isinstance(got, ModelFailed):
        assert (got.kind, row.words in got.detail) == (row.kind, True), got.detail
        return
    assert row.kind == ""
    assert tuple(part for part in got.parts if not isinstance(part, Thinking)) == row.parts
    assert got.stop == row.stop
    if row.usage is not None:
        assert (got.usage.uncached, got.usage.cache_read, got.usage.output) == row.usage


def test_there_are_enough_of_them_and_no_two_are_called_alike() -> None:
    assert len({(row.does, kind) for row, kind in zip(ROWS, KINDS, strict=True)}) == len(ROWS) >= 60
