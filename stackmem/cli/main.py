"""The command line: starts the process in order, and ends it with an exit code.

``stackmem --help`` and ``--version`` are answered here. Anything else needs ``app``, and with it typer, whose import
takes longer than the rest of the start-up.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from stackmem.core.errors import StackmemError, way_out
from stackmem.core.version import VERSION
from stackmem.run.plugins.places import any_plugin, ignored_note

from .catalog import COMPLETION

_FILES = 1024
_COLLECTED_AFTER = 20_000
"""New objects before Python searches for garbage. Its default of 700 takes one twentieth of the time of a short run."""
_RESTORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that Python ignores in its own process, and restores in child processes."""

_FROM_PLUGINS = r"\b(strategy|world|task|model|provider|isolation|format)\b"


def _with_ignored_plugins(error: StackmemError) -> str:
    """Return the message of an error. If a name is unknown, it also names the plug-ins that could have brought it."""
    import re

    note = ignored_note() if re.search(_FROM_PLUGINS, str(error)) else ""
    return f"{error}; {note}" if note else str(error)


def main() -> None:
    """Run the command line. Every error is one sentence on stderr, with the exit code of its kind."""
    gc.set_threshold(_COLLECTED_AFTER)
    _put_right()
    if len(sys.argv) == 1 and sys.stdin.isatty() and sys.stdout.isatty():
        sys.argv.append("chat")
    try:
        code = 0 if _answered_without_typer() else _call()
        sys.stdout.flush()
    except StackmemError as error:
        fail(_with_ignored_plugins(error), error.exit_code)
    except BrokenPipeError:  # the reader of stdout exited early, as ``head`` does
        _silence_stdout()
        sys.exit(141)
    except OSError as error:
        _silence_stdout()
        location = str(error.filename) if error.filename else "the output"
        fail(
            _blame(error) or f"{location} cannot be written or read ({error.strerror or error}); {way_out(error)}",
            2,
        )
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not (message := _blame(error)):
            raise
        fail(message, 2)
    else:
        if code == 130:  # typer's code for Ctrl-C; an interrupted run has already printed its result and exited
            fail("interrupted before there was a result; run the command again", 130)
        sys.exit(code if isinstance(code, int) else 0)
    finally:
        _flush_stderr()


def _answered_without_typer() -> bool:
    """Print the version or the help if the user wants only that. With commands of plug-ins, the help needs typer."""
    if COMPLETION in os.environ:
        return False
    if sys.argv[1:] == ["--version"]:
        print(VERSION)  # noqa: T201
        return True
    if sys.argv[1:] != ["--help"] or any_plugin():
        return False
    from .root_help import root_help

    print(root_help())  # noqa: T201
    return True


def _call() -> object:
    from .app import call

    return call(fail)


def _blame(error: Exception) -> str:
    """Return a message naming the plug-in whose code raised the error; empty if none did."""
    if not any_plugin():
        return ""
    from stackmem.run.plugins.loading import blame

    return blame(error)


def fail(says: str, code: int) -> NoReturn:
    """Print the error, also as JSON on stdout with ``--json`` or ``--stream-json``, and exit."""
    from .screen.text import escape

    with suppress(OSError):
        print(f"stackmem: {escape(says, keep=chr(10))}", file=sys.stderr)  # noqa: T201
    if "--json" in sys.argv[1:]:
        import json

        with suppress(OSError):
            print(json.dumps({"outcome": "error", "error": says}), flush=True)  # noqa: T201
    if "--stream-json" in sys.argv[1:]:
        from .screen.event_stream import error_line

        with suppress(OSError):
            print(error_line(says, code), flush=True)  # noqa: T201
    sys.exit(code)


def _put_right() -> None:
    """Reset inherited process settings that would break stackmem or its commands.

    - SIGCHLD: if it is ignored, exit codes of commands cannot be read.
    - Other signals that our parent ignores (``nohup``) are handled by an empty handler. ``SIG_IGN`` would be
      inherited by the commands we start; a handler is not.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in signal.valid_signals() - _RESTORED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now < _FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        """Reserve the numbers of closed standard streams; otherwise a folder we open could get one."""
    os.close(opened)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # the descriptor was closed when Python started
            stream = open(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
    mask = os.umask(0o022)
    os.umask(mask & ~0o700)  # without these permissions stackmem could not read its own files


def _nothing(*_: object) -> None:
    """Ignore a signal."""


def _silence_stdout() -> None:
    """Discard further output, so that the interpreter does not fail when it flushes stdout at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _flush_stderr() -> None:
    """Drop progress output that cannot be written; otherwise the interpreter would exit with code 120."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
