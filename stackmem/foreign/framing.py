"""Refuses requests with an ambiguous length, in which two parsers could see two different requests.

Source: RFC 9112 (6.1 and 6.3, message body length; 11.2, request smuggling).
"""

from __future__ import annotations

import re

import h11

_BLANK_LINE = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"^(?:content-length|transfer-encoding):", re.IGNORECASE | re.MULTILINE)


class AmbiguousLength(h11.RemoteProtocolError):
    """A request has two headers for its length, or one that its HTTP version does not define."""


class StrictConnection(h11.Connection):
    """A server connection that refuses ambiguous requests.

    h11 ignores Content-Length next to Transfer-Encoding and merges equal lengths, so the bytes of the head are checked.
    """

    def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """Return the next event; raises ``AmbiguousLength`` for an ambiguous request."""
        waiting = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            head = _BLANK_LINE.split(waiting, maxsplit=1)[0]
            chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
            if len(_LENGTH.findall(head)) > 1 or (chunked and event.http_version < b"1.1"):
                raise AmbiguousLength("the length of the request is given twice", error_status_hint=400)
        return event
