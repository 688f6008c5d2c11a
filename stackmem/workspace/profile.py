"""The sandbox profile: what commands may use, and what of the host they may see.

The defaults here are the whole profile; a file overrides single keys. ``sandbox/profile.toml`` spells them out.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
from msgspec import Struct

from stackmem.core.strict_json import parse_toml
from stackmem.errors import UsageError
from stackmem.foreign.files import read_regular_text

from .environment import refusal

_MAX_FILE_BYTES = 1 << 20


class Mount(Struct, frozen=True, forbid_unknown_fields=True):
    """A host folder or file that commands see.

    Attributes:
        host: Absolute path on the host; links in it are followed when it is mounted.
        inside: Absolute path for commands; a level that cannot mount shows the host path instead.
    """

    host: str
    inside: str
    writable: bool = False

    def __post_init__(self) -> None:
        for name, path in (("host", self.host), ("inside", self.inside)):
            if not path.startswith("/") or "\0" in path or ".." in PurePosixPath(path).parts:
                raise ValueError(f"mount: {name} is {path!r}; write an absolute path without '..'")


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one command, and what is granted beyond the workspace.

    Attributes:
        network: ``list`` reaches the hosts that the person lists, ``host`` shares the host's network; only the person
            may say so.
        network_connections: Of one command at once, to listed hosts; more wait.
        network_up_mib: What one command may send to listed hosts.
        network_down_mib: What listed hosts may send to one command.
        command_seconds: Wall time of one command.
        process_limit: Processes and threads of one command together.
        memory_mib: Resident memory of all processes of a command together; pages they share count for each. Never more
            than nine tenths of the machine's memory.
        process_memory_mib: Private data of one process.
        file_mib: One file.
        open_files: Descriptors of one process.
        output_mib: A command that prints more is killed.
        tmp_mib: Size of ``/tmp``, where the level mounts one.
        shm_mib: Size of ``/dev/shm``, where the level mounts one.
        disk_mib: What one command may take from the workspace's file system.
        new_files: How many files one command may create there.
        mounts: Read-only toolchains.
        path: Folders, as commands see them, that stand before the system's on PATH.
        env: Names of the person's environment that commands may see.
    """

    network: Literal["none", "list", "host"] = "none"
    network_connections: int = 32
    network_up_mib: int = 64
    network_down_mib: int = 2048
    command_seconds: float = 30.0
    process_limit: int = 512
    memory_mib: int = 8192
    process_memory_mib: int = 4096
    file_mib: int = 2048
    open_files: int = 1024
    output_mib: int = 64
    tmp_mib: int = 512
    shm_mib: int = 64
    disk_mib: int = 8192
    new_files: int = 500_000
    mounts: tuple[Mount, ...] = ()
    path: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

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
            if why := refusal(name):
                raise ValueError(f"env: {why}")


def read_profile(path: Path) -> Profile:
    """Read a profile file; keys it leaves out keep their defaults.

    Raises:
        UsageError: The file cannot be read, or a key is unknown, of the wrong type or out of range.
    """
    try:
        return msgspec.convert(parse_toml(read_regular_text(path, _MAX_FILE_BYTES)), Profile)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; name a readable profile with --profile FILE") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML ({error}); correct the file") from error
    except msgspec.ValidationError as error:
        known = ", ".join(Profile.__struct_fields__)
        raise UsageError(f"{path}: {error}; correct the key, known keys are {known}") from error
