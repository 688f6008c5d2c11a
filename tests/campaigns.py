"""Progress of long test campaigns: a stopped campaign resumes as long as the program has not changed.

``python -m tests.campaigns`` prints the progress. ``python -m tests.campaigns docs/experiments.md`` writes it to that
page and keeps rows from other machines. With ``STACKMEM_CAMPAIGN_SECONDS=600`` each test gets a share of that processor
time and skips the rest of its work.
"""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.conftest import CAMPAIGN
from tests.stage import ROOT

PLACE = ROOT / ".campaign"
LONG = pytest.mark.timeout(36_000 if CAMPAIGN else 600)
"""Budget for campaigns that take hours on a machine with other work."""
BEGIN, END = "<!-- campaigns: written by make campaign -->", "<!-- campaigns end -->"
_HEAD = "| campaign | program | on | run | of | processor time | found |\n|---|---|---|---:|---:|---:|---|"


class Progress(msgspec.Struct):
    """The recorded progress of a campaign.

    Attributes:
        program: Digest of the program under test.
        counts: Events that the pieces met, counted by kind.
        seconds: Processor time of all parts together.
    """

    name: str
    program: str
    done: int = 0
    most: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = {}


class Campaign:
    """Numbered pieces of work. CI has no campaign: every piece runs and progress is not saved."""

    def __init__(
        self, name: str, most: int, place: Path = PLACE, *, saved_every: int = 100, kept: bool = CAMPAIGN
    ) -> None:
        self._file = place / f"{name.replace(' ', '-')}.json"
        self._kept, self._every = kept, saved_every
        self.progress = Progress(name, program_digest() if kept else "")
        if kept and self._file.exists():
            before = msgspec.json.decode(self._file.read_bytes(), type=Progress)
            if before.program == self.progress.program:
                self.progress = before
        self.progress.most = most

    def __iter__(self) -> Iterator[int]:
        """Yield the remaining pieces; each counts as done when the next one is requested."""
        share = float(os.environ.get("STACKMEM_CAMPAIGN_SECONDS", "inf"))
        before, began = self.progress.seconds, time.process_time()
        try:
            for number in range(self.progress.done, self.progress.most):
                yield number
                self.progress.done, spent = number + 1, time.process_time() - began
                self.progress.seconds = before + spent
                if number % self._every == 0:
                    self.save()
                if self._kept and spent > share and self.progress.done < self.progress.most:
                    pytest.skip(f"{self.progress.done:,} of {self.progress.most:,} are done; run it again to continue")
        finally:
            self.save()

    def save(self) -> None:
        if self._kept:
            self._file.parent.mkdir(exist_ok=True)
            fresh = self._file.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(self.progress))
            fresh.replace(self._file)


def program_digest() -> str:
    """Return the digest of stackmem's current sources."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "stackmem").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def table(before: str = "") -> str:
    """Return a table with a line per campaign; campaigns unknown to this machine keep their lines from ``before``."""
    lines = dict(_name_and_line(line) for line in before.splitlines() if line.startswith("| ") and line not in _HEAD)
    for path in sorted(PLACE.glob("*.json")):
        one = msgspec.json.decode(path.read_bytes(), type=Progress)
        day = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
        found = ", ".join(f"{count:,} {what}" for what, count in one.counts.items())
        lines[one.name] = (
            f"| {one.name} | {one.program} | {day} | {one.done:,} | {one.most:,} | {one.seconds:,.0f} s | {found} |"
        )
    return "\n".join([_HEAD, *(lines[name] for name in sorted(lines))])


def with_table(document: str) -> str:
    """Return the document with the current table between its two marks."""
    before, begin, rest = document.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the document has no {BEGIN} with an {END} behind it")
    return f"{before}{begin}\n{table(old)}\n{end}{after}"


def _name_and_line(line: str) -> tuple[str, str]:
    return line.split("|")[1].strip(), line


def main(paths: list[str]) -> None:
    print(table())  # noqa: T201 - a person reads it
    for path in map(Path, paths):
        path.write_text(with_table(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
