"""Run pytest in the process of the judged code and check the results: ``pytest_judge.py RECORD VERIFIER_DIR``.

Rule 1: the judged process is a child isolated by APART. It can reach neither the reward nor this folder. It reports the
    result of each part of each test over a pipe. A test without a report did not pass, and neither did any test of a
    session that did not finish.
Rule 2: the files include traps, tests with random names that must fail. If a trap passes or is not reported, no test
    counts. Patching pytest, unittest or the exit code so that every test passes is therefore useless.
Rule 3: files that configure pytest or Python are as recorded, and the tests must be unchanged after the session.

This file is copied into the ``tests/`` folder of imported tasks and needs only pytest there. The record is JSON:
``groups`` (name to test ids), ``whole`` (all other reported tests must pass, too), ``settings`` (whether the
workspace's pytest settings apply) and ``steering`` (configuration files that are allowed).
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_MAX_BYTES = 32 << 20
_REST_SECONDS = 5.0
"""How long to read from the pipe after the child has ended: another process may keep the pipe open."""
STEERS = re.compile(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.ini|setup\.cfg|pyproject\.toml|(site|user)customize\.py|.*\.pth"
)
"""Names of files that affect pytest, or Python at startup."""

_TRAP = """import unittest


class {name}(unittest.TestCase):
    def test_{name}(self):
        self.assertEqual({one}, {other})


def test_{name}():
    assert {one} == {other}
"""


class ReportTeller:
    """A plugin that reports the result of each part of a test. Expected failures count as passed, as in SWE-bench."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def _tell(self, *report: object) -> None:
        os.write(self._pipe, json.dumps(report).encode() + b"\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        expected = report.skipped and hasattr(report, "wasxfail")
        self._tell(report.nodeid, report.when, "passed" if expected else report.outcome)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._tell(report.nodeid, "collect", "failed")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._tell("", "end", int(exitstatus))


def run(pipe: int) -> None:
    """Run the test files listed on stdin, in the judged process."""
    import unittest  # noqa: F401 - imported before the workspace is on the path, so that it cannot replace the module

    import pytest

    request = json.load(sys.stdin)
    places = [str(Path.cwd() / name) for name in ("", "src", "lib") if (Path.cwd() / name).is_dir()]
    sys.path[:0] = places
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    # Without an explicit root, pytest lists every parent folder, which a sandbox may refuse.
    here = ["--rootdir", str(Path.cwd()), "--confcutdir", str(Path.cwd())]
    settings = [] if request["settings"] else ["--noconftest", "-c", os.devnull, *here]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", *settings, "--maxfail=0"]
    pytest.main([*options, *request["files"]], plugins=[ReportTeller(pipe)])


class Told:
    """The reports of a session."""

    def __init__(self, raw: bytes) -> None:
        self.passed: dict[str, bool] = {}  # id to whether the test ran and every part of it passed
        self.ended = False  # whether the session reported its end
        ran: set[str] = set()
        for line in raw.split(b"\n")[:-1]:
            try:
                name, when, how = json.loads(line)
            except (ValueError, TypeError, RecursionError):
                continue
            if not isinstance(name, str) or not isinstance(when, str):
                continue
            self.ended = when == "end"  # the end must be the last report
            if when != "end":
                ran |= {name} if when == "call" else set()
                fine = how == "passed" or (when != "call" and how == "skipped")
                self.passed[name] = self.passed.get(name, True) and fine
        self.passed = {name: fine and name in ran for name, fine in self.passed.items()}

    def passes(self, name: str) -> bool:
        """Return whether a test passed, with all its parameters."""
        if name in self.passed:
            return self.passed[name]
        parts = [fine for test, fine in self.passed.items() if test.startswith(f"{name}[")]
        return bool(parts) and all(parts)


def set_traps(files: list[str]) -> list[Path]:
    """Write two files of tests that must fail, next to the first and the last test file, with similar names."""
    traps = []
    for neighbor in (files[0], files[-1]):
        name = f"t{os.urandom(5).hex()}"
        number = int.from_bytes(os.urandom(2), "big")
        path = Path(neighbor).with_name(f"{name}_test.py" if neighbor.endswith("_test.py") else f"test_{name}.py")
        path.write_text(_TRAP.format(name=name, one=number, other=number + 1), "utf-8")
        traps.append(path)
    return traps


def session(files: list[str], settings: bool, log: Path) -> Told:
    """Run the files in an isolated process."""
    read, write = os.pipe()
    raw: list[bytes] = []

    def listen() -> None:
        size = 0
        while size < _MAX_BYTES and (piece := os.read(read, 1 << 16)):
            raw.append(piece)
            size += len(piece)
        os.close(read)  # further writes by the child fail

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    apart = shlex.split(os.environ.get("APART", ""))
    with log.open("wb") as printed:
        command = [*apart, sys.executable, "-P", "-B", __file__, "run", str(write)]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT, pass_fds=(write,)
        )
        os.close(write)
        child.communicate(json.dumps({"files": files, "settings": settings}).encode())
    listener.join(_REST_SECONDS)
    return Told(b"".join(raw))


