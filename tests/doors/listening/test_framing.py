"""A request whose length two readers could interpret differently is refused, and its connection closed."""

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stackmem.doors.listening.sockets import listening, server_config

CHUNKED = "4\r\nbody\r\n0\r\n\r\n"
SECOND = "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
AMBIGUOUS = {
    "length and coding": ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    "coding and length": ("Transfer-Encoding: chunked\r\nContent-Length: 99\r\n", CHUNKED),
    "odd case": ("content-LENGTH: 4\r\ntransfer-ENCODING: chunked\r\n", CHUNKED),
    "two lengths": ("Content-Length: 4\r\nContent-Length: 5\r\n", "body!"),
    "equal lengths": ("Content-Length: 4\r\nContent-Length: 4\r\n", "body"),
    "list of lengths": ("Content-Length: 4, 5\r\n", "body!"),
    "two codings": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED),
    "other coding": ("Transfer-Encoding: gzip, chunked\r\n", CHUNKED),
    "identity": ("Transfer-Encoding: identity\r\nContent-Length: 4\r\n", "body"),
    "signed length": ("Content-Length: +4\r\n", "body"),
    "negative length": ("Content-Length: -4\r\n", "body"),
    "hexadecimal length": ("Content-Length: 0x4\r\n", "body"),
    "blank before the colon": ("Content-Length : 4\r\n", "body"),
    "folded": ("X: a\r\n Content-Length: 4\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n", CHUNKED),
    "bare return": ("X: a\rContent-Length: 9\r\nContent-Length: 4\r\n", "body"),
    "chunk size with a sign": ("Transfer-Encoding: chunked\r\n", "+4\r\nbody\r\n0\r\n\r\n"),
    "chunk size with 0x": ("Transfer-Encoding: chunked\r\n", "0x4\r\nbody\r\n0\r\n\r\n"),
    "chunk without its end": ("Transfer-Encoding: chunked\r\n", "4\r\nbodyXX0\r\n\r\n"),
    "chunk that is longer": ("Transfer-Encoding: chunked\r\n", "4\r\nbody!\r\n0\r\n\r\n"),
    "endless chunk size": ("Transfer-Encoding: chunked\r\n", f"{'0' * 40}4\r\nbody\r\n0\r\n\r\n"),
    "chunk line of a bare feed": ("Transfer-Encoding: chunked\r\n", "4\nbody\n0\n\n" + "x" * 70_000),
}


class Served:
    """A server that stores each complete body."""

    def __init__(self, port: int) -> None:
        self.port, self.bodies = port, list[bytes]()

    async def take(self, request: Request) -> Response:
        self.bodies.append(await request.body())
        return Response("taken")

    def send(self, text: str) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(text.encode())
            client.shutdown(socket.SHUT_WR)
            came = b""
            while piece := client.recv(65_536):
                came += piece
        return came


@pytest.fixture
def served() -> Iterator[Served]:
    with listening("127.0.0.1", 0) as listener:
        made = Served(listener.getsockname()[1])
        app = Starlette(routes=[Route("/{path:path}", made.take, methods=["POST"])])
        server = uvicorn.Server(server_config(app, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield made
        server.should_exit = True
        thread.join(60)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_of_ambiguous_length_is_refused_with_all_that_follows(served, name):
    head, body = AMBIGUOUS[name]
    answer = served.send(f"POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n{body}{SECOND}")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert (answer.count(b"HTTP/1.1 "), served.bodies) == (1, [])


def test_a_coding_that_its_version_does_not_know_is_refused(served):
    answer = served.send(f"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED}")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert served.bodies == []


def test_unambiguous_requests_are_accepted_in_sequence(served):
    length = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\nContent-Length: 1\r\nbody body"
    coded = f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED}"
    assert served.send(length + coded + SECOND).count(b"HTTP/1.1 200 ") == 3
    assert served.bodies == [b"Content-Length: 1\r\nbody body", b"body", b""]
