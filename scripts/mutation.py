"""Mutate the pure parts of the code, one small change at a time, and report mutants that no test detects.

    python scripts/mutation.py --count 200 --seed 1 -o mutants.jsonl    run a sample, or continue an interrupted one
    python scripts/mutation.py --show mutants.jsonl                     print the rate and each survivor with its change

A mutant is one changed operator, constant or condition. First, all pure tests run once to record which of them call
each function. Then the tests that call the mutated function run against the mutant, shortest first, and the first
failure kills it. A mutant whose tests take more than 5 minutes counts separately as a time-out. All of this happens in
a copy of the code.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "memory", "trace", "review/measure", "lab/strategies")
NET = (
    "core",
    "memory",
    "golden",
    "properties",
    "review/measure",
    "lab/strategies",
    "trace",
    "contracts/test_strategies.py",
)
SECONDS = 300.0
"""A mutant whose tests take longer than this counts as a time-out."""
FIRST = 60
"""This many tests run first, because most mutants are detected by one of them."""

SWAPS: dict[type[ast.AST], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.And: "or",
    ast.Or: "and",
}  # fmt: skip


class Mutant(NamedTuple):
    """One change.

    Attributes:
        path: The module, relative to the repository.
        line: From 1.
        start, end: Byte offsets of the replaced text in the file.
    """

    path: str
    line: int
    start: int
    end: int
    was: str
    now: str

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}:{self.start}:{self.now}"


class Source:
    """A module's text, and the positions of its nodes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes = path.read_bytes()
        self._begins = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._begins.append(self._begins[-1] + len(line))

    def begin(self, node: ast.expr) -> int:
        return self._begins[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._begins[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def mutant(self, node: ast.expr, start: int, end: int, now: str) -> Mutant:
        return Mutant(str(self.path.relative_to(ROOT)), node.lineno, start, end, self.bytes[start:end].decode(), now)

    def whole(self, node: ast.expr, now: str) -> Mutant:
        return self.mutant(node, self.begin(node), self.end(node), now)


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module. Annotations, docstrings and imports have none."""
    source = Source(path)
    for function in ast.walk(ast.parse(source.bytes)):
        if isinstance(function, ast.FunctionDef):
            for node in (each for statement in function.body for each in ast.walk(statement)):
                yield from _of_operator(source, node)
                yield from _of_value(source, node)


def _of_operator(source: Source, node: ast.AST) -> Iterator[Mutant]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from _swapped(source, left, right, operator)
        case ast.BinOp(left=left, op=operator, right=right):
            yield from _swapped(source, left, right, operator)
        case ast.BoolOp(op=operator, values=[left, right, *_]):
            yield from _swapped(source, left, right, operator)
        case ast.UnaryOp(op=ast.Not()):
            yield source.mutant(node, source.begin(node), source.begin(node) + len("not"), "")
        case _:
            pass


def _swapped(source: Source, left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutant]:
    """Yield the mutant of an operator. Its text is between the operands, possibly with comments and parentheses."""
    text = source.bytes[source.end(left) : source.begin(right)].decode()
    word = text.strip(" \n()")
    if type(operator) in SWAPS and word and "#" not in text and "\n" not in word:
        start = source.end(left) + text.encode().index(word.encode())
        yield source.mutant(left, start, start + len(word.encode()), SWAPS[type(operator)])


def _of_value(source: Source, node: ast.AST) -> Iterator[Mutant]:
    match node:
        case ast.Constant(value=bool() as value):
            yield source.whole(node, str(not value))
        case ast.Constant(value=int() as value):
            yield source.whole(node, str(value + 1))
        case ast.IfExp(test=test) | ast.If(test=test):
            yield source.whole(test, f"(not ({source.bytes[source.begin(test) : source.end(test)].decode()}))")
        case _:
            pass


def sample(count: int, seed: int) -> list[Mutant]:
    """Return ``count`` mutants of all rooms, which depend only on the seed and the code."""
    paths = [path for room in ROOMS for path in sorted((ROOT / "stackmem" / room).rglob("*.py"))]
    every = sorted({one.key: one for path in paths for one in mutants(path)}.values())
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311 - a sample, not a secret


class Reach:
    """A pytest plug-in that records the functions that each test calls, and the duration of each test.

    Attributes:
        tests: Test id to its duration and the mutants in functions that it calls. The entry "" contains mutants in
            functions that run during collection, which any test may detect.
    """

    def __init__(self, sought: list[Mutant]) -> None:
        self.sought = sought
        self.tests: dict[str, tuple[float, set[str]]] = {"": (0.0, set())}
        self._test = ""
        self._keys: dict[CodeType, set[str]] = {}

    def begin(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test, begun = item.nodeid, time.monotonic()
        self.tests[self._test] = (0.0, set())
        self.begin()  # earlier code may have removed the trace function
        try:
            return (yield)
        finally:
            self.tests[self._test] = (round(time.monotonic() - begun, 3), self.tests[self._test][1])
            self._test = ""

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        keys = self._keys.get(frame.f_code)
        if keys is None:
            keys = self._keys[frame.f_code] = set(self._of(frame.f_code))
        if keys:
            self.tests[self._test][1].update(keys)

    def _of(self, code: CodeType) -> Iterator[str]:
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return  # module and class bodies run on import and contain no mutants themselves
        last = max((line for _, _, line in code.co_lines() if line), default=0)
        for mutant in self.sought:
            if code.co_filename.endswith(f"/{mutant.path}") and code.co_firstlineno <= mutant.line <= last:
                yield mutant.key


def reaching(sought: list[Mutant], folder: Path) -> dict[str, list[str]]:
    """Return the tests that can detect each mutant, shortest first."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def look() -> None:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        reach = Reach(sought)
        reach.begin()
        code = pytest.main(["-q", "-p", "no:cacheprovider", *_net(folder)], plugins=[reach])
        answers.put((int(code), reach.tests))

    process = context.Process(target=look)
    process.start()
    code, tests = answers.get()
    process.join()
    if code:
        raise SystemExit("the tests must pass on the original code first")
    everywhere = tests.pop("")[1]
    ordered = sorted(tests, key=lambda test: tests[test][0])
    return {one.key: [test for test in ordered if one.key in everywhere or one.key in tests[test][1]] for one in sought}


def _net(folder: Path) -> list[str]:
    return [f"tests/{part}" for part in NET if (folder / "tests" / part).exists()]


def fate(mutant: Mutant, folder: Path, tests: list[str]) -> dict[str, object]:
    """Run the tests of one mutant, whose code replaces the original in ``folder`` during that time."""
    target = folder / mutant.path
    sound = target.read_bytes()
    target.write_bytes(sound[: mutant.start] + mutant.now.encode() + sound[mutant.end :])
    begun = time.monotonic()
    row: dict[str, object] = {"key": mutant.key, "was": mutant.was, "now": mutant.now, "fate": "survived"}
    row["tests"] = len(tests)
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        for stage in filter(None, (tests[:FIRST], tests[FIRST:])):
            left = SECONDS - (time.monotonic() - begun)
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *stage]
            done = subprocess.run(
                command, cwd=folder, env=environ, capture_output=True, timeout=max(1.0, left), check=False
            )
            if done.returncode:
                failed = [line for line in done.stdout.decode().splitlines() if line.startswith(("FAILED", "ERROR"))]
                row |= {"fate": "killed", "by": failed[0] if failed else done.returncode}
                break
    except subprocess.TimeoutExpired:
        row["fate"] = "timed out"
    finally:
        target.write_bytes(sound)
        for kept in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            kept.unlink()  # bytecode from the same second would be mistaken for that of the original
    return {**row, "seconds": round(time.monotonic() - begun, 1)}


def run(count: int, seed: int, kept: Path, workers: int) -> None:
    done = {json.loads(line)["key"] for line in kept.read_text().splitlines()} if kept.exists() else set()
    waiting = [one for one in sample(count, seed) if one.key not in done]
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            folder = Path(place) / str(number)
            left_out = shutil.ignore_patterns(".git", ".venv", "node_modules", "runs", "__pycache__", ".*_cache")
            shutil.copytree(ROOT, folder, ignore=left_out, symlinks=True)
            folders.put(folder)
        tests = reaching(waiting, Path(place) / "0")

        def take(mutant: Mutant) -> dict[str, object]:
            folder = folders.get()
            try:
                return fate(mutant, folder, tests[mutant.key])
            finally:
                folders.put(folder)

        with ThreadPoolExecutor(workers) as pool, kept.open("a") as file:
            for row in pool.map(take, waiting):
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(row["fate"], row["key"], row["seconds"], flush=True)


def show(kept: Path) -> None:
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    counts = Counter(row["fate"] for row in rows)
    judged = counts["killed"] + counts["survived"]
    print(f"{len(rows)} mutants: " + ", ".join(f"{number} {fate}" for fate, number in sorted(counts.items())))
    print(f"killed, of those without a time-out: {counts['killed'] / max(1, judged):.1%}")
    for row in rows:
        if row["fate"] != "killed":
            print(f"{row['fate']}: {row['key'].rsplit(':', 2)[0]}: {row['was']!r} -> {row['now']!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", dest="kept", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--show", type=Path, help="report a file of results instead of writing one")
    asked = parser.parse_args()
    if asked.show:
        show(asked.show)
    else:
        run(asked.count, asked.seed, asked.kept, asked.workers)


if __name__ == "__main__":
    main()
