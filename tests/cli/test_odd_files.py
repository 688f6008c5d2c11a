"""Files from strangers that are complete but odd: every reader answers with a sentence, never a traceback."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stage import Stage, command, pop

DEEP = 100_000
ODD = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a number": b"7",
    "a text": b'"text"',
    "an empty object": b"{}",
    "deep lists": b"[" * DEEP,
    "deep lists that end": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "5,000 digits": b"9" * 5_000,
    "an object with 5,000 digits": b'{"seq": %b}' % (b"9" * 5_000),
    "too large a float": b'{"at": 1e999}',
    "NaN": b'{"at": NaN}',
    "half a character": rb'{"event": "\ud800"}',
    "a key twice": b'{"seq": 1, "seq": 2}',
    "no UTF-8": b"\xff\xfe\x00",
    "a NUL": b"\x00" * 100,
    "spaces": b" " * 1_000_000,
    "line ends": b"\n" * 10_000,
    "a tag": b"!!python/object/apply:os.system ['true']",
    "a merge of itself": b"a: &a\n  <<: *a\n",
    "deep TOML": b"a = " + b"[" * 2_000,
    "TOML of 5,000 digits": b"max_steps = %b\n" % (b"9" * 5_000),
    "a byte order mark": b"\xef\xbb\xbf{}",
}
"""The content of a file."""

OF_A_RUN = ("trace.jsonl", "result.json", "run.json", "request.json", "changes.json")
READERS = (
    "replay {run}", "replay {run} --step 1", "trace show {run}", "trace show {run} --steps", "trace stats {run}",
    "trace stats {run} --simulate claude-haiku-4-5", "trace pack {run} -o {new}.zip", "runs", "diff {run} {run}",
    "view {run} -o {new}.html", "whatif {run} --strategies full", "export {run} --format atif",
    "export {run} --format otel", "export {run} --format chrome", "export {run} --format sft",
    "export {run} --format mini", "export {run} --format csv", "export {run} --format inspect -o {new}.eval",
    "export {run} --format swebench", "resume {run}", "fork {run} --at 1", "apply {run}", "trace recover {run}",
    "trace redact {run} --pattern x+",
)  # fmt: skip
OTHERS = {
    "solve {file}": "task.toml",
    "solve {folder} -t x --model script:{file}": "script.yaml",
    "solve {folder} -t x --model human --profile {file}": "profile.toml",
    "lint {file}": "main.apl",
    "import {file}": "session.jsonl",
    "import {file} --format mini": "mini.json",
    "import {file} --format atif": "atif.json",
    "bench {file} -o {new}": "suite.toml",
    "report {folder}": "ledger.jsonl",
    "report {folder} ": "plan.json",
    "replay {file}": "packed.zip",
    "tasks import swebench {file} --repo {folder} -o {new}": "instances.jsonl",
}
FOUND = [
    ("trace.jsonl", "null", "trace stats {run} --simulate claude-haiku-4-5"),
    ("trace.jsonl", "null", "export {run} --format atif"),
    ("request.json", "deep objects", "trace pack {run} -o {new}.zip"),
    ("changes.json", "deep objects", "apply {run}"),
    ("result.json", "deep objects", "runs"),
    ("profile.toml", "deep TOML", "solve {folder} -t x --model human --profile {file}"),
    ("profile.toml", "TOML of 5,000 digits", "solve {folder} -t x --model human --profile {file}"),
    ("suite.toml", "TOML of 5,000 digits", "bench {file} -o {new}"),
]
"""Inputs that once ended in a traceback."""
ALL = [
    *((name, odd, line) for name in OF_A_RUN for odd in ODD for line in READERS),
    *((name, odd, line) for line, name in OTHERS.items() for odd in ODD),
]


@pytest.mark.parametrize("rows", [FOUND, pytest.param(ALL, marks=pytest.mark.campaign)], ids=["found", "all"])
def test_an_odd_file_is_answered_in_a_sentence(stage: Stage, rows: list[tuple[str, str, str]]):
    whole = Path(stage.solve(stage.task(command("echo x > made"), pop())).run_dir)
    run, folder = stage.runs / "20260101T000000Z-odd-odd-0a0a0a", stage.root / "folder"
    for number, (name, odd, line) in enumerate(rows):
        for place in (run, folder):
            shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, run)
        folder.mkdir()
        file = (run if name in OF_A_RUN else folder) / name
        file.write_bytes(ODD[odd])
        words = line.format(run=run, new=stage.root / f"new{number}", folder=folder, file=file).split()
        ran = stage.call(*words)
        told = f"{name} with {odd}, {line}: exit {ran.returncode}\n{ran.stderr[-1000:]}"
        assert "Traceback" not in ran.stderr, told
        assert ran.returncode in range(8), told


def a_huge_file(path: Path) -> None:
    """Create a sparse file of three terabytes."""
    with path.open("wb") as file:
        file.truncate(3 << 40)


def an_endless_end(path: Path) -> None:
    """Append a line of three terabytes to the existing content."""
    with path.open("ab") as file:
        file.truncate(3 << 40)


KINDS: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "3 TB": a_huge_file,
    "a last line of 3 TB": an_endless_end,
}
OF_A_RUN_TOO = (
    "changes.patch", "signatures.jsonl", "applied.json", "trace.lock", "result.json.new", "imported.json",
    "history.git/stackmem.json", "history.git/stackmem.new", "history.git/objects/info/alternates",
    "history.git/config",
)  # fmt: skip
MORE_READERS = (*READERS, "replay {run} --signed", "runs --sort disk_bytes", "runs prune --older-than 1d")
MORE_OTHERS = {
    **OTHERS,
    "fork {whole} --at 1 --set heap.a=@{file}": "chunk.txt",
    "evidence {folder} -o {new}.html": "recording.json",
    "evidence {folder} --rows {file} -o {new}.html": "rows.jsonl",
    "report {folder}  ": "results.sqlite",
    "bench --repeat {file} -o {new}": "archive.zip",
    "whatif {file} --strategies full": "session.jsonl",
    "run {file}": "main.pb",
    "run {folder}": "main.pb",
    "tasks check {folder}": "task.toml",
    "tasks import exercism {folder} -o {new}": "config.json",
    "tasks import harbor {folder} -o {new}": "task.toml",
    "trust {folder}": "stackmem.mcp.toml",
    "solve {folder} -t x --model human --prompt {file}": "prompt.md",
    "lint {folder}": "a.apl",
}
HUNG = [
    ("trace.jsonl", "a FIFO", "replay {run}"),
    ("trace.jsonl", "a FIFO", "runs"),
    ("trace.jsonl", "a device", "export {run} --format csv"),
    ("trace.jsonl", "a last line of 3 TB", "replay {run}"),
    ("signatures.jsonl", "a FIFO", "replay {run} --signed"),
    ("signatures.jsonl", "a device", "replay {run} --signed"),
    ("changes.patch", "a FIFO", "apply {run}"),
    ("changes.patch", "3 TB", "apply {run}"),
    ("changes.patch", "a FIFO", "resume {run}"),
    ("changes.patch", "3 TB", "trace pack {run} -o {new}.zip"),
    ("history.git/stackmem.json", "a FIFO", "resume {run}"),
    ("history.git/stackmem.new", "a FIFO", "resume {run}"),
    ("history.git/objects/info/alternates", "a FIFO", "view {run} -o {new}.html"),
    ("history.git/config", "a device", "view {run} -o {new}.html"),
    ("history.git/objects/info/alternates", "3 TB", "view {run} -o {new}.html"),
    ("result.json.new", "a FIFO", "resume {run}"),
    ("trace.lock", "a FIFO", "runs"),
    ("session.jsonl", "a FIFO", "import {file}"),
    ("session.jsonl", "3 TB", "import {file}"),
    ("chunk.txt", "a device", "fork {whole} --at 1 --set heap.a=@{file}"),
    ("prompt.md", "a FIFO", "solve {folder} -t x --model human --prompt {file}"),
    ("results.sqlite", "a FIFO", "report {folder}  "),
    ("task.toml", "3 TB", "tasks import harbor {folder} -o {new}"),
]
"""Inputs that once blocked or were read without end."""
ALL_KINDS = [
    *((name, kind, line) for name in (*OF_A_RUN, *OF_A_RUN_TOO) for kind in KINDS for line in MORE_READERS),
    *((name, kind, line) for line, name in MORE_OTHERS.items() for kind in KINDS),
]


@pytest.mark.parametrize("rows", [HUNG, pytest.param(ALL_KINDS, marks=pytest.mark.campaign)], ids=["hung", "all"])
def test_a_file_without_end_is_answered_in_a_sentence(stage: Stage, rows: list[tuple[str, str, str]]):
    """A reader that waits or reads forever is stopped by the suite's own time limit."""
    whole = Path(stage.solve(stage.task(command("echo x > made"), pop())).run_dir)
    run, folder = stage.runs / "20260101T000000Z-odd-odd-0a0a0a", stage.root / "folder"
    for number, (name, kind, line) in enumerate(rows):
        for place in (run, folder):
            shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, run)
        folder.mkdir()
        file = (run if name in (*OF_A_RUN, *OF_A_RUN_TOO) else folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind != "a last line of 3 TB":
            file.unlink(missing_ok=True)
        KINDS[kind](file)
        words = line.format(run=run, new=stage.root / f"kind{number}", folder=folder, file=file, whole=whole).split()
        ran = stage.call(*words)
        told = f"{name} is {kind}, {line}: exit {ran.returncode}\n{ran.stderr[-1000:]}"
        assert "Traceback" not in ran.stderr, told
        assert ran.returncode in range(8), told
