"""Run the command line inside the test process, for tests that check only its text and exit code.

Tests of signals, terminals, start-up or process exit need a process: ``Stage.run`` and ``Stage.start``.
"""

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stackmem.cli.main import main
from stackmem.languages.language import MODULES
from stackmem.memory import STRATEGIES
from stackmem.models.registry import MODELS
from stackmem.run.plugins import loading
from stackmem.settings.tools.own_tools import TOOLS

REGISTRIES: tuple[dict[str, Any], ...] = (TOOLS, STRATEGIES, MODELS, MODULES)


def command_line(arguments: list[str], environ: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process would with these arguments, variables and folder; every change is undone."""
    out, err = _stream("strict"), _stream("backslashreplace")
    code: Any = 0
    with ExitStack() as stack:
        for name, stream in (("stdout", out), ("stderr", err)):
            stack.enter_context(patch.object(sys, name, stream))
            stack.enter_context(patch.object(sys, f"__{name}__", stream))
        stack.enter_context(patch.object(sys, "stdin", stack.enter_context(Path(os.devnull).open(encoding="utf-8"))))
        stack.enter_context(patch.object(sys, "argv", ["stackmem", *arguments]))
        stack.enter_context(patch.object(sys, "path", list(sys.path)))
        stack.enter_context(patch.dict(os.environ, environ, clear=True))
        stack.enter_context(chdir(cwd))
        stack.enter_context(_restored())
        try:
            main()
        except SystemExit as end:
            code = end.code
        except BaseException:  # noqa: BLE001 - a process prints it and ends with 1, and so it is here
            traceback.print_exc(file=err)
            code = 1
    texts = [_read(stream) for stream in (out, err)]
    return subprocess.CompletedProcess(["stackmem", *arguments], code if isinstance(code, int) else 0, *texts)


def _stream(errors: str) -> TextIOWrapper:
    return TextIOWrapper(tempfile.TemporaryFile(), encoding="utf-8", errors=errors)


def _read(stream: TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    with stream:
        return stream.read()


@contextmanager
def _restored() -> Iterator[None]:
    """Restore registries, user modules, signal handlers and the first file descriptors."""
    registries = [dict(registry) for registry in REGISTRIES]
    modules = set(sys.modules)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    descriptors = {number: os.dup(number) for number in (1, 2)}
    loading._installed.cache_clear()
    try:
        yield
    finally:
        for number, kept in descriptors.items():
            os.dup2(kept, number)
            os.close(kept)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for registry, before in zip(REGISTRIES, registries, strict=True):
            registry.clear()
            registry.update(before)
        loading._installed.cache_clear()
        for name in set(sys.modules) - modules:
            if not _ours(getattr(sys.modules[name], "__file__", None)):
                del sys.modules[name]


def _ours(file: str | None) -> bool:
    """Return whether the module belongs to the package or a library and may stay loaded."""
    return file is None or file.startswith((str(Path(__file__).parents[1] / "stackmem"), sys.prefix, sys.base_prefix))
