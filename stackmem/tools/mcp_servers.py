"""The person's servers of the Model Context Protocol as tools, for as long as a command lasts.

Source: the Model Context Protocol, by its own Python package (the extra ``mcp``).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stackmem.errors import UsageError
from stackmem.installing import install_command
from stackmem.settings.mcp_servers import servers

from .own_tools import TOOLS, register


@contextmanager
def own_servers(
    environ: Mapping[str, str], cwd: Path, *, root: Path | None = None, asks: bool = False
) -> Iterator[tuple[str, ...]]:
    """The person's servers, connected, and their tools registered as ``SERVER__TOOL``; yields warnings.

    Args:
        root: The folder to work on, which servers are told of; left out, ``cwd``.
        asks: Whether a server may ask the person something, by ``answered_by``.

    Raises:
        UsageError: A file of servers is broken, the package is missing, or a server does not answer.
    """
    wanted, warnings = servers(environ, cwd)
    if not wanted:
        yield warnings
        return
    _require_package()
    names: list[str] = []
    from .mcp_connection import Connections  # an event loop takes long to import

    with Connections((root or cwd).resolve(), asks=asks) as loop:
        try:
            with _nothing_collected():
                for name, server in wanted.items():
                    tools = loop.connect(name, server)
                    register(tools)
                    names += [each.name for each in tools]
            yield warnings
        finally:
            for name in names:
                TOOLS.pop(name, None)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Thousands of tools are objects of which none is garbage; to look for some takes as long as to read them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _require_package() -> None:
    try:
        import mcp  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise UsageError(
            f"servers are set and the extra 'mcp' is missing; install it: {install_command('mcp')}"
        ) from error
