"""Reads settings files: the project's, which is untrusted, and the user's own.

A file with an unknown key, a key that is not allowed in it, an additional table or invalid TOML is refused as a whole.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import parse_toml
from stackmem.foreign.files import read_start

from .options import ELSEWHERE, OPTIONS, suggestion

MAX_FILE_BYTES = 256 * 1024
_PROJECT_FILE, _PYPROJECT, _TABLE = "stackmem.toml", "pyproject.toml", ("tool", "stackmem")
_PLACED_CHARS, _PLACED_TRIES = 32 * 1024, 20
# A key with 100,000 dots makes the parser use 40 GB. A key cannot span lines.
_MAX_DOTS = 250


class SettingsFile(Struct, frozen=True):
    """A file with settings."""

    path: Path
    spelled: str  # the path for messages: relative to the working directory or the home folder
    text: str
    values: dict[str, Any]
    table: tuple[str, ...] = ()  # names of the enclosing tables, outermost first
    project: bool = False  # whether it belongs to a project and may only set harmless options

    def location_of(self, key: str) -> str:
        """Return the location, for example ``stackmem.toml:3``, without the line if it cannot be determined."""
        line = line_of(self.text, (*self.table, key))
        return f"{self.spelled}:{line}" if line else self.spelled


def project_file(cwd: Path, home: str) -> SettingsFile | None:
    """Return the closest settings file, from the working directory up to the root of its git repository.

    Outside of a repository, only the folder itself is searched. A pyproject.toml counts if it has ``[tool.stackmem]``.

    Raise UsageError if a file cannot be read, is broken, or sets something that a project may not set, or one folder
    has two files with settings.
    """
    for folder in _folders(cwd):
        own = _own_file(folder / _PROJECT_FILE, cwd, home, project=True)
        shared = _table_of_pyproject(folder / _PYPROJECT, cwd, home)
        if own and shared:
            raise UsageError(
                f"{own.spelled} and [tool.stackmem] in {shared.spelled} both contain settings; move them into one file"
            )
        if file := own or shared:
            _refuse_foreign_keys(file)
            return file
    return None


def user_file(path: Path, cwd: Path, home: str) -> SettingsFile | None:
    """Return the user's own settings, which may set everything.

    Raise UsageError if the file cannot be read, is broken, or has an unknown key.
    """
    file = _own_file(path, cwd, home, project=False)
    if file:
        _refuse_foreign_keys(file)
    return file


def user_path(environ: Mapping[str, str]) -> Path | None:
    """Return the path of the user's settings, or None if neither XDG_CONFIG_HOME nor HOME is an absolute path."""
    return user_folder(environ, "XDG_CONFIG_HOME", ".config", "config.toml")


def user_folder(environ: Mapping[str, str], variable: str, below_home: str, name: str) -> Path | None:
    """Return ``name`` in stackmem's part of an XDG directory. A relative directory is ignored, as the standard
    requires.
    """
    if (root := environ.get(variable, "")).startswith("/"):
        return Path(root, "stackmem", name)
    home = environ.get("HOME", "")
    return Path(home, below_home, "stackmem", name) if home.startswith("/") else None


def read_within(path: Path, most: int) -> bytes:
    """Read a whole file. Raise UsageError if it cannot be read, or it has more than ``most`` bytes."""
    try:
        raw = read_start(path, most + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); make it readable, or remove it") from error
    if len(raw) > most:
        raise UsageError(f"{path} is larger than {most:,} bytes; shorten it")
    return raw


