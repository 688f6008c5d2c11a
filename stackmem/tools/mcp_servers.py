"""The person's servers of the Model Context Protocol as tools, for as long as a command lasts.

Source: the Model Context Protocol, by its own Python package (``pip install 'stackmem[mcp]'``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stackmem.errors import UsageError
from stackmem.settings.mcp_servers import servers

from .own_tools import TOOLS, register


@contextmanager
def own_servers(environ: Mapping[str, str], cwd: Path) -> Iterator[tuple[str, ...]]:
    """The person's servers, connected, and their tools registered as ``SERVER__TOOL``; yields warnings.

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

    with Connections() as loop:
        try:
            for name, server in wanted.items():
                tools = loop.connect(name, server)
                register(tools)
                names += [each.name for each in tools]
            yield warnings
        finally:
            for name in names:
                TOOLS.pop(name, None)


def _require_package() -> None:
    try:
        import mcp  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise UsageError("servers are set and the package for them is missing; pip install 'stackmem[mcp]'") from error
