"""Breaks the pure parts in small ways, one at a time, and reports what no test sees.

    python scripts/mutation.py --count 200 --seed 1 -o mutants.jsonl    a sample; runs on where it was stopped
    python scripts/mutation.py --show mutants.jsonl                     the rate, and each survivor with its change

A mutant is one changed operator, constant or condition. Its nearest tests run first: those of its module, then those of
its room, then every other pure test. The first failure kills it. A mutant whose tests do not end in 15
minutes counts as a time-out, apart from the others. The code is copied to a folder of its own first.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("core", "memory", "trace", "measure")
NET = ("core", "memory", "golden", "properties", "measure", "trace", "contracts/test_strategies.py")
SECONDS = 900.0
"""A mutant that takes longer over all its tests counts as a time-out."""

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
        start, end: Offsets of the text that is replaced, in bytes of the file.
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
    """A module's text, and where its nodes stand in it."""

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
    """Every mutant of a module; annotations, docstrings and imports have none."""
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
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield source.mutant(node, source.begin(node), source.begin(operand), "")
        case _:
            pass


def _swapped(source: Source, left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutant]:
    """The operator's own text stands between its operands, beside comments and brackets."""
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
    """``count`` mutants of all rooms, the same for a seed and a state of the code."""
    paths = [path for room in ROOMS for path in sorted((ROOT / "stackmem" / room).rglob("*.py"))]
    every = sorted({one.key: one for path in paths for one in mutants(path)}.values())
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311 - a sample, and no secret


def nearest(path: str) -> list[list[str]]:
    """The tests of a module in the order in which they are tried: its own, those of its room, all the others."""
    module = Path(path)
    room = module.parts[1]
    dotted = ".".join(module.with_suffix("").parts)
    own = ROOT / "tests" / room / f"test_{module.stem}.py"
    beside = sorted((ROOT / "tests" / room).rglob("test_*.py"))
    near = [test for test in beside if test == own or dotted in test.read_text("utf-8")]
    stages = [near, [ROOT / "tests" / room], [ROOT / "tests" / part for part in NET if part != room]]
    return [[str(test.relative_to(ROOT)) for test in stage if test.exists()] for stage in stages if stage]


def fate(mutant: Mutant, folder: Path) -> dict[str, object]:
    """What became of one mutant, whose code is put into ``folder`` for as long as its tests run."""
    target = folder / mutant.path
    sound = target.read_bytes()
    target.write_bytes(sound[: mutant.start] + mutant.now.encode() + sound[mutant.end :])
    begun = time.monotonic()
    row: dict[str, object] = {"key": mutant.key, "was": mutant.was, "now": mutant.now, "fate": "survived"}
    environ = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for tests in nearest(mutant.path):
            left = SECONDS - (time.monotonic() - begun)
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
            done = subprocess.run(
                command, cwd=folder, env=environ, capture_output=True, timeout=max(1.0, left), check=False
            )
            if done.returncode not in (0, 5):  # 5: none of them is a test
                row |= {"fate": "killed", "by": tests[0]}
                break
    except subprocess.TimeoutExpired:
        row["fate"] = "timed out"
    finally:
        target.write_bytes(sound)
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

        def take(mutant: Mutant) -> dict[str, object]:
            folder = folders.get()
            try:
                return fate(mutant, folder)
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
    print(f"killed of those that came to an end: {counts['killed'] / max(1, judged):.1%}")
    for row in rows:
        if row["fate"] != "killed":
            print(f"{row['fate']}: {row['key'].rsplit(':', 2)[0]}: {row['was']!r} -> {row['now']!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", dest="kept", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--show", type=Path, help="report a file of results instead of making one")
    asked = parser.parse_args()
    if asked.show:
        show(asked.show)
    else:
        run(asked.count, asked.seed, asked.kept, asked.workers)


if __name__ == "__main__":
    main()
