"""Every benchmark runs at a tiny size, prints its rows, and writes only temporary files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stackmem.lab.bench.evidence import RecordingEntry, StrategyBill
from tests.forked import run_forked

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.startswith("_"))


def recordings(folder: Path) -> list[str]:
    """A recording of an agent that searched."""
    said = [("system", "You are an agent."), ("assistant", "```bash\ngrep -r x .\n```"), ("user", "a.py: x")]
    messages = [{"role": role, "content": content} for role, content in said]
    (folder / "one.traj.json").write_text(json.dumps({"messages": messages}))
    return [str(folder)]


def bills(folder: Path) -> list[str]:
    """The rows of a study of one session."""
    one = RecordingEntry(
        "codex/owner+name/session.jsonl",
        bills={name: StrategyBill((1.0,) * 3, 1, 1, 0) for name in ("full", "a middle")},
    )
    folder.mkdir(exist_ok=True)
    (folder / "study.jsonl").write_bytes(msgspec.json.encode(one) + b"\n")
    return [str(folder / "study.jsonl"), "--first", "1"]


def words(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda folder: [each.format(folder=folder, root=ROOT) for each in arguments]


# For each benchmark: the arguments that make it tiny, and what its lines say, in order.
TINY: dict[str, tuple[Callable[[Path], list[str]], list[str]]] = {
    "apl": (
        words("--items", "10", "--outside", "2"),
        ["of 10 items, announced", "median time per item ", "processor time", "last tenth", "trace per item",
         "largest resident", "largest resident", "a plain loop", "median time per item with one", "the disk's own"],
    ),
    "bench": (
        words("--trials", "8"),
        ["the run alone", "measured and billed", "memory after", "local engine"],
    ),
    "bench_real": (
        words("--tiny"),
        [r"\| tokens", r"\|---", r"\| evaluated", r"\| cached", r"\| written", "the token counts are equal"],
    ),
    "coverage": (
        words("--draws", "2", "--sizes", "20"),
        [r"\| estimand .* 20 sessions", r"\|---", *[r"\| sum \| .* none"] * 7, *[r"\| mean session \| "] * 7],
    ),
    "gateway": (
        words("--kib", "4", "--requests", "2", "--streams", "2", "--flat", "10", "--turns", "8", "--think", "0"),
        [*["2 turns of", "upstream", "plain proxy", "gateway", "added by"] * 2, "2 parallel streams: 2 complete",
         "resident set over 10 requests",
         *["plain proxy, conversations of 1, 2, 4, 8 turns", "gateway, conv", "gateway under mask, conv"] * 2],
    ),
    "learned": (
        words("--only", "failures"),
        [r"\| procedure \| language", r"\|---", r"\| failures \| sexp \| 7 \| .* \| 3 \| 3 \| .*% \| 0 \|"],
    ),
    "long_history": (
        words("--commits", "150", "--rounds", "1", "--waits", "2"),
        [r"\{", ' "first_command_s": ', '  "none": ', r"   \d", "  ]", '  "read": ', r"   \d", "  ]", " }",
         ' "beyond_none_s": ', ' "peak_mib": ', ' "whole_history_s": ', ' "commits": 150', r' "objects": \d',
         ' "git_pack_objects_s": ', ' "pack_s": ', ' "check_and_search_s": ', r"\}"],
    ),
    "loop_agent": (
        words("--items", "260", "--chars", "500"),
        ["260 items, 16 at a time", "100 items, long results .* 1 failed, in order",
         "all items, results of 100 .* 3 failed, in order", "all items, long results .* 3 failed, in order",
         "all items, long results that go into the payload .* 3 failed, in order", "the long run replayed"],
    ),
    "overhead": (
        words("--tiny"),
        ["work per step without fsync", "  step 10", "  all steps", "trace bytes", "work per step with fsync", "floor",
         "ratio to the floor", "Python calls per step, full", "Python calls per step, stackheap", "full: work",
         "memory growth per step, stackheap", "memory growth per step, full",
         "one signature", "  a fifth of it", "  the same", "snapshot of 20 files", "stackmem --help"],
    ),
    "pairs": (
        words("{root}", "--pairs", "1", "--divisor", "50", "--only", "trace"),
        ["trace: fold", "trace: read", "trace: replay"],
    ),
    "parallel_frames": (
        words("--tasks", "2", "--latency", "0", "--rounds", "1"),
        [r"\| round", r"\|---", r"\| 1 \| ", "median ratio .* the files are equal"],
    ),
    "published": (words("--jobs", "2", "--families", "1"), [r"\| "] * 25),
    "real_arm": (
        words("--tiny"),
        [r"\| strategy", r"\|---", *[rf"\| `{name}" for name in ("full", "adaptive", "mask", "window", "rolling")],
         *[rf"{figure} .*: of \d+ pairs .* [1-9]\d* agree, 0 are rev" for figure in ("share", "longest", "new")]],
    ),
    "real_models": (
        words("--tiny"),
        [r"\| strategy \| runs \| solved", r"\|---", r"\| full \| 2 \| 2 \|.*\| not reported \|"],
    ),
    "halves": (
        lambda folder: [*recordings(folder), "-o", str(folder / "halves")],
        ["tune: [01] files, held: [01] files"],
    ),
    "recordings": (
        words("{folder}", "-o", "{folder}/laid-out"),
        [r".*: left out, missing clone of [\w./-]+ in "] * 12,
    ),
    "repository": (
        words("--files", "20", "--processes", "1", "2", "--rounds", "1"),
        [r"\| files \| 20", r"\|---", r"\| `git status`", r"\| `cp -r`", r"\| `solve` to the first request",
         r"\| the same", r"\| `solve` to the answer", r"\| the same", r"\| `solve` to the first request of the next",
         r"\| the same", r"\| the bare sandbox", r"\| `run_command true`", r"\| the same next to more", r"\| snapshot",
         r"\| disk usage of a run", r"\| its workspace", r"\| history", r"\| peak memory"],
    ),
    "run_list": (
        words("3", "--times", "1"),
        ["3 runs; load", r"\| seconds", r"\|---", r"\| from the command", r"\| a new server: from",
         r"\| a new server: until", r"\| later: from", r"\| later: until"],
    ),
    "session": (
        words("--requests", "5", "--flat-requests", "2"),
        [r"frame \(stackheap\), 5 requests: prompt tokens of request 1: [\d,]+, 5: ", r"flat \(full\), 2 requests"],
    ),
    "session_bills": (
        bills,
        ["agent,repository,session,full,a", "codex,owner/name,session,1.000000,1.000000"],
    ),
    "sessions": (
        words("{folder}", "-o", "{folder}/laid-out"),
        [r"[\w./-]+: left out, missing clone of \d+ sessions in "] * 16,
    ),
    "sexp": (
        words("--seconds", "0.01"),
        ["program +nodes", "fib", "closures", "lets", "logic"],
    ),
    "standing_rules": (
        words("--requests", "12", "--days", "1"),
        ["1 days of 12 requests", r"\| policy", r"\|---", r"\| frames, before \|", r"\| frames \| 0 \| 0 of ",
         r"\| frames, careless agent", r"\| adaptive \| 0 \| 0 of ", r"\| flat with summaries, before",
         r"\| flat with summaries \| 0 \| 0 of ", r"\| flat, full \| 0 \| 0 of ",
         r"\| frames, notes file \| 0 \| 0 of ", r"\| frames, notes file, careless agent \| ",
         r"\| flat with summaries, notes file \| 0 \| 0 of "],
    ),
    "standing_rules_real": (
        words("--tiny"),
        ["3 of 3 requests, ending left, 6 replies", "both rules are in 6 of 6 prompts", "3 of 3 files exist",
         "3 of 3 files are in out/", "2 of 3 files begin", r"[\d,]+ tokens of prompts, "],
    ),
    "terminal": (
        words("--keys", "2", "--words", "2", "--seconds", "1"),
        ["a key, at rest", "a key, while a command prints", "ratio of the medians", "the first word",
         "every word", "a key, after 10,000 lines", "streaming Markdown at"],
    ),
    "tools": (
        recordings,
        ["1 runs, 1 steps", "schema, characters", "rewrite: 0 uses", "script: 0 uses", "EditFile: costs",
         "search: 1 uses", "SearchFiles: costs"],
    ),
    "trace": (
        words("--steps", "200"),
        ["fold, frames of 100 steps", "fold, one frame of 200", "read, check and fold", "read and check", "replay",
         "bytes per step", "summary of a finished run"],
    ),
    "view": (
        words("--steps", "20", "--times", "1"),
        ["20 steps; opened 1 times", r"\| strategy", r"\|---", r"\| `stackheap` \|", r"\| `stackheap:index=system` \|",
         r"\| `full` \|", "medians; load"],
    ),
    "whatif_real": (
        words("--tiny"),
        [r"\| task \| steps", r"\|---", r"\| create \| 2 \|", r"\| together \| 2 \|"],
    ),
}  # fmt: skip


SCRIPT = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def ran(path: Path, arguments: list[str], home: Path) -> str:
    """Run a program in a fork of the test process, which has imported most of what benchmarks import."""
    hidden = ("XDG_", "STACKMEM_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environ = {**kept, "HOME": str(home), "TMPDIR": str(home.parent / "tmp"), "PYTHONPATH": str(ROOT)}
    done = run_forked([sys.executable, "-c", SCRIPT, str(path), *arguments], environ, home.parent, timeout=550)
    assert done.returncode == 0, done.stdout[-1_000:] + done.stderr[-3_000:]
    assert "Traceback" not in done.stderr, done.stderr[-3_000:]
    return done.stdout


def prepared(tmp_path: Path) -> Path:
    for name in ("home", "tmp", "given"):
        (tmp_path / name).mkdir()
    return tmp_path / "home"


def test_each_benchmark_has_a_tiny_size_here():
    assert sorted(TINY) == [path.stem for path in BENCHMARKS]


HELP = """import contextlib, io, runpy, sys
for path in sys.argv[1:]:
    sys.argv, printed = [path, "--help"], io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_path(path, run_name="__main__")
    print(path, printed.getvalue()[:7])
