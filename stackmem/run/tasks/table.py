"""Reads task.toml and accompanying texts, with errors that name the file and key."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import parse_toml
from stackmem.foreign.files import read_start

Keys: TypeAlias = "Mapping[str, Keys | None]"
"""Maps keys to the keys below them; None allows any keys below."""

MAX_TEXT_BYTES = 1024 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TaskTable:
    """A table of task.toml that knows its file and name, so that errors can name the key."""

    def __init__(self, path: Path, values: dict[str, Any] | None = None, name: str = "") -> None:
        self.path = path
        self.values = _parsed(path) if values is None else values
        self.name = name

    def wrong(self, key: str, form: str) -> UsageError:
        return UsageError(
            f"{self.path}: {f'[{self.name}] ' if self.name else ''}{key} must be {form}; correct it there"
        )

    def section(self, key: str) -> TaskTable:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return TaskTable(self.path, value, f"{self.name}.{key}" if self.name else key)

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self.wrong(key, "a text that is not empty")
        return value

    def positive(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def count(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise self.wrong(key, "a whole number from 1")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.wrong(key, "a list of texts")
        return tuple(value)

    def texts_by_name(self, key: str) -> dict[str, str]:
        value = self.section(key).values
        if not all(isinstance(item, str) for item in value.values()):
            raise self.wrong(key, "a table of texts")
        for name, text in value.items():
            if not _VARIABLE.fullmatch(name) or "\0" in text:
                raise self.wrong(
                    f"{key}.{name[:60]!a}", "a variable: a name of letters, digits and _, no NUL in its text"
                )
        return dict(value)

    def refuse_what_we_cannot_run(self) -> None:
        if self.section("environment").values.get("os", "linux") != "linux":
            raise UsageError(f"{self.path}: [environment] os is not 'linux'; stackmem runs tasks for Linux")

    def unknown_keys(self, keys: Keys, name: str = "") -> list[str]:
        """Return a message for each key that is neither in Harbor's format nor in ours."""
        messages = []
        for key, value in self.values.items():
            full_key = f"{name}{key}"
            if key not in keys:
                messages.append(f"{self.path}: unknown key {full_key!r} is ignored")
            elif (inner := keys[key]) is not None:
                tables = value if isinstance(value, list) else [value]
                for item in tables:
                    if isinstance(item, dict):
                        messages += TaskTable(self.path, item).unknown_keys(inner, f"{full_key}.")
        return messages


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return _table_in(read_text(path, "task.toml"))
    except tomllib.TOMLDecodeError as error:
        message, location = str(error), ""
        if match := re.search(r"\(at line (\d+), column (\d+)\)", message):
            message, location = message[: match.start()].strip(), f"{match[1]}:{match[2]}:"
        raise UsageError(f"{path}:{location} not TOML: {message}; correct it there") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply; a task.toml needs three levels") from error


@lru_cache(maxsize=64)
def _table_in(text: str) -> dict[str, Any]:
    """Parse a text. Cached, because many trials read the same task."""
    return parse_toml(text)


def read_text(path: Path, file_name: str) -> str:
    try:
        if not path.is_file():
            raise UsageError(
                f"no {file_name} in {path.parent}; a task folder has task.toml, instruction.md and tests/test.sh"
            )
        raw = read_start(path, MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); make it readable") from error
    if len(raw) > MAX_TEXT_BYTES:
        raise UsageError(
            f"{path} is larger than {MAX_TEXT_BYTES:,} bytes; move long content into environment/workspace"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: byte 0x{raw[error.start]:02x} is not UTF-8; save it as UTF-8") from error
