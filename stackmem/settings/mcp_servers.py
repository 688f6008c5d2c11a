"""The MCP servers that a user has configured: in the user's own file, or in a trusted folder.

Trust in a folder is recorded as a digest of its server configuration and of the folder's files that the servers name.
Each file is read once: display, digest and start use the same bytes.

``mcp.toml`` next to ``config.toml``, and ``stackmem.mcp.toml`` in a trusted folder, contain a table per server::

    [files]
    command = ["npx", "server-files", "/data"]    # a process on this machine
    env = { TOKEN = "..." }
    parallel = ["read"]                           # tools that may run in parallel
    idempotent = ["read"]                         # tools that may be called again after a crash

    [search]
    url = "https://example.org/mcp"               # or a server elsewhere
    tools = ["query", "get_*"]                    # offer only these
    names = { query = "find" }                    # rename tools
    most = 50                                     # maximum number of tools
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.files import open_regular, read_regular_text

from .settings_files import MAX_FILE_BYTES, read_tables, read_within, user_folder

SERVERS_FILE = "stackmem.mcp.toml"
"""A folder's own servers; ignored until the folder is trusted."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IN_WORD = re.compile(r"[\s=:,;'\"()&|<>]+")
"""Separators between paths within one word."""
_MAX_TOOLS = 100_000
_MAX_NAMED_BYTES = 64 << 20


class NamedFile(Struct, frozen=True):
    """A file in the folder that a server's command or environment names."""

    path: str  # as spelled in the configuration
    # describes its content: its SHA-256, only its size if it is very large, or the target if it is a link out of the
    # folder
    content: str


class FolderServers(Struct, frozen=True):
    """The servers of a folder, read once."""

    folder: Path  # the resolved folder
    servers: dict[str, Server]
    files: tuple[NamedFile, ...]
    digest: str  # the digest that trust is recorded with


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """One server."""

    command: tuple[str, ...] = ()  # the program and its arguments; empty if ``url`` is set
    url: str = ""
    env: dict[str, str] = {}
    # the tools to offer, by name or pattern (``get_*``); empty offers all
    tools: tuple[str, ...] = ()
    names: dict[str, str] = {}  # maps tools to new names
    most: int = 128  # maximum number of tools in the prompt; with more, the user must choose
    parallel: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()
    seconds: float = 60.0  # time limit of one call


def servers(environ: Mapping[str, str], cwd: Path) -> tuple[dict[str, Server], tuple[str, ...]]:
    """Return ``(servers by name, warnings)``: the user's own, then those of the current folder if it is trusted.

    Raise UsageError if a file is broken, or two servers have the same name.
    """
    by_name: dict[str, Server] = {}
    warnings: list[str] = []
    own = user_folder(environ, "XDG_CONFIG_HOME", ".config", "mcp.toml")
    if own is not None and own.is_file():
        by_name.update(_parsed(own, read_within(own, MAX_FILE_BYTES)))
    if (cwd / SERVERS_FILE).is_file():
        folder = read_folder(cwd)
        if is_trusted(folder, environ):
            if twice := sorted(by_name.keys() & folder.servers):
                raise UsageError(f"{cwd / SERVERS_FILE} and {own} both name the server {twice[0]}; rename one")
            by_name.update(folder.servers)
        else:
            name = str(cwd) if str(cwd).isprintable() else ascii(str(cwd))
            warnings.append(f"{name}/{SERVERS_FILE} is ignored because it is not trusted; run stackmem trust {name}")
    return by_name, tuple(warnings)


def read_folder(folder: Path) -> FolderServers:
    """Return the servers of a folder, with the digest for recording trust.

    Raise UsageError if the file cannot be read, or has an unknown key or value.
    """
    path = folder.resolve()
    raw = read_within(path / SERVERS_FILE, MAX_FILE_BYTES)
    table = _parsed(path / SERVERS_FILE, raw)
    files = tuple(named_files(path, table))
    digest = hashlib.sha256(b"stackmem trust 2\n" + hashlib.sha256(raw).digest())
    digest.update(msgspec.json.encode(files))
    return FolderServers(path, table, files, digest.hexdigest())


