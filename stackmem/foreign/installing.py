"""The command that installs an extra, for messages. It depends on how this copy of stackmem was installed.

stackmem is not registered on the package index. Anyone who registers the name there could run code on the machine of
every user who installs it from the index. So no command here installs stackmem from the index.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_CHECKOUT = Path(__file__).resolve().parents[2]
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this copy.

    A checkout, a folder, a wheel or a repository is installed again with the extra. If the origin of this copy is
    unknown, the command installs only the packages of other projects that the extra consists of.
    """
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "stackmem" / "core" / "version.py").is_file():
        return _pip("-e", f"{_CHECKOUT}[{extra}]")
    from importlib import metadata  # slow, and few processes need it

    try:
        distribution = metadata.distribution("stackmem")
    except metadata.PackageNotFoundError:
        return f"install the extra {extra!r} from the checkout or wheel that this copy came from"
    source = _source(_read(distribution.read_text("direct_url.json")), extra)
    return _pip(*(source or _requirements(distribution.requires or [], extra)))


def install_packages(*names: str) -> str:
    """Return the command that installs packages of other projects next to stackmem."""
    return _pip(*names)


def _pip(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *words])


def _read(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _source(direct: dict[str, Any], extra: str) -> tuple[str, ...]:
    """Return pip's arguments for the same source with an extra. Empty if the source is unknown or no longer exists.

    ``direct`` is the content of ``direct_url.json``, as in the packaging specifications.
    """
    parts = urlsplit(str(direct.get("url", "")))
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()  # without a name and password
    version = direct.get("vcs_info")
    if isinstance(version, dict) and parts.scheme:
        commit = f"@{version['commit_id']}" if version.get("commit_id") else ""
        return (f"stackmem[{extra}] @ {version.get('vcs', 'git')}+{bare}{commit}",)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        if not path.exists():
            return ()
        if isinstance(direct.get("dir_info"), dict):
            return (*(("-e",) if direct["dir_info"].get("editable") else ()), f"{path}[{extra}]")
        return (f"stackmem[{extra}] @ {bare}",)
    if parts.scheme == "https" and isinstance(direct.get("archive_info"), dict):
        return (f"stackmem[{extra}] @ {bare}",)
    return ()


def _requirements(lines: list[str], extra: str) -> list[str]:
    """Return the requirements of the extra without their markers."""
    split = [line.partition(";") for line in lines]
    return [before.strip() for before, _, marker in split if extra in _EXTRA.findall(marker)]
