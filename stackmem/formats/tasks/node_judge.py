"""Runs the tests that a record names with pytest, and writes the reward: ``node_judge.py RECORD VERIFIER_DIR``.

This file is copied into the ``tests/`` folder of imported tasks and needs nothing but pytest there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


class Outcomes:
    """A plugin that notes how each test ended; an expected failure counts as passed, as it does for SWE-bench."""

    def __init__(self) -> None:
        self.passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        expected = report.skipped and hasattr(report, "wasxfail")
        if report.when == "call":
            self.passed[report.nodeid] = self.passed.get(report.nodeid, True) and (report.passed or expected)
        elif report.failed:
            self.passed[report.nodeid] = False


def main(record: Path, verifier: Path) -> None:
    import pytest  # before the workspace is on the path: nothing in it may stand for pytest itself

    places = [str(Path.cwd() / name) for name in ("", "src", "lib") if (Path.cwd() / name).is_dir()]
    sys.path[:0] = places
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    wanted: dict[str, list[str]] = json.loads(record.read_text("utf-8"))
    names = [name for kind in ("FAIL_TO_PASS", "PASS_TO_PASS") for name in wanted[kind]]
    files = [name for name in dict.fromkeys(name.split("::")[0] for name in names) if Path(name).exists()]
    outcomes = Outcomes()
    if files:
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *files], plugins=[outcomes])
    shares = {}
    for kind in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        right = [name for name in wanted[kind] if outcomes.passed.get(name, False)]
        for name in sorted(set(wanted[kind]) - set(right)):
            print(f"{kind}: {name} did not pass")  # noqa: T201
        shares[kind.lower()] = len(right) / len(wanted[kind]) if wanted[kind] else 1.0
    reward = {"reward": float(all(share == 1.0 for share in shares.values())), **shares}
    verifier.joinpath("reward.json").write_text(json.dumps(reward), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