def read_tables(path: Path, raw: bytes) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file and its tables. Raise UsageError if it is not valid."""
    try:
        text = raw.decode()
        return text, parse_toml(text)
    except (RecursionError, ValueError) as error:  # also TOMLDecodeError and UnicodeDecodeError
        raise UsageError(f"{path} is not valid TOML ({error}); fix it") from error


def spell(path: Path, cwd: Path, home: str) -> str:
    """Shorten a path: relative to the working directory or the home folder if it is inside, otherwise absolute."""
    if path.is_relative_to(cwd) or (cwd.is_relative_to(path.parent) and path.parent != Path("/")):
        return os.path.relpath(path, cwd)
    if home.startswith("/") and path.is_relative_to(home):
        return f"~/{path.relative_to(home)}"
    return str(path)


def _folders(cwd: Path) -> Iterator[Path]:
    parents = [cwd, *cwd.parents]
    roots = (depth for depth, folder in enumerate(parents) if os.path.lexists(folder / ".git"))
    yield from parents[: next(roots, 0) + 1]


def _own_file(path: Path, cwd: Path, home: str, *, project: bool) -> SettingsFile | None:
    spelled = spell(path, cwd, home)
    raw = _read(path, spelled)
    if raw is None:
        return None
    if len(raw) > MAX_FILE_BYTES:
        raise UsageError(f"{spelled} is larger than {MAX_FILE_BYTES:,} bytes; shorten it")
    text = _decode(raw, spelled)
    return SettingsFile(path, spelled, text, _parse(text, spelled), project=project)


def _table_of_pyproject(path: Path, cwd: Path, home: str) -> SettingsFile | None:
    """Return our table. A file that does not mention stackmem is ignored, even if it is invalid."""
    spelled = spell(path, cwd, home)
    try:
        raw = _read(path, spelled)
    except UsageError:
        return None
    if raw is None or b"stackmem" not in raw:
        return None
    if len(raw) > MAX_FILE_BYTES:
        raise UsageError(f"{spelled} is larger than {MAX_FILE_BYTES:,} bytes; put the settings into {_PROJECT_FILE}")
    text = _decode(raw, spelled)
    values: Any = _parse(text, spelled)
    for name in _TABLE:
        values = values.get(name) if isinstance(values, dict) else None
    if values is None:
        return None
    if not isinstance(values, dict):
        raise UsageError(f"{spelled}: tool.stackmem is not a table; write the settings below [tool.stackmem]")
    return SettingsFile(path, spelled, text, values, table=_TABLE, project=True)


def _read(path: Path, spelled: str) -> bytes | None:
    """Read the file, up to one byte over the limit, or return None if it does not exist. Never blocks on a pipe or
    device.
    """
    try:
        return read_start(path, MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        if path.is_symlink():
            raise UsageError(f"{spelled} is a broken link; fix or remove it") from error
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{spelled} cannot be read ({reason}); make it readable or remove it") from error


def _decode(raw: bytes, spelled: str) -> str:
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        col = error.start - raw.rfind(b"\n", 0, error.start)
        raise UsageError(
            f"{spelled}:{line}:{col}: byte 0x{raw[error.start]:02x} is not UTF-8; save it as UTF-8"
        ) from error


@lru_cache(maxsize=16)  # many runs in one process read the same files; the tables are never modified
def _parse(text: str, spelled: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MAX_DOTS:
            raise UsageError(f"{spelled}:{number}: more than {_MAX_DOTS} dots; split the line")
    try:
        return parse_toml(text)
    except tomllib.TOMLDecodeError as error:
        message, location = str(error), ""
        if match := re.search(r" ?\(at line (\d+), column (\d+)\)", message):
            message, location = message[: match.start()], f"{match[1]}:{match[2]}:"
        elif message.endswith(" (at end of document)"):
            message, location = message.removesuffix(" (at end of document)"), f"{text.count(chr(10)) + 1}:"
        raise UsageError(f"{spelled}:{location} not TOML: {message.lower()}; correct it there") from error
    except RecursionError as error:
        raise UsageError(f"{spelled}: nested too deeply; settings are keys with plain values") from error
    except ValueError as error:  # the parser passes numbers with thousands of digits on to Python, which raises this
        raise UsageError(f"{spelled}: a number with too many digits; settings are keys with plain values") from error


def _refuse_foreign_keys(file: SettingsFile) -> None:
    for key in file.values:
        option = OPTIONS.get(ELSEWHERE.get(key, key))
        if option is None:
            raise UsageError(f"{file.location_of(key)}: no setting {key[:60]!a}; {suggestion(key, OPTIONS)}")
        if file.project and not option.project:
            raise UsageError(
                f"{file.location_of(key)}: {key} cannot be set by a project; use {option.flag}, {option.variable} "
                "or your own configuration file"
            )
        if file.project and key == "model" and str(file.values[key]).strip().startswith("script:"):
            raise UsageError(f"{file.location_of(key)}: a project can name a model, but not a script; use --model")
        if key in ELSEWHERE:
            raise UsageError(
                f"{file.location_of(key)}: {key} belongs in a sandbox profile; name one with {option.name}"
            )


def line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """Return the 1-based line that sets the last key of ``keys``, or None if it cannot be found quickly.

    It is the line before which the text is valid TOML without the key, and after which the text has the key as soon as
    it is valid again. So neither a multi-line string nor another table with the same line is misleading.
    """
    if len(text) > _PLACED_CHARS:
        return None
    lines = text.split("\n")
    parts = ("\n".join(lines[:number]) for number in range(len(lines) + 1))
    start: int | None = None
    tries = 0
    for number, part in enumerate(parts):
        mentions = number < len(lines) and keys[-1] in lines[number]
        if start is None and not mentions:
            continue
        tries += 1
        if tries > _PLACED_TRIES:
            return None
        sets = _is_set(part, keys)
        if start is not None and sets:
            return start + 1
        if start is not None and sets is False:
            start = None
        if start is None and mentions and sets is False:
            start = number
    return None


def _is_set(text: str, keys: tuple[str, ...]) -> bool | None:
    """Return whether the text sets the key, or None if it is not valid TOML."""
    try:
        values: Any = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True
