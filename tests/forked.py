"""Run the command line, or Python code, in a fork of the test process, which has imported the package already.

A new interpreter spends about 0.3 s on imports before its command begins. A fork has its own process id, working
directory, environment, signals and file descriptors, and is a child of the test like any other process. It differs in
what Python does before ``main``: it shares the modules and their caches with the test. So a test of the start-up, of
the memory of a process, or of variables that Python reads when it starts needs a new interpreter. ``can_fork`` finds
the variables and options for which a fork would differ.
"""

import atexit
import faulthandler
import fcntl
import gc
import inspect
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from stackmem.cli.main import main
from stackmem.run.plugins import loading

START = (sys.executable, "-m", "stackmem")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_")
_OPTIONS = {"stdin", "stdout", "stderr", "text", "encoding", "errors", "process_group", "start_new_session"}
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
_HANDLERS = {signal.SIGINT: signal.default_int_handler, **dict.fromkeys(_IGNORED, signal.SIG_IGN)}
"""The handlers that Python sets when it starts."""
_IMPORTED_AGAIN = ("mcp.client.stdio",)
"""Modules that keep the standard streams of the process that imported them."""
_STREAMS = {"stdin": sys.__stdin__, "stdout": sys.__stdout__, "stderr": sys.__stderr__}
_ENCODINGS = {name: (stream.encoding, stream.errors) for name, stream in _STREAMS.items() if stream}
"""The encoding and the error handler of each standard stream, which depend on the locale."""


def can_fork(environ: Mapping[str, str], options: Mapping[str, Any]) -> bool:
    """Return whether a fork behaves like a new interpreter that is started with these variables and options."""
    changed = {name for name in {*environ, *os.environ} if environ.get(name) != os.environ.get(name)} - {"PYTHONPATH"}
    return not any(name.startswith(_READ_AT_START) for name in changed) and options.keys() <= _OPTIONS


class ForkedCommand(subprocess.Popen[str]):
    """A ``stackmem`` command, or the code after ``python -c``, in a fork; used like any other ``Popen``."""

    def _execute_child(self, *given: Any) -> None:  # what Popen calls to start the program
        preload()
        call = inspect.signature(super()._execute_child).bind(*given).arguments  # type: ignore[misc]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the test process has other threads; they wait
            self.pid = os.fork()
        if self.pid == 0:
            if call["start_new_session"]:
                os.setsid()
            if call["process_group"] >= 0:
                os.setpgid(0, call["process_group"])
            become(call["args"], call["env"], call["cwd"] or ".", (call["p2cread"], call["c2pwrite"], call["errwrite"]))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(call[name] for name in pipes))  # type: ignore[attr-defined]


def run_forked(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, timeout: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, like ``subprocess.run`` with captured output."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
    with ForkedCommand(arguments, cwd=cwd, env=environ, text=True, **given) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@cache
def preload() -> None:
    """Import what a run imports later, so that not every fork does."""
    for module in ("ruamel.yaml", "cryptography.hazmat.primitives.serialization", "stackmem.cli.commands.solve"):
        import_module(module)


def become(
    arguments: Sequence[str], environ: Mapping[str, str], cwd: Path | str, streams: Sequence[int] = (0, 1, 2)
) -> NoReturn:
    """Turn a fork into ``python -m stackmem ...`` or ``python -c CODE ...``, and end with its exit code.

    Args:
        streams: The descriptors of its standard streams; -1 keeps the present one.
    """
    code = 70
    try:
        _forget_the_test()
        os.chdir(cwd)
        _connect(streams)
        os.environ.clear()
        os.environ.update(environ)
        is_code = arguments[1] == "-c"
        sys.argv = ["-c" if is_code else "stackmem", *map(str, arguments[3:])]
        sys.path.insert(0, str(Path.cwd()))
        code = _run(partial(exec, arguments[2], {"__name__": "__main__"}) if is_code else main)
    except BaseException:  # noqa: BLE001 - the fork must never return into the test
        traceback.print_exc()
    finally:
        os._exit(code)


def _forget_the_test() -> None:
    """Reset what a new interpreter does not inherit, such as handlers, exit functions, random numbers and plug-ins."""
    gc.freeze()
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number in _HANDLERS or signal.getsignal(number) not in {signal.SIG_DFL, signal.SIG_IGN, None}:
            signal.signal(number, _HANDLERS.get(number, signal.SIG_DFL))
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    random.seed()
    tempfile.tempdir = None  # it is read from TMPDIR again
    loading._installed.cache_clear()
    for name in _IMPORTED_AGAIN:
        sys.modules.pop(name, None)


def _connect(descriptors: Sequence[int]) -> None:
    """Make these the standard streams, and close every other descriptor."""
    given = [each if each >= 0 else number for number, each in enumerate(descriptors)]
    copies = [fcntl.fcntl(each, fcntl.F_DUPFD, len(given)) for each in given]  # none of them is a standard stream
    for number, copy in enumerate(copies):
        os.dup2(copy, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, (name, (encoding, errors)) in enumerate(_ENCODINGS.items()):
        direct = unbuffered and number > 0
        file = open(number, "wb" if number else "rb", 0 if direct else -1, closefd=False)  # noqa: SIM115 - never closed
        by_line = not unbuffered and (name == "stderr" or os.isatty(number))
        stream = TextIOWrapper(file, encoding, errors, line_buffering=by_line, write_through=direct)  # type: ignore[type-var]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(program: Callable[[], object]) -> int:
    """Run the program and then what Python runs when it ends."""
    code: Any = 0
    try:
        program()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - Python prints it and ends with 1
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = code or 120
    with suppress(OSError):
        sys.stderr.flush()
    return (code or 0) & 0xFF
