"""The HTTP client for providers. Any server may be on the other end, so time and size are limited.

- Each attempt has a deadline, from the end of the name lookup to the last byte, even if bytes keep trickling in.
- Redirects are never followed: the key and the prompt go only to the address that the user configured.
- Responses are never decompressed, because a kilobyte could expand to a gigabyte.
- Everything an attempt opens is closed when it ends.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import Usage, View
from stackmem.models.tokens import estimated_usage

from .failures import failed

if TYPE_CHECKING:
    from ssl import SSLContext

    from httpx2 import Client, Request, Response, SyncByteStream, Timeout

_MAX_ERROR_BYTES = 64 * 1024
_OPENED = ("connect_tcp.complete", "start_tls.complete")


@cache
def _certificates(*_places: str | None) -> SSLContext:
    import httpx2

    return httpx2.create_ssl_context()


def trusted() -> SSLContext:
    """Return the trusted certificates, loaded once; the SDK would reload them for its client and for each proxy."""
    return _certificates(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


class Connection:
    """An HTTP client and the sockets that it has opened."""

    def __init__(
        self,
        make: Callable[..., Client],
        connect_seconds: float,
        silence_seconds: float,
        *,
        most_bytes: int | None = None,
        read: Callable[[Iterable[bytes]], Iterable[bytes]] | None = None,
    ) -> None:
        """Create the client.

        ``read`` changes the bytes of an answer before the SDK reads them. ``most_bytes`` is the maximum size of an
        answer that the SDK reads, or None if ``event_stream`` counts the bytes.
        """
        import httpx2

        self.expired = False  # the last attempt ran out of time
        self._ends = 0.0
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._answers: list[Response] = []
        self._most_bytes = most_bytes
        self._read = read
        # created by the SDK's own class, which uses the proxies from the environment
        self.client = make(
            timeout=httpx2.Timeout(silence_seconds, connect=connect_seconds),
            follow_redirects=False,
            verify=trusted(),
            headers={"accept-encoding": "identity"},
            event_hooks={"request": [self._watch], "response": [self._note_response]},
        )

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[None]:
        """Limit one attempt: when the time is up, its connections are cut, whatever it is waiting for."""
        self.expired = False
        self._ends = time.monotonic() + seconds
        timer = threading.Timer(seconds, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            for answer in self._answers:
                answer.close()
            self._answers.clear()

    def timeout(self, seconds: float) -> Timeout:
        """Return the client's timeouts, reduced to the seconds that are left."""
        own = {name: min(value, seconds) for name, value in self.client.timeout.as_dict().items() if value is not None}
        return type(self.client.timeout)(**own)

    def in_time(self, answer: ModelReplied | ModelFailed) -> ModelReplied | ModelFailed:
        """Return the attempt's result; any failure after the deadline counts as a timeout, whatever reported it."""
        if (self.expired or time.monotonic() >= self._ends) and isinstance(answer, ModelFailed):
            return failed("timeout", "the reply took longer than its time limit")
        return answer

    def _watch(self, request: Request) -> None:
        request.extensions["trace"] = self._remember
        # Google's SDK sets one timeout for everything, or none at all.
        request.extensions["timeout"] = self.timeout(max(0.0, self._ends - time.monotonic())).as_dict()

    def _note_response(self, response: Response) -> None:
        self._answers.append(response)
        _bound(response)
        if self._most_bytes is not None and response.is_success:
            response.stream = _counted(response.stream, self._most_bytes, self._read or iter)

    def _remember(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(_OPENED):
            opened = info["return_value"].get_extra_info("socket")
            if opened is not None:
                self._sockets.add(opened)

    def _cut(self) -> None:
        self.expired = True
        for each in list(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # not the TLS layer's shutdown, which waits for the peer


def _counted(stream: Any, most_bytes: int, read: Callable[[Iterable[bytes]], Iterable[bytes]] = iter) -> SyncByteStream:
    """Limit the bytes of an answer; more raise ``ValueError``."""
    import httpx2

    class Counted(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from read(self._limited())

        def _limited(self) -> Iterator[bytes]:
            total = 0
            for chunk in stream:
                total += len(chunk)
                if total > most_bytes:
                    raise ValueError(f"the reply is longer than {most_bytes // 1024 // 1024} MiB")
                yield chunk

        def close(self) -> None:
            stream.close()

    return Counted()


def _bound(response: Response) -> None:
    """Limit the body of an error response, and reject compressed responses."""
    import httpx2

    compressed = response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}
    if response.is_success:
        if compressed:
            raise httpx2.RemoteProtocolError("the answer is compressed, which it was asked not to be")
        return
    text = b""
    if not compressed:
        for piece in response.iter_raw():
            text += piece
            if len(text) > _MAX_ERROR_BYTES:
                break
    response.close()
    # The SDK reads the response again and gets this limited body.
    response.stream = httpx2.ByteStream(text[:_MAX_ERROR_BYTES])
    response.is_stream_consumed = response.is_closed = False


class CutReply(Struct):
    """Usage of a reply that was cut: the server worked on it, but reports no tokens."""

    pieces: int = 0  # pieces received so far; servers send about one per token

    def counted(self, events: Iterable[str]) -> Iterator[str]:
        """Pass the events through while counting them."""
        for event in events:
            self.pieces += '"delta"' in event and '"prompt_progress"' not in event
            yield event

    def ended(
        self,
        answer: ModelReplied | ModelFailed,
        connection: Connection,
        view: View,
        error: BaseException | None = None,
    ) -> ModelReplied | ModelFailed:
        """Return the attempt's result, with estimated tokens if it was cut while the server was working."""
        answer = connection.in_time(answer)
        if not isinstance(answer, ModelFailed) or answer.kind != "timeout":
            return answer
        import httpx2

        silent = error is not None and isinstance(error.__cause__ or error, httpx2.ReadTimeout)
        if not (self.pieces or connection.expired or silent):
            return answer
        prompt = estimated_usage(ModelReplied((), "end", Usage()), view).usage
        return replace(answer, usage=replace(prompt, output=self.pieces))
