"""Finished jobs of real agents, kept in a folder, so that the run of a table can be stopped and continued."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tests.campaigns import program_digest
from tests.stage import ROOT

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time for this piece is over; the finished jobs are kept."""


class Kept(msgspec.Struct):
    """A finished job: the program and the key it belongs to, the day, and its result."""

    program: str
    key: tuple[str, ...]
    day: date
    result: Any


class Results:
    """Results of jobs, each kept in a file. A result of other sources, or of another version of an agent, is not used.

    Attributes:
        days: The days of all results that were returned.
    """

    def __init__(self, folder: Path | None, minutes: float = float("inf")) -> None:
        """Keep results in ``folder``, if given, and start no job after ``minutes``."""
        self._folder, self._until = folder, time.monotonic() + 60 * minutes
        self._program = _digest() if folder else ""
        self.days: set[date] = set()

    def of(self, kind: type[T], job: Callable[[], T], *key: str) -> T:
        """Return the kept result for ``key``, or do the job and keep its result.

        Raises:
            OutOfTimeError: The job is not done, and the time is over.
        """
        name = re.sub(r"[^\w.=,]+", "-", "-".join(key)).strip("-")
        file = self._folder / f"{name}.json" if self._folder else None
        if file is not None and file.exists():
            kept = msgspec.json.decode(file.read_bytes(), type=Kept)
            if (kept.program, kept.key) == (self._program, key):
                self.days.add(kept.day)
                return msgspec.convert(kept.result, kind)
        if time.monotonic() > self._until:
            raise OutOfTimeError
        day, result = datetime.now(UTC).date(), job()
        self.days.add(day)
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.json.encode(Kept(self._program, key, day, result)))
        return result

    @property
    def run_on(self) -> str:
        """Return the day of the results, or the first and the last one."""
        days = sorted({min(self.days), max(self.days)})
        return " to ".join(day.isoformat() for day in days)


def add_result_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a table whose run can be continued."""
    parser.add_argument("--results", type=Path, help="a folder for finished jobs, which are not repeated")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no job after so many minutes")


def stop_if_out_of_time(jobs: Sequence[Future[Any]]) -> None:
    """Exit if the time was over before every job was started."""
    if left := sum(isinstance(one.exception(), OutOfTimeError) for one in jobs):
        sys.exit(f"{left} of {len(jobs)} jobs are left; run the same command again")


def write_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what a page has between two marks."""
    before, found, rest = page.read_text("utf-8").partition(begin)
    if not found or end not in rest:
        raise ValueError(f"{page} has no {begin} with an {end} after it")
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", "utf-8")


def _digest() -> str:
    """Return a digest of stackmem and of the jobs."""
    digest = hashlib.sha256(program_digest().encode())
    for path in sorted((ROOT / "tests" / "doors" / "gateway").rglob("*.py")):
        if not path.name.startswith("test_"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
