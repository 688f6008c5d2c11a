"""Measure how often the intervals of a study contain the truth, for samples of real sessions.

Run: python benchmarks/coverage.py --draws 300 --sizes 20,50,100,250

The bills of ``tests/lab/bench/session_bills.csv`` are taken as the whole truth, and samples of them are studied as if
nothing else were known. A cell is the share of the given intervals that contain the truth, and how many samples had
one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stackmem.lab.bench.evidence_figures import mean_of_ratios, ratio_of_sums
from tests.lab.bench.test_real_sessions import BILLS, FREQUENT, FULL, RARE, covered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--sizes", default="20,50,100,250")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    print("| estimand | strategy | truth |" + "".join(f" {size} sessions |" for size in sizes))
    print("|---|---|---:|" + "---:|" * len(sizes))
    for estimand, found in (("sum", ratio_of_sums), ("mean session", mean_of_ratios)):
        for name in (*FREQUENT, *RARE):
            truth = BILLS[name].sum() / FULL.sum() if found is ratio_of_sums else (BILLS[name] / FULL).mean()
            cells = []
            for size in sizes:
                given, held = covered(found, BILLS[name], size, truth, arguments.draws)
                share = f"{100 * held / given:.1f} % of {100 * given / arguments.draws:.0f} %" if given else "none"
                cells.append(f" {share} |")
            print(f"| {estimand} | `{name}` | {truth:.3f} |" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
