"""Write the bills of public sessions, in USD per strategy, for the tests of intervals.

Run: stackmem evidence RECORDINGS -o study.csv --rows study.jsonl --strategies full,...
     python benchmarks/session_bills.py study.jsonl --first N > tests/lab/bench/session_bills.csv

A study processes recordings in a pseudo-random order, so its first N files are a sample. Cached reads cost 0.1 of an
input token, and half of the lost facts are looked up again. ``sessions.tsv`` has the commit of each session.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from pathlib import Path

from stackmem.lab.bench.evidence import RecordingEntry, read_entries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--first", type=int, required=True, help="how many sessions")
    arguments = parser.parse_args()
    billed = {(entry.file, entry.session): entry for entry in read_entries(arguments.rows) if entry.bills}
    chosen = sorted(billed.values(), key=_in_study)[: arguments.first]
    strategies = [name for name in chosen[0].bills if name == "full" or name.endswith(" middle")]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["agent", "repository", "session", *(name.removesuffix(" middle") for name in strategies)])
    for entry in chosen:
        agent, repository, name = entry.file.split("/")
        bills = [f"{entry.bills[strategy].usd[0]:.6f}" for strategy in strategies]
        out.writerow([agent, repository.replace("+", "/"), Path(name).stem, *bills])


def _in_study(entry: RecordingEntry) -> bytes:
    """Return what orders a study: the digest of the file's name."""
    return hashlib.sha256(Path(entry.file).name.encode()).digest()


if __name__ == "__main__":
    main()
