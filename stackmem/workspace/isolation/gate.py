"""Lets commands of one workspace run side by side unless one could steer the mounts of another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Gate:
    """A command that started before there was a ``.git`` may swap it for a link while the next one is mounting it.

    So a command that will mount it waits until those that did not are over. Those that did cannot move it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unbound = 0

    @contextmanager
    def entered(self, binds: Callable[[], bool]) -> Generator[None]:
        """Attributes:
        binds: Tells whether the command would mount ``.git`` if it started now.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._unbound == 0 or not binds())
            bound = binds()
            self._unbound += not bound
        try:
            yield
        finally:
            with self._changed:
                self._unbound -= not bound
                self._changed.notify_all()
