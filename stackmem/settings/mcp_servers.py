"""The servers of the Model Context Protocol that a person has set: in her own file, or in a folder that she trusts.

Trust in a folder is recorded as a digest over its servers file and the files of the folder that the servers name. Each
file is read once: what is shown, what the digest covers and what starts come from the same bytes.

``mcp.toml`` beside her ``config.toml``, and ``stackmem.mcp.toml`` in a trusted folder, hold a table for each::

    [files]
    command = ["npx", "server-files", "/data"]    # a process on this machine
    env = { TOKEN = "..." }
    parallel = ["read"]                           # tools that may run side by side
    idempotent = ["read"]                         # tools that may be called again after a crash

    [search]
    url = "https://example.org/mcp"               # or a server elsewhere
    tools = ["query", "get_*"]                    # offer only these
    names = { query = "find" }                    # what they are called instead
    most = 50                                     # more tools than this are not taken
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from stackmem.core.strict_json import parse_toml
from stackmem.errors import UsageError
from stackmem.foreign.files import open_regular, read_regular_text, read_start

from .settings_files import user_folder

SERVERS_FILE = "stackmem.mcp.toml"
"""A folder's own servers; nothing in it counts before the folder is trusted."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IN_WORD = re.compile(r"[\s=:,;'\"()&|<>]+")
"""What stands between paths within one word."""
_MOST_TOOLS = 100_000
_MOST_BYTES = 256 * 1024
_MOST_NAMED_BYTES = 64 << 20


class NamedFile(Struct, frozen=True):
    """A file of the folder that a server's command or environment names."""

    path: str  # as the server names it
    # what stands for its content: its SHA-256, only its size if it is very large, or where it leads if it is a link out
    # of the folder
    content: str


class FolderServers(Struct, frozen=True):
    """The servers of a folder, read once."""

    folder: Path  # the folder, without links
    servers: dict[str, Server]
    files: tuple[NamedFile, ...]
    digest: str  # what trust is recorded with


class Server(Struct, frozen=True, forbid_unknown_fields=True):
    """One server."""

    command: tuple[str, ...] = ()  # the program and its arguments; empty where ``url`` says where it is
    url: str = ""
    env: dict[str, str] = {}
    # the only tools of it that are offered, by name or pattern (``get_*``); empty offers all
    tools: tuple[str, ...] = ()
    names: dict[str, str] = {}  # what a tool is called instead of its own name
    most: int = 128  # how many tools may enter the prompt; with more the person has to choose
    parallel: tuple[str, ...] = ()
    idempotent: tuple[str, ...] = ()
    seconds: float = 60.0  # what one call may take


def servers(environ: Mapping[str, str], cwd: Path) -> tuple[dict[str, Server], tuple[str, ...]]:
    """``(name to server, warnings)``: the person's own, then those of a trusted folder where she stands."""
    known: dict[str, Server] = {}
    warnings: list[str] = []
    own = user_folder(environ, "XDG_CONFIG_HOME", ".config", "mcp.toml")
    if own is not None and own.is_file():
        known.update(_parsed(own, _read(own)))
    if (cwd / SERVERS_FILE).is_file():
        theirs = read_folder(cwd)
        if is_trusted(theirs, environ):
            if twice := sorted(known.keys() & theirs.servers):
                raise UsageError(f"{cwd / SERVERS_FILE} and {own} both name the server {twice[0]}; rename one")
            known.update(theirs.servers)
        else:
            place = str(cwd) if str(cwd).isprintable() else ascii(str(cwd))
            warnings.append(f"{place}/{SERVERS_FILE} starts nothing, as it is not trusted; say stackmem trust {place}")
    return known, tuple(warnings)


def read_folder(folder: Path) -> FolderServers:
    """The servers that a folder names, with the digest that trust in them is recorded with."""
    place = folder.resolve()
    raw = _read(place / SERVERS_FILE)
    named = _parsed(place / SERVERS_FILE, raw)
    files = tuple(_named_files(place, named))
    told = hashlib.sha256(b"stackmem trust 2\n" + hashlib.sha256(raw).digest())
    told.update(msgspec.json.encode(files))
    return FolderServers(place, named, files, told.hexdigest())


