"""The crash histories find each fault planted into a copy of the program."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stage import ROOT

PLANTED = {
    "a torn record is not cut off": (
        "trace/store.py", "os.ftruncate(self._file, end.whole_bytes)", "os.fstat(self._file)",
    ),
    "a line end that is missing is not put there": ("trace/store.py", "if not end.terminated:", "if False:"),
    "a resumed run restarts its record count": (
        "trace/store.py", "self._seq = self._synced = end.count", "self._seq = self._synced = 0",
    ),
    "a resumed run starts a new chain": ("trace/store.py", "self.digest = end.digest", 'self.digest = ""'),
    "a torn record is taken for whole": (
        "run/stopped.py", "whole = file.seek(0, 2) - reader.torn_bytes", "whole = file.seek(0, 2)",
    ),
    "the lock is left": ("trace/lock.py", "self._path.unlink()", "self._path.exists()"),
    "the result of an earlier end counts": (
        "run/ending.py", "result is None or (result.digest and result.digest != digest)", "result is None",
    ),
    "files in memory are not made again": (
        "run/open.py", "recall(RunReader(begins.run_dir), begins.stopped.end.count, world)", "pass",
    ),
    "the result does not say what it was written after": (
        "run/play.py", "digest=writer.digest,", 'digest="",',
    ),
    "a person is told before it is written": (
        "run/play.py",
        "        record(event, after)\n        if opened.person.observe is not None:\n"
        "            opened.person.observe(event, after)\n",
        "        if opened.person.observe is not None:\n            opened.person.observe(event, after)\n"
        "        record(event, after)\n",
    ),
    "a run that is over is played again": ("run/resume.py", "if state.end is None or state.stack:", "if True:"),
    "checks that were interrupted count as a verdict": (
        "run/resume.py", "(checks is not None and bool(checks.rewards or not checks.error))", "checks is not None",
    ),
    "a short write is taken for a whole one": (
        "trace/store.py", "    if written < len(line):\n        os.ftruncate(file, size)",
        "    if written < 0:\n        os.ftruncate(file, size)",
    ),
    "a request is sent before what led to it is on the disk": (
        "trace/store.py", "                before()\n                self.sync()\n", "                before()\n",
    ),
}  # fmt: skip
"""The file, the original text, and its replacement."""
SEARCH = """
import sys, tempfile
from pathlib import Path
from tests.simulation.histories import Reference, live_through
place = Path(tempfile.mkdtemp(dir=sys.argv[1]))
reference = Reference(place / "reference")
for seed in range(300):
    live_through(seed, reference, place / "history")
"""


@pytest.mark.campaign
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(tmp_path: Path, fault: str):
    name, sound, broken = PLANTED[fault]
    copy = tmp_path / "program" / "stackmem"
    shutil.copytree(ROOT / "stackmem", copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / name).read_text("utf-8")
    assert text.count(sound) == 1
    (copy / name).write_text(text.replace(sound, broken), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": f"{copy.parent}:{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-c", SEARCH, tmp_path], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
