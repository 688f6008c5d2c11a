"""Files of strangers, whole but odd: whoever reads one answers in a sentence, and never with a traceback."""

import shutil
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
"""What stands in a file."""

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
"""What once ended in a traceback."""
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
