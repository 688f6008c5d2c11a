"""Reads a program's inputs, and the answers to its questions, from flags and files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import strict_value
from stackmem.foreign.files import read_start
from stackmem.foreign.yaml_depth import bounded_scanner

from ..frame.bounds import FILE_BYTES, LEVELS


def read_inputs(assignments: Iterable[str], file: str | None, cwd: Path) -> dict[str, Any]:
    """Map names to values: first those from the file, then ``k=TEXT``, ``k:=JSON`` and ``k=@FILE``.

    Raise UsageError if a text has another form, a name is given twice, or a file cannot be read.
    """
    values: dict[str, Any] = {}
    if file is not None:
        read = read_yaml(file, cwd, "--inputs")
        if not isinstance(read, dict) or not all(isinstance(name, str) for name in read):
            raise UsageError(f"--inputs {file} must contain one mapping of names to values")
        values.update(read)
    names: set[str] = set()
    for text in assignments:
        name, value = _input(text, cwd)
        if name in names:
            raise UsageError(f"--input {name[:80]} is given twice; give it once")
        names.add(name)
        values[name] = value
    return values


def _input(text: str, cwd: Path) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip(": "):
        raise UsageError(f"--input {text[:80]!r} is not valid; write NAME=TEXT, NAME:=JSON or NAME=@FILE")
    if name.endswith(":"):
        try:
            return name[:-1], strict_value(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--input {name[:80]}= needs a JSON value ({error}); check the quotes") from error
    if value.startswith("@"):
        return name, _text(value[1:], cwd, f"--input {name[:80]}")
    return name, value


def read_answers(file: str | None, cwd: Path) -> list[str]:
    """Read the answers of ``--answers`` in order, from a list or from the values of a mapping.

    Raise UsageError if the file cannot be read, or is neither a list nor a mapping.
    """
    if file is None:
        return []
    read = read_yaml(file, cwd, "--answers")
    if isinstance(read, dict):
        read = list(read.values())
    if not isinstance(read, list):
        raise UsageError(f"--answers {file} must contain a list of answers")
    return [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in read]


def read_yaml(file: str, cwd: Path, flag: str) -> Any:
    """Read a YAML file as plain values. Dates and times become texts.

    Raise UsageError if the file cannot be read, or is not YAML.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.scanner import Scanner

    text = _text(file, cwd, flag)
    reader = YAML(typ="safe", pure=True)
    reader.Scanner = bounded_scanner(Scanner, LEVELS)
    try:
        return json.loads(json.dumps(reader.load(text), default=_moment))
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        problem = " ".join(str(error).split())[:300]
        raise UsageError(f"{flag} {file} is not YAML with plain values ({problem}); fix the file") from error


def _moment(value: Any) -> str:
    """Convert an unquoted date or time, which YAML parses into a date object, to text."""
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a plain value")


def _text(file: str, cwd: Path, flag: str) -> str:
    path = cwd / os.path.expanduser(file)
    try:
        raw = read_start(path, FILE_BYTES + 1)
        if len(raw) > FILE_BYTES:
            raise UsageError(f"{flag}: {file} is over {FILE_BYTES:,} bytes; put it in the workspace and pass its path")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{flag}: {file} cannot be read ({error.strerror}); name another file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag}: {file} is not UTF-8 text; save it as UTF-8") from error
