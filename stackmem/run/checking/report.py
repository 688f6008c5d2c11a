"""Reads the witness report of a check and decides whether exit code 0 counts.

The report was written inside the sandbox, so it is untrusted: reads are bounded and any content is tolerated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.foreign.files import read_start

REPORT, JUNIT = "report", "junit.xml"
_MAX_BYTES = 8 << 20
_COUNTS = re.compile(rb'\b(tests|failures|errors|skipped)="(\d{1,9})"')


class TestRun(Struct):
    """A completed test session."""

    collected: int
    ran: int
    passed: int
    failed: int


class CheckReport:
    """The report of one check."""

    def __init__(self, folder: Path) -> None:
        self._runners: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._begun: defaultdict[str, int] = defaultdict(int)
        self._left: set[str] = set()
        self._ended: defaultdict[str, list[TestRun]] = defaultdict(list)
        for line in _read(folder / REPORT).split(b"\n"):
            self._take(line)
        self._junit = {name: int(count) for name, count in _COUNTS.findall(_read(folder / JUNIT)[:4096])}

    def _take(self, line: bytes) -> None:
        try:
            process, kind, *more = msgspec.json.decode(line, type=list[str | int])
        except (ValueError, msgspec.ValidationError):
            return
        name = str(process)
        match kind, more:
            case "start", [str(runner), str(arguments)] if runner:
                self._runners[name] = runner
                self._arguments[name] = arguments
            case "begin", []:
                self._begun[name] += 1
            case "exit", []:
                self._left.add(name)
            case "end", [int(collected), int(ran), int(passed), int(failed)]:
                self._ended[name].append(TestRun(collected, ran, passed, failed))

    def problem(self, names: set[str], undecisive: AbstractSet[str], *, sets_environment: bool) -> str:
        """Return why exit code 0 does not count as success, or an empty string if it does.

        ``names`` are the test runners that the check names. ``sets_environment`` says whether the check sets Python's
        environment, so that test runs may go unobserved.
        """
        sessions = [
            session
            for name, each in self._ended.items()
            if self._arguments.get(name) not in undecisive
            for session in each
        ]
        early = [name for name in self._begun if self._begun[name] != len(self._ended[name])]
        silent = [runner for name, runner in self._runners.items() if not self._begun[name]]
        if early:
            return "a run of tests ended before its end"
        if silent:
            return f"{silent[0]} ended before it ran a test"
        for session in sessions:
            if session.failed:
                return f"{session.failed:,} of its tests failed"
            if session.ran < session.collected:
                return f"only {session.ran:,} of {session.collected:,} tests ran"
        if sessions and not any(session.passed for session in sessions):
            return "no test passed"
        if self._left - self._ended.keys():
            return "one of its Python programs ended itself with os._exit(0)"
        return "" if sessions or not names else self._without_sessions(names, sets_environment)

    def _without_sessions(self, names: set[str], sets_environment: bool) -> str:
        failed = self._junit.get(b"failures", 0) + self._junit.get(b"errors", 0)
        if failed:
            return f"{failed:,} of its tests failed"
        if self._junit.get(b"tests", 0) > self._junit.get(b"skipped", 0) or (sets_environment and "unittest" in names):
            return ""
        return f"{min(names)} reported no test"


def _read(path: Path) -> bytes:
    """Return the beginning of the file, or nothing if it is not a regular file."""
    try:
        return read_start(path, _MAX_BYTES, follow=False)
    except OSError:
        return b""
