"""Split recordings into a half for choosing thresholds and a half for reporting.

Run: python benchmarks/halves.py RECORDINGS -o HALVES

The SHA-256 of a file's name, up to its first dot, decides. So the half of a recording never changes, and all runs of a
task are in the same half. Files are linked, not copied. ``tools.json`` goes into both halves.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import Counter
from pathlib import Path

HALVES = ("tune", "held")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("recordings", type=Path)
    parser.add_argument("-o", dest="out", type=Path, required=True)
    arguments = parser.parse_args()
    counted = Counter[str]()
    for file in sorted(arguments.recordings.rglob("*")):
        if file.is_file() and not file.is_relative_to(arguments.out):
            for half in HALVES if file.name == "tools.json" else (half_of(file.name),):
                linked = arguments.out / half / file.relative_to(arguments.recordings)
                linked.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, linked)
                counted[half] += file.name != "tools.json"
    print(", ".join(f"{half}: {counted[half]} files" for half in HALVES))


def half_of(name: str) -> str:
    """Return the half of a recording."""
    digest = hashlib.sha256(name.split(".", 1)[0].encode()).digest()
    return HALVES[int.from_bytes(digest[:4], "big") % 2]


if __name__ == "__main__":
    main()
