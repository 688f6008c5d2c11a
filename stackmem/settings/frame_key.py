"""The key that seals the frame marks of ``stackmem mcp``, so that the gateway can tell them from copies in data.

It is ``keys/frames.key`` in the user's state directory. Agents pass HOME to their servers, but often not
XDG_STATE_HOME, so the gateway accepts the keys of both directories.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from stackmem.foreign.private import UnusableKey, create_key_file, read_key_file

from .settings_files import user_folder

_KEY = re.compile(rb"[0-9a-f]{64}")
_STATE, _NAME = ".local/state", "frames.key"
BELOW_HOME = f"{_STATE}/stackmem/keys/{_NAME}"
"""The key's path in a home without XDG_STATE_HOME."""


def frame_key(environ: Mapping[str, str]) -> bytes:
    """Return the key, creating it on first use.

    Raise UnusableKey if the key is not available. The message gives the reason and the fix.
    """
    path = _key_file(environ)
    if path is None:
        raise UnusableKey("neither XDG_STATE_HOME nor HOME is an absolute path; set one, keys are kept there")
    return _read(path) or create_key_file(path, new_frame_key())


def frame_keys(environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the keys that servers on this machine may use; does not create one.

    Raise UnusableKey if a key exists and cannot be used. The message gives the reason and the fix.
    """
    without = {name: value for name, value in environ.items() if name != "XDG_STATE_HOME"}
    paths = dict.fromkeys((_key_file(environ), _key_file(without)))
    keys = (_read(path) for path in paths if path is not None)
    return tuple(key for key in keys if key is not None)


def new_frame_key() -> bytes:
    """Return a new random key."""
    return secrets.token_hex(32).encode()


def _key_file(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the key; None without a state directory."""
    folder = user_folder(environ, "XDG_STATE_HOME", _STATE, "keys")
    return None if folder is None else folder / _NAME


def _read(path: Path) -> bytes | None:
    key = read_key_file(path)
    if key is not None and not _KEY.fullmatch(key):
        raise UnusableKey(f"{path} is not a key for frame marks; remove it to get a new one")
    return key
