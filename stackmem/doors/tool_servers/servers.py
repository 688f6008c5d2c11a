"""Connects to MCP servers and registers their tools.

Source: the Model Context Protocol, through its official Python package (the extra ``mcp``).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stackmem.core.errors import UsageError
from stackmem.foreign.installing import install_command
from stackmem.settings.mcp_servers import Server
from stackmem.settings.tools.own_tools import NOTES, TOOLS, register


@contextmanager
def connected(configured: Mapping[str, Server], root: Path, *, asks: bool = False) -> Iterator[None]:
    """Connect to servers and register their tools.

    Raise UsageError if the package is missing, or a server does not answer.
    """
    if not configured:
        yield
        return
    _require_package()
    names: list[str] = []
    noted = len(NOTES)
    from stackmem.doors.tool_servers.connection import Connections  # asyncio is slow to import

    with Connections(root.resolve(), asks=asks) as loop:
        try:
            with _nothing_collected():
                for name, server in configured.items():
                    tools = loop.connect(name, server)
                    register(tools)
                    names += [each.name for each in tools]
            NOTES.extend(loop.notes)
            yield
        finally:
            for name in names:
                TOOLS.pop(name, None)
            del NOTES[noted:]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Disable garbage collection: with thousands of new tool objects it takes as long as reading them, and finds
    nothing.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _require_package() -> None:
    try:
        import mcp  # noqa: F401 - only to check that it is installed
    except ImportError as error:
        raise UsageError(
            f"MCP servers are configured, but the extra 'mcp' is missing; install it: {install_command('mcp')}"
        ) from error