"""


def test_each_benchmark_says_how_it_is_used(tmp_path):
    """Uses one process for all benchmarks, because most of the time goes to their shared imports."""
    home = prepared(tmp_path)
    (tmp_path / "help.py").write_text(HELP)
    paths = [str(path) for path in BENCHMARKS]
    assert ran(tmp_path / "help.py", paths, home).splitlines() == [f"{path} usage: " for path in paths]


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_prints_its_rows_and_leaves_nothing_behind(path, tmp_path):
    home = prepared(tmp_path)
    arguments, rows = TINY[path.stem]
    lines = [line for line in ran(path, arguments(tmp_path / "given"), home).splitlines() if line.strip()]
    assert len(lines) == len(rows), lines
    assert [line for line, row in zip(lines, rows, strict=True) if not re.match(row, line)] == []
    assert sorted(home.rglob("*")) == []
    assert sorted((tmp_path / "tmp").rglob("*")) == []
    assert sorted(tmp_path.iterdir()) == [tmp_path / "given", home, tmp_path / "tmp"]


def test_sessions_are_found_in_checkpoints_and_agent_folders_and_laid_out_once(tmp_path):
    home, project, given = prepared(tmp_path), tmp_path / "project", tmp_path / "given"

    def git(*arguments: str) -> None:
        names = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *names, *arguments], check=True, capture_output=True)

    line = json.dumps({"type": "user", "sessionId": "a-1"}) + "\n"
    hostile = json.dumps({"type": "user", "sessionId": "../../outside"}) + "\n"
    rollout = json.dumps({"type": "session_meta", "payload": {"id": "b-2"}}) + "\n"
    chat = json.dumps({"sessionId": "c-3", "projectHash": "x", "messages": []}, indent=1)
    texts = {"aa/1/0/full.jsonl": line, "bb/2/0/full.jsonl": line * 3, "cc/3/0/full.jsonl": hostile,
             "dd/4/0/full.jsonl": "[]", "sessions/rollout-1.jsonl": rollout, "ee/5/0/full.jsonl": chat}  # fmt: skip
    for path, text in texts.items():
        (project / path).parent.mkdir(parents=True)
        (project / path).write_text(text)
    git("init", "-q", "-b", "entire/checkpoints/v1", str(project))
    git("-C", str(project), "add", ".")
    git("-C", str(project), "commit", "-qm", "x")
    git("clone", "-q", "--mirror", str(project), str(given / "clones" / "owner" / "project"))
    table, out = given / "list.tsv", given / "out"
    arguments = [str(given / "clones"), "--list", str(table), "--scan", "-o", str(out)]
    told = ran(ROOT / "benchmarks" / "sessions.py", arguments, home).splitlines()[-1]
    assert told == "owner/project: 1 claude-code, 1 codex, 1 gemini-cli"
    written = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.*")}
    assert written == {
        "claude-code/owner+project/a-1.jsonl": line * 3, "codex/owner+project/b-2.jsonl": rollout,
        "gemini-cli/owner+project/c-3.json": chat,
    }  # fmt: skip
    table.write_text(re.sub("[0-9a-f]{40}(?=\ta-1)", "0" * 40, table.read_text()))
    told = ran(ROOT / "benchmarks" / "sessions.py", [*arguments[:3], "-o", str(given / "again")], home)
    assert told == "owner/project: 1 absent, 1 codex, 1 gemini-cli\n"