def _named_files(folder: Path, named: Mapping[str, Server]) -> Iterator[NamedFile]:
    """The folder's files among the words of commands and the paths in variables, each once."""
    words: dict[str, None] = {}
    for server in named.values():
        for text in (*server.command, *server.env.values()):
            words |= dict.fromkeys((text, *_IN_WORD.split(text)))  # also "--load=./a.js", and "./serve.sh --all"
        for place in _IN_WORD.split(server.env.get("PATH", "")):
            words |= dict.fromkeys(f"{place}/{program}" for program in server.command[:1] if place)
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
    if size > _MOST_NAMED_BYTES:
        return f"{size:,} bytes, too many to be compared"
    return f"SHA-256 {hashlib.sha256(file.read(_MOST_NAMED_BYTES)).hexdigest()}"


def _read(path: Path) -> bytes:
    try:
        raw = read_start(path, _MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); give yourself the right, or remove it") from error
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"{path} is over {_MOST_BYTES:,} bytes; no list of servers is")
    return raw


def _parsed(path: Path, raw: bytes) -> dict[str, Server]:
    try:
        tables: dict[str, Any] = parse_toml(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML ({error}); mend it") from error
    return {name: _server(path, name, table) for name, table in tables.items()}


def _server(path: Path, name: str, table: Any) -> Server:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{path}: {name[:80]!r} is no name of a server; it looks like {_NAME.pattern}")
    try:
        server = msgspec.convert(table, Server)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: the server {name}: {error}; known: {', '.join(Server.__struct_fields__)}") from error
    if bool(server.command) == bool(server.url):
        raise UsageError(f"{path}: the server {name} needs either a command or a url")
    if server.url and not server.url.startswith(("https://", "http://")):
        raise UsageError(f"{path}: the url of the server {name} must begin with https:// or http://")
    if wrong := next((new for new in server.names.values() if not _TOOL.fullmatch(new)), None):
        raise UsageError(f"{path}: {wrong[:80]!r} is no name of a tool; it looks like {_TOOL.pattern}")
    if not 0 < server.most <= _MOST_TOOLS:
        raise UsageError(f"{path}: the most tools of the server {name} must be above 0 and at most {_MOST_TOOLS:,}")
    if not 0 < server.seconds <= 3_600:
        raise UsageError(f"{path}: the seconds of the server {name} must be above 0 and at most 3,600")
    return server


def trusted_path(environ: Mapping[str, str]) -> Path:
    """Where trust is recorded."""
    path = user_folder(environ, "XDG_STATE_HOME", ".local/state", "trusted.json")
    if path is None:
        raise UsageError("neither XDG_STATE_HOME nor HOME is an absolute path; set one, trust is recorded there")
    return path


def is_trusted(found: FolderServers, environ: Mapping[str, str]) -> bool:
    """Whether the person has trusted the folder with exactly these servers."""
    return _read_trust(trusted_path(environ)).get(str(found.folder)) == found.digest


def trust(found: FolderServers, environ: Mapping[str, str]) -> None:
    """Record that the folder is trusted with these servers; raises ``UsageError`` if that cannot be recorded."""
    path = trusted_path(environ)
    _write_trust(path, _read_trust(path) | {str(found.folder): found.digest})


def distrust(folder: Path, environ: Mapping[str, str]) -> None:
    """Record that the folder is not trusted any more; raises ``UsageError`` if that cannot be recorded."""
    path = trusted_path(environ)
    known = _read_trust(path)
    known.pop(str(folder.resolve()), None)
    _write_trust(path, known)


def _write_trust(path: Path, known: Mapping[str, str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(f"trust cannot be recorded in {path} ({error.strerror}); make room or rights there") from error


def _read_trust(path: Path) -> dict[str, str]:
    try:
        record = json.loads(read_regular_text(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); mend or remove it, nothing is trusted then") from error
    if not isinstance(record, dict):
        raise UsageError(f"{path} is no record of trust; remove it, nothing is trusted then")
    return {str(name): str(digest) for name, digest in record.items()}
