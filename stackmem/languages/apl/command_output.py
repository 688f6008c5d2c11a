"""The output of a command: usable as text, with additional fields."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.strict_json import strict_value


class MalformedOutputError(Exception):
    """A field was looked up in an output that is not valid JSON."""

    def __init__(self, output: CommandOutput, field: str) -> None:
        super().__init__(field)
        self.output = output
        self.field = field


class CommandOutput(str):
    """A command's output without trailing newlines, with the exit code and stderr as fields.

    It can be used like any text. Other fields than ``stdout``, ``stderr`` and ``exit_code`` are looked up in the output
    parsed as JSON.
    """

    __slots__ = ("_parsed", "command", "exit_code", "stderr", "stdout", "step")

    # both without trailing newlines
    stdout: str
    stderr: str
    exit_code: int
    # where the output came from, for the report if it is malformed
    step: str
    command: str
    _parsed: tuple[Any] | tuple[()]

    @classmethod
    def of(cls, stdout: str, stderr: str, exit_code: int, step: str = "", command: str = "") -> CommandOutput:
        text = stdout.rstrip("\n")
        output = cls(text)
        output.stdout, output.stderr, output.exit_code = text, stderr.rstrip("\n"), exit_code
        output.step, output.command = step, command
        output._parsed = ()
        return output

    def field(self, name: object, missing: Any) -> Any:
        """Look up a field. Returns ``missing`` if the output is not JSON or has no such field."""
        if name == "stdout":
            return self.stdout
        if name == "stderr":
            return self.stderr
        if name == "exit_code":
            return self.exit_code
        document = self.json(missing)
        if isinstance(document, dict):
            return document.get(str(name), missing)
        if isinstance(document, list) and isinstance(name, int) and -len(document) <= name < len(document):
            return document[name]
        return missing

    def json(self, missing: Any) -> Any:
        """Return the output parsed as JSON; ``missing`` if it is not valid JSON."""
        if not self._parsed:
            try:
                self._parsed = (strict_value(self.stdout, utf8=True),)
            except (ValueError, RecursionError):
                return missing
        return self._parsed[0]


def storable(value: Any) -> Any:
    """Return the value if it can be stored.

    Raise ValueError if the value contains a lone surrogate, NaN or an infinity.
    """
    json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode()
    return value
