"""A Debug Adapter Protocol client: writes requests with their headers and reads responses and events."""

from __future__ import annotations

import json
from typing import Any, BinaryIO


class Client:
    """Talks to an adapter over its two streams; keeps messages in order until they are awaited."""

    def __init__(self, writes: BinaryIO, reads: BinaryIO) -> None:
        self._writes, self._reads = writes, reads
        self._seq = 0
        self._kept: list[dict[str, Any]] = []

    def send(self, command: str, arguments: Any) -> int:
        self._seq += 1
        message = {"seq": self._seq, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self.send_raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        return self._seq

    def send_raw(self, raw: bytes) -> None:
        self._writes.write(raw)
        self._writes.flush()

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a request and return the body of the response."""
        response = self.response(command, **arguments)
        assert response["success"], response
        return response["body"]

    def response(self, command: str, given: Any = None, **arguments: Any) -> dict[str, Any]:
        seq = self.send(command, given or arguments)
        return self._first(lambda each: each["type"] == "response" and each["request_seq"] == seq)

    def event(self, name: str) -> dict[str, Any]:
        """Return the body of the next event with that name."""
        return self._first(lambda each: each["type"] == "event" and each["event"] == name)["body"]

    def _first(self, wanted: Any) -> dict[str, Any]:
        while True:
            for index, message in enumerate(self._kept):
                if wanted(message):
                    return self._kept.pop(index)
            self._kept.append(self.read())

    def read(self) -> dict[str, Any]:
        length = 0
        while line := self._reads.readline().strip():
            name, _, value = line.partition(b": ")
            assert name == b"Content-Length", line
            length = int(value)
        assert length, "the adapter closed the connection"
        return json.loads(self._reads.read(length))
