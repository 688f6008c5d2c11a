"""An agent with perfect memory that plays a world in memory: its calls are the solution, their number the horizon.

The oracle uses only what tools have returned to it. A world that hides a fact too well is therefore detected here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.run.in_memory import PROGRAM
from stackmem.run.tasks import work
from stackmem.workspace.memory import MemoryWorkspace

SHOWN_BYTES = 32_768  # of a result; the limit for models with a window of at least 105,000 tokens
_PLAN_UNITS = work.PLAN_UNITS

_FACT = re.compile(r"^\s*(?:[-*]\s+)?([a-z][a-z_]*\.[a-z0-9][a-z0-9_-]*) = (\S+)(?: @ (\d+))?\s*$", re.MULTILINE)
_CHANGED = re.compile(r"^changed ([a-z][a-z_.0-9-]*) @ \d+$", re.MULTILINE)
_CANDIDATES = re.compile(r"^\s*(?:[-*]\s+)?candidate (\S+): (.+)$", re.MULTILINE)
_UNIT = re.compile(r"^unit (\d+): needs (.*?)(?:; gives .*)?$", re.MULTILINE)
_NEED = re.compile(r"(\S+) <([^>]*)>")
_MORE = re.compile(r"read on with start_line=(\d+)")


class OracleCall(Struct, frozen=True):
    """A tool call of the oracle in the form of a demo script."""

    tool: str
    args: dict[str, str | int]


class Oracle:
    """The oracle."""

    def __init__(self, files: Mapping[str, str], units: int) -> None:
        self._workspace = MemoryWorkspace(files, "/workspace", PROGRAM)
        self._units = units
        self._values: dict[str, tuple[int, str]] = {}
        self._ways: dict[int, list[tuple[str, str]]] = {}
        self._candidates: dict[str, list[str]] = {}
        self._next_line: dict[str, int] = {}
        self._topics: dict[str, set[str]] = {}
        self.calls: list[OracleCall] = []  # all calls so far
        self.commands: list[str] = []  # the calls that perform a unit

    @property
    def files(self) -> dict[str, str]:
        return self._workspace.files

    def play(self) -> list[OracleCall]:
        """Play the world to its end and return all calls.

        Raise UsageError if the world cannot be solved, which is a bug in its family.
        """
        for unit in range(1, self._units + 1):
            if unit not in self._ways:
                last = min(self._units, unit + _PLAN_UNITS - 1)
                self._run(f"./work plan {unit}-{last}")
            values = {key: self._value(key, way) for key, way in self._ways[unit]}
            command = " ".join([f"./work do {unit}", *(f"{key}={value}" for key, value in values.items())])
            output = self._run(command)
            if not output.endswith(f"done unit {unit}\n[exit 0]"):
                raise UsageError(f"unit {unit} of this world cannot be done ({output[-200:]}); report it")
            self.commands.append(command)
        self.calls.append(OracleCall("pop_frame", {"result": f"All {self._units} units are done."}))
        return self.calls

    def _value(self, key: str, way: str) -> str:
        kind, _, location = way.partition(" ")
        while key not in self._values:
            if kind == "read" or (kind == "probe" and key not in self._candidates):
                self._read(location)
            elif kind == "run":
                self._run(location)
            elif kind == "probe" and self._candidates[key]:
                self._run(f"./work probe {key} {self._candidates[key].pop(0)}")
            else:
                raise UsageError(f"{key} of this world cannot be found by <{way}>; report it")
            if kind == "run" and key not in self._values:
                raise UsageError(f"{key} is not in what {location} prints; report it")
        return self._values[key][1]

    def _read(self, path: str) -> None:
        start = self._next_line.get(path, 1)
        if not start:
            raise UsageError(f"{path} of this world lacks a fact; report it")
        args: dict[str, str | int] = {"path": path} | ({"start_line": start} if start > 1 else {})
        self.calls.append(OracleCall("read_file", args))
        text = self._workspace.read_file(path, start if start > 1 else None, None, SHOWN_BYTES).text
        more = _MORE.search(text.partition("\n")[0])
        self._next_line[path] = int(more[1]) if more else 0
        for key in self._learn(text):
            self._topics.setdefault(key.partition(".")[0], set()).add(path)

    def _run(self, command: str) -> str:
        self.calls.append(OracleCall("run_command", {"command": command}))
        text = self._workspace.run_command(command, 30.0, SHOWN_BYTES).text
        self._learn(text)
        return text

    def _learn(self, text: str) -> list[str]:
        """Store the facts of a result. Returns their keys."""
        facts = _FACT.findall(text)
        for key, value, stamp in facts:
            if int(stamp or 0) >= self._values.get(key, (0, ""))[0]:
                self._values[key] = (int(stamp or 0), value)
        for topic in _CHANGED.findall(text):
            for key in [key for key in self._values if key == topic or key.startswith(f"{topic}.")]:
                del self._values[key]
            for path in self._topics.get(topic.partition(".")[0], ()):
                self._next_line[path] = 1
        for key, listed in _CANDIDATES.findall(text):
            self._candidates.setdefault(key, listed.split())
        for unit, needs in _UNIT.findall(text):
            self._ways[int(unit)] = _NEED.findall(needs)
        return [key for key, _, _ in facts]
