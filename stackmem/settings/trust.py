"""Folders whose own servers a person lets run on her machine, each with the digest of what she looked at."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from stackmem.errors import UsageError

from .settings_files import user_folder

SERVERS_FILE = "stackmem.mcp.toml"
"""A folder's own servers; nothing in it counts before the folder is trusted."""


def trusted_path(environ: Mapping[str, str]) -> Path:
    """Where trust is recorded.

    Raises:
        UsageError: Neither XDG_STATE_HOME nor HOME says where.

    """
    path = user_folder(environ, "XDG_STATE_HOME", ".local/state", "trusted.json")
    if path is None:
        raise UsageError("neither XDG_STATE_HOME nor HOME is an absolute path; set one, trust is recorded there")
    return path


def digest_of_servers(folder: Path) -> str:
    """The digest of a folder's servers file.

    Raises:
        UsageError: There is none, or it cannot be read.

    """
    try:
        return hashlib.sha256((folder / SERVERS_FILE).read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(
            f"{folder / SERVERS_FILE} cannot be read ({error.strerror}); there is nothing to trust"
        ) from error


def is_trusted(folder: Path, environ: Mapping[str, str]) -> bool:
    """Whether the person has trusted the folder with its servers as they are now."""
    return _read(trusted_path(environ)).get(str(folder.resolve())) == digest_of_servers(folder)


def trust(folder: Path, environ: Mapping[str, str], *, trusted: bool = True) -> None:
    """Record that the folder is trusted with its servers as they are now, or no more.

    Raises:
        UsageError: It has no servers, or trust cannot be recorded.

    """
    path = trusted_path(environ)
    known = _read(path)
    name = str(folder.resolve())
    if trusted:
        known[name] = digest_of_servers(folder)
    else:
        known.pop(name, None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(f"trust cannot be recorded in {path} ({error.strerror}); make room or rights there") from error


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); mend or remove it, nothing is trusted then") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no record of trust; remove it, nothing is trusted then")
    return {str(name): str(digest) for name, digest in found.items()}
