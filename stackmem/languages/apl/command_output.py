"""What a command printed: a text wherever one is wanted, with fields beside it."""

from __future__ import annotations

import json
from typing import Any

from stackmem.core.strict_json import strict_value


class MalformedOutputError(Exception):
    """A field was asked of an output that is not the JSON it would have to be."""

    def __init__(self, output: CommandOutput, field: str) -> None:
        super().__init__(field)
        self.output = output
        self.field = field


class CommandOutput(str):
    """The text that a command printed, without its trailing newlines; the rest of what came of it stands beside.

    It is a text wherever a text is wanted. Any field but the three is looked up in the JSON that it printed.
    """

    __slots__ = ("_parsed", "command", "exit_code", "stderr", "stdout", "step")

    # stdout, stderr: without trailing newlines
    stdout: str
    stderr: str
    exit_code: int
    # step, command: where it came from, for the report when it turns out to be malformed
    step: str
    command: str
    _parsed: tuple[Any] | tuple[()]

    @classmethod
    def of(cls, stdout: str, stderr: str, exit_code: int, step: str = "", command: str = "") -> CommandOutput:
        text = stdout.rstrip("\n")
        made = cls(text)
        made.stdout, made.stderr, made.exit_code = text, stderr.rstrip("\n"), exit_code
        made.step, made.command = step, command
        made._parsed = ()
        return made

    def field(self, name: object, missing: Any) -> Any:
        """``missing`` where the output is no JSON, or has no such field."""
        if name == "stdout":
            return self.stdout
        if name == "stderr":
            return self.stderr
        if name == "exit_code":
            return self.exit_code
        found = self.json(missing)
        if isinstance(found, dict):
            return found.get(str(name), missing)
        if isinstance(found, list) and isinstance(name, int) and -len(found) <= name < len(found):
            return found[name]
        return missing

    def json(self, missing: Any) -> Any:
        """The JSON value that it is; ``missing`` where it is none."""
        if not self._parsed:
            try:
                self._parsed = (strict_value(self.stdout, whole=True),)
            except (ValueError, RecursionError):
                return missing
        return self._parsed[0]


def storable(value: Any) -> Any:
    """The value; raises ``ValueError`` for half a character, and for a number that is none."""
    json.dumps(value, ensure_ascii=False, allow_nan=False, default=str).encode()
    return value