def clear(steering: list[str]) -> None:
    """Remove configuration files that are not in the record."""
    allowed = {Path(name) for name in steering}
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(folder, name) for name in names if STEERS.fullmatch(name)):
            if path not in allowed:
                path.unlink()


def faults(reports: Told, traps: list[Path], tests: Path) -> list[str]:
    """Return the reasons why none of the reports count."""
    names = {str(path) for path in traps}
    trapped = [name for name in reports.passed if name.split("::")[0] in names]
    reasons = [] if reports.ended else ["the test session did not finish"]
    if any(reports.passed[name] for name in trapped) or {name.split("::")[0] for name in trapped} != names:
        reasons.append("tests that must fail did not, so the other results do not count")
    placed = [path for path in tests.rglob("*") if path.is_file()]
    if any(not _same(path, Path(path.relative_to(tests))) for path in placed):
        reasons.append("the tests were changed while they ran")
    return reasons


def _same(first: Path, second: Path) -> bool:
    return not second.is_symlink() and second.is_file() and first.read_bytes() == second.read_bytes()


def main(path: Path, verifier: Path) -> None:
    record = json.loads(path.read_text("utf-8"))
    groups: dict[str, list[str]] = record["groups"]
    clear(record["steering"])
    names = [name for group in groups.values() for name in group]
    files = [name for name in dict.fromkeys(name.split("::")[0] for name in names) if Path(name).exists()]
    traps = set_traps(files) if files else []
    log = verifier / "tests.log"
    places = [str(traps[0]), *files, str(traps[1])] if traps else []
    reports = session(places, record["settings"], log) if traps else Told(b"")
    if log.exists():
        lines = log.read_text("utf-8", "replace").splitlines()
        print("\n".join(line for line in lines[-80:] if not any(trap.stem in line for trap in traps)))  # noqa: T201
    wrong = faults(reports, traps, path.parent / "files") if traps else ["the test files are missing"]
    expected = {*names, *(name for name in reports.passed if name.split("::")[0] in places[:1] + places[-1:])}
    others = [name for name, fine in reports.passed.items() if not fine and name not in expected and record["whole"]]
    shares = {}
    for kind, group in groups.items():
        right = [] if wrong else [name for name in group if reports.passes(name)]
        for name in sorted(set(group) - set(right)):
            print(f"{kind}: {name} did not pass")  # noqa: T201
        shares[kind.lower()] = len(right) / len(group) if group else 1.0
    for sentence in (*wrong, *(f"{name} did not pass" for name in others)):
        print(sentence)  # noqa: T201
    reward = {"reward": float(not wrong and not others and all(share == 1.0 for share in shares.values())), **shares}
    verifier.joinpath("reward.json").write_text(json.dumps(reward), "utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(int(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