def named_files(folder: Path, table: Mapping[str, Server]) -> Iterator[NamedFile]:
    """Yield the folder's files that commands and variables name, each once."""
    words: dict[str, None] = {}
    for server in table.values():
        for text in (*server.command, *server.env.values()):
            words |= dict.fromkeys((text, *_IN_WORD.split(text)))  # also matches "--load=./a.js" and "./serve.sh --all"
        for entry in _IN_WORD.split(server.env.get("PATH", "")):
            words |= dict.fromkeys(f"{entry}/{program}" for program in server.command[:1] if entry)
    for word in words:
        path = os.path.normpath(folder / word)
        if not Path(path).is_relative_to(folder):
            continue
        try:
            with open_regular(path) as file:
                yield NamedFile(word, _content(file, folder))
        except (OSError, ValueError):
            continue  # not a file


def _content(file: BinaryIO, folder: Path) -> str:
    target = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    size = os.fstat(file.fileno()).st_size
    if not target.is_relative_to(folder):
        return f"link to {target}"
    if size > _MAX_NAMED_BYTES:
        return f"{size:,} bytes, too many to be compared"
    return f"SHA-256 {hashlib.sha256(file.read(_MAX_NAMED_BYTES)).hexdigest()}"


def _parsed(path: Path, raw: bytes) -> dict[str, Server]:
    _, tables = read_tables(path, raw)
    return {name: _server(path, name, table) for name, table in tables.items()}


def _server(path: Path, name: str, table: Any) -> Server:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{path}: {name[:80]!r} is not a valid server name; it must match {_NAME.pattern}")
    try:
        server = msgspec.convert(table, Server)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: the server {name}: {error}; known: {', '.join(Server.__struct_fields__)}") from error
    if bool(server.command) == bool(server.url):
        raise UsageError(f"{path}: the server {name} needs either a command or a url")
    if server.url and not server.url.startswith(("https://", "http://")):
        raise UsageError(f"{path}: the url of the server {name} must begin with https:// or http://")
    if wrong := next((new for new in server.names.values() if not _TOOL.fullmatch(new)), None):
        raise UsageError(f"{path}: {wrong[:80]!r} is not a valid tool name; it must match {_TOOL.pattern}")
    if not 0 < server.most <= _MAX_TOOLS:
        raise UsageError(f"{path}: most of the server {name} must be above 0 and at most {_MAX_TOOLS:,}")
    if not 0 < server.seconds <= 3_600:
        raise UsageError(f"{path}: seconds of the server {name} must be above 0 and at most 3,600")
    return server


def trusted_path(environ: Mapping[str, str]) -> Path:
    """Return the file in which trust is recorded. Raise UsageError if neither XDG_STATE_HOME nor HOME is set."""
    path = user_folder(environ, "XDG_STATE_HOME", ".local/state", "trusted.json")
    if path is None:
        raise UsageError("neither XDG_STATE_HOME nor HOME is an absolute path; set one, trust is recorded there")
    return path


def is_trusted(files: FolderServers, environ: Mapping[str, str]) -> bool:
    """Return whether the user trusts the folder with exactly these servers."""
    return _read_trust(trusted_path(environ)).get(str(files.folder)) == files.digest


def reason_for_distrust(root: Path, servers: FolderServers, environ: Mapping[str, str]) -> str:
    """Return why a file of the folder ``root`` does not count, for a message; empty if the user trusts it."""
    try:
        if is_trusted(servers, environ):
            return ""
    except UsageError as error:
        return f"because the record of trust is not usable: {error}"
    name = str(root) if str(root).isprintable() else ascii(str(root))
    return f"because it is not trusted; run stackmem trust {name}"


def trust(files: FolderServers, environ: Mapping[str, str]) -> None:
    """Record trust in a folder with these servers. Raises ``UsageError`` if that fails."""
    path = trusted_path(environ)
    _write_trust(path, _read_trust(path) | {str(files.folder): files.digest})


def distrust(folder: Path, environ: Mapping[str, str]) -> None:
    """Remove the trust in a folder. Raises ``UsageError`` if that fails."""
    path = trusted_path(environ)
    digests = _read_trust(path)
    digests.pop(str(folder.resolve()), None)
    _write_trust(path, digests)


def _write_trust(path: Path, digests: Mapping[str, str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(
            f"trust cannot be recorded in {path} ({error.strerror}); free disk space or fix the permissions"
        ) from error


def _read_trust(path: Path) -> dict[str, str]:
    try:
        record = json.loads(read_regular_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); fix it, or remove it to trust no folder") from error
    if not isinstance(record, dict):
        raise UsageError(f"{path} is not a record of trust; remove it to trust no folder")
    return {str(name): str(digest) for name, digest in record.items()}
