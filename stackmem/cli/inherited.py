"""Puts right what a parent may have left odd (signals, masks, limits), for the program and for its commands."""

from __future__ import annotations

import os
import resource
import signal

_FILES = 1024
_RESTORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""Ignored by Python for itself, and given back to whatever it starts."""


def put_right() -> None:
    """Give this process what it needs, and what it starts the defaults, whoever started it.

    Rule 1: with SIGCHLD ignored nobody is told how a command ended, so it never is.
    Rule 2: a signal that our parent wants us to ignore (``nohup``) stays ignored here, by a handler: other than
    ``SIG_IGN``, a handler is not handed on to the commands that we start.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in signal.valid_signals() - _RESTORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    mask = os.umask(0o022)
    os.umask(mask & ~0o700)  # without them we could not read what we write


def _nothing(*_: object) -> None:
    """A signal that is to be ignored came."""
