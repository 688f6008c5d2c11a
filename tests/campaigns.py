"""How far each campaign has come: one that was stopped goes on there, as long as the program is the same.

``python -m tests.campaigns`` prints what was run; ``python -m tests.campaigns docs/experiments.md`` writes it there,
and leaves what other machines ran. ``STACKMEM_CAMPAIGN_SECONDS=600`` gives each test a share of so much processor time,
and skips what is left of it.
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
"""Of a campaign that takes hours on a machine that has other work."""
BEGIN, END = "<!-- campaigns: written by make campaign -->", "<!-- campaigns end -->"
_HEAD = "| campaign | program | on | run | of | processor time | found |\n|---|---|---|---:|---:|---:|---|"


class Progress(msgspec.Struct):
    """What was run of a campaign.

    Attributes:
        program: Digest of the program that it was run on.
        counts: What its pieces came over, by what it is.
        seconds: Processor time, of all its parts.
    """

    name: str
    program: str
    done: int = 0
    most: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = {}


class Campaign:
    """Numbered pieces of work. In CI there is no campaign: all are done, and nothing is kept."""

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
        """The pieces that are left; each is done once the next one is asked for."""
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
                    pytest.skip(f"{self.progress.done:,} of {self.progress.most:,} are done; run it again to go on")
        finally:
            self.save()

    def save(self) -> None:
        if self._kept:
            self._file.parent.mkdir(exist_ok=True)
            fresh = self._file.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(self.progress))
            fresh.replace(self._file)


def program_digest() -> str:
    """Of the sources of stackmem as they are now."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "stackmem").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def table(before: str = "") -> str:
    """What was run, a line for each campaign; of those that this machine knows nothing of, the lines of ``before``."""
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
    """The document with the table as it is now between its two marks."""
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
