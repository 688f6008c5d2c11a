"""What a command gave, as later steps see it."""

from __future__ import annotations

import json
from typing import Any


class MalformedOutputError(Exception):
    """A field was asked of an output that is not the JSON it would have to be."""

    def __init__(self, output: CommandOutput, field: str) -> None:
        super().__init__(field)
        self.output = output
        self.field = field


class CommandOutput(str):
    """The text that a command printed, without its trailing newlines; the rest of what came of it stands beside.

    It is a text wherever a text is wanted. Any field but the three is looked up in the JSON that it printed.

    Attributes:
        stdout, stderr: Without trailing newlines.
        step, command: Where it came from, for the report when it turns out to be malformed.

    """

    __slots__ = ("command", "exit_code", "stderr", "stdout", "step")

    stdout: str
    stderr: str
    exit_code: int
    step: str
    command: str

    @classmethod
    def of(cls, stdout: str, stderr: str, exit_code: int, step: str = "", command: str = "") -> CommandOutput:
        text = stdout.rstrip("\n")
        made = cls(text)
        made.stdout, made.stderr, made.exit_code = text, stderr.rstrip("\n"), exit_code
        made.step, made.command = step, command
        return made

    def field(self, name: object) -> Any:
        """Raises ``MalformedOutputError`` where the output is no JSON, or has no such field."""
        if name == "stdout":
            return self.stdout
        if name == "stderr":
            return self.stderr
        if name == "exit_code":
            return self.exit_code
        try:
            found = json.loads(self.stdout)
        except (ValueError, RecursionError):
            raise MalformedOutputError(self, str(name)) from None
        if isinstance(found, dict) and str(name) in found:
            return found[str(name)]
        if isinstance(found, list) and isinstance(name, int) and -len(found) <= name < len(found):
            return found[name]
        raise MalformedOutputError(self, str(name))
