"""A view to what is known by it, without reading again what stands where it stood at the last request.

What is kept is a memo and no memory: a message that is not the very object that was read before is read anew, and with
it all that follows. The last message is read on a copy, since many strategies show it only once.
"""

from __future__ import annotations

from stackmem.core.messages import Message, View

from .index import INDEX_HEAD
from .knowledge import Knowledge
from .listening import read_message


class Reading:
    """The messages that were read last, all but the final one, and what they say."""

    def __init__(self) -> None:
        self._system = ""
        self._read: list[Message] = []
        self._known = Knowledge()

    def of(self, view: View) -> Knowledge:
        """What the view says; it is the caller's own."""
        # An index in the system prompt is the newest one, and it is known before anything else is read.
        system = view.system if INDEX_HEAD in view.system else ""
        messages = list(view.messages)
        goes_on = len(self._read) < len(messages) and all(map(_same, self._read, messages))
        if system != self._system or not goes_on:
            self._system, self._read, self._known = system, [], Knowledge()
            self._known.look_at_index(system)
        for message in messages[len(self._read) : -1]:
            read_message(self._known, message)
            self._read.append(message)
        known = self._known.copied()
        for message in messages[-1:]:
            read_message(known, message)
        return known


def _same(one: Message, other: Message) -> bool:
    return one is other
