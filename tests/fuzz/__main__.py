"""``python -m tests.fuzz [TARGET ...] --seconds 60``: search for faults for this much processor time per target.

``--keep`` saves the inputs that reached the most lines to the repository's corpus. Each target's memory growth is
printed, because a reader that retains data from every input is faulty, too.
"""

import argparse
import os
import tempfile
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage

from tests import confinement
from tests.fuzz.corpus import keep, kept_corpus
from tests.fuzz.loop import Fuzzer
from tests.fuzz.targets import TARGETS


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a person reads it


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", default=sorted(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if unknown := sorted(set(given.targets) - TARGETS.keys()):
        parser.error(f"no target {unknown[0]!r}; known: {', '.join(sorted(TARGETS))}")
    confinement.confine()  # as root, hostile inputs could otherwise reach the machine's own files
    base = tempfile.gettempdir()  # read now, because each target gets its own temporary folder
    say("| target | inputs | lines reached | of | by seeds | MiB more | faults |\n|---|---:|---:|---:|---:|---:|---:|")
    for name in given.targets:
        before = getrusage(RUSAGE_SELF).ru_maxrss
        with tempfile.TemporaryDirectory(prefix="stackmem-fuzz-", dir=base) as folder:
            for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"):
                os.environ[variable] = folder
            tempfile.tempdir = None
            fuzzer = Fuzzer(TARGETS[name], Path(folder) / "place", kept_corpus(name))
            fuzzer.go_on(Random(given.seed), seconds=given.seconds)
        lines = fuzzer.lines
        say(
            f"| {name} | {fuzzer.tried:,} | {len(lines.reached):,} | {lines.there_are():,} | {fuzzer.by_seeds:,} "
            f"| {(getrusage(RUSAGE_SELF).ru_maxrss - before) // 1024:,} | {len(fuzzer.faults)} |"
        )
        for fault in fuzzer.faults.values():
            say(f"\n{fault.kind} at {fault.where} by {fault.data[:400]!r}\n{fault.trace[-1500:]}\n")
        if given.keep:
            keep(fuzzer)


if __name__ == "__main__":
    main()
