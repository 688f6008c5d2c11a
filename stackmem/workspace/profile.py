"""The sandbox profile: the limits of commands, and what they can see of the host.

The defaults here are the complete profile; a file overrides single keys. ``sandbox/profile.toml`` lists all of them.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import parse_toml
from stackmem.foreign.files import read_regular_text

from .environment import refusal

_MAX_FILE_BYTES = 1 << 20


class Mount(Struct, frozen=True, forbid_unknown_fields=True):
    """A host folder or file that commands can see."""

    host: str  # absolute path on the host; links are resolved when it is mounted
    inside: str  # absolute path inside the sandbox; levels that cannot mount use the host path
    writable: bool = False

    def __post_init__(self) -> None:
        for name, path in (("host", self.host), ("inside", self.inside)):
            if not path.startswith("/") or "\0" in path or ".." in PurePosixPath(path).parts:
                raise ValueError(f"mount: {name} is {path!r}; write an absolute path without '..'")


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one command, and access beyond the workspace."""

    # ``list`` allows the hosts that the user lists, ``host`` shares the host's network; only the user may set these
    network: Literal["none", "list", "host"] = "none"
    network_connections: int = 32  # concurrent connections of one command to listed hosts; further ones wait
    network_up_mib: int = 64  # upload limit of one command to listed hosts
    network_down_mib: int = 2048  # download limit of one command from listed hosts
    command_seconds: float = 30.0  # wall time of one command
    process_limit: int = 512  # processes and threads of one command
    # resident memory of all processes of a command; shared pages count for each process. Capped at nine tenths of the
    # machine's memory
    memory_mib: int = 8192
    process_memory_mib: int = 4096  # private data of one process
    file_mib: int = 2048  # maximum size of one file
    open_files: int = 1024  # file descriptors of one process
    output_mib: int = 64  # maximum output; a command that prints more is killed
    tmp_mib: int = 512  # size of ``/tmp``, if the level mounts one
    shm_mib: int = 64  # size of ``/dev/shm``, if the level mounts one
    disk_mib: int = 8192  # disk space that one command may use in the workspace's file system
    new_files: int = 500_000  # number of files that one command may create there
    mounts: tuple[Mount, ...] = ()  # read-only toolchains
    path: tuple[str, ...] = ()  # folders inside the sandbox that come before the system's on PATH
    env: tuple[str, ...] = ()  # names of the user's environment variables that commands may see

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not (math.isfinite(value) and 0 < value <= 1 << 30):
                raise ValueError(f"{name} is {value}; write a number above 0 and at most {1 << 30}")
        for mount in self.mounts:
            if mount.writable:
                raise ValueError(f"mounts: {mount.host} is writable; a profile grants read-only mounts only")
        for entry in self.path:
            if not entry.startswith("/") or ":" in entry or "\0" in entry:
                raise ValueError(f"path: {entry!r}; write absolute folders without ':'")
        for name in self.env:
            if reason := refusal(name):
                raise ValueError(f"env: {reason}")


def read_profile(path: Path) -> Profile:
    """Read a profile file. Missing keys keep their defaults.

    Raise UsageError if the file cannot be read, or a key is unknown, of the wrong type or out of range.
    """
    try:
        return msgspec.convert(parse_toml(read_regular_text(path, _MAX_FILE_BYTES)), Profile)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a readable profile with --profile FILE") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML ({error}); correct the file") from error
    except msgspec.ValidationError as error:
        keys = ", ".join(Profile.__struct_fields__)
        raise UsageError(f"{path}: {error}; correct the key, known keys are {keys}") from error
