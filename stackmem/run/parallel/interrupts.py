"""Interrupts a run that is played in another thread than the main one, where signals do not arrive."""

from __future__ import annotations

import ctypes
import signal
import threading

from ..interrupts import Interrupts


class ThreadInterrupts(Interrupts):
    """Ends the run of a thread as a Ctrl-C ends that of the main thread."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: threading.Thread | None = None

    def cancel(self) -> None:
        """End the run at its next effect, and a call to the outside world once that returns to Python."""
        self.signal = signal.SIGINT
        thread = self.thread
        if self.open and thread is not None and thread.ident is not None:
            self.open = False  # so that the cleanup after this interruption is not interrupted too
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt)
            )

    def take_back(self) -> bool:
        """Return False: the parent decides how it continues, and resumes the run then."""
        return False
