"""Provides the tools of the user's MCP servers while a command runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stackmem.core.neighbors import neighbor
from stackmem.settings.mcp_servers import servers


@contextmanager
def own_servers(
    environ: Mapping[str, str], cwd: Path, *, root: Path | None = None, asks: bool = False
) -> Iterator[tuple[str, ...]]:
    """Connect to the user's servers and register their tools as ``SERVER__TOOL``. Yields warnings.

    ``root`` is the working folder that is reported to servers; defaults to ``cwd``. ``asks`` says whether a server may
    ask the user, through ``answered_by``. Raise UsageError if a server configuration is invalid, the package is
    missing, or a server does not answer.
    """
    table, warnings = servers(environ, cwd)
    if not table:
        yield warnings
        return
    with neighbor("doors: connect to tool servers")(table, root or cwd, asks=asks):
        yield warnings
