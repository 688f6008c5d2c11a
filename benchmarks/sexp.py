"""Measure the speed of workflow evaluation: python benchmarks/sexp.py [--seconds 1]

It counts nodes per second on one core, including atoms, and compares them with a floor: a recursive walk of the same
nodes like lis.py, without positions, budgets and error locations, which fails at about a thousand nested calls. Both
walk equal trees and count equal nodes. The ratio is the walk's time over that of stackmem, in processor time, the best
of several rounds.
"""

from __future__ import annotations

import argparse
import operator
import sys
import time
from collections.abc import Callable
from typing import Any

from stackmem.languages.sexp.errors import Budget
from stackmem.languages.sexp.evaluator import Evaluation
from stackmem.languages.sexp.reader import read
from stackmem.languages.sexp.tree import Form, Name, Node
from stackmem.languages.sexp.values import SexpEnvironment

PROGRAMS = {
    "fib": "(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (fib 18)",
    "closures": "(define (adder n) (lambda (x) (+ n x)))"
    " (define (sum n) (if (< n 1) 0 (+ ((adder n) 1) (sum (- n 1)))))"
    " (list (sum 200) (sum 200) (sum 200) (sum 200) (sum 200))",
    "lets": "(define (f n) (if (< n 1) 0 (let ((a n) (b (+ n 1))) (let ((c (+ a b))) (if (< c 0) c (f (- n 1)))))))"
    " (list (f 200) (f 200) (f 200) (f 200) (f 200))",
    "logic": "(define (f n) (cond ((< n 1) 0) ((and (< n 0) (= n 5)) 1) (else (or (= n 1000) (f (- n 1))))))"
    " (list (f 200) (f 200) (f 200) (f 200) (f 200))",
}


class NoHost:
    def kind(self, name: str) -> str:
        return ""


class Walk:
    """The floor: nested Python calls over lists as in lis.py, with a count of evaluated nodes."""

    def __init__(self) -> None:
        self.nodes = 0
        self.globals: dict[str, Any] = {
            "+": operator.add, "-": operator.sub, "<": operator.lt, "=": operator.eq, "list": lambda *args: list(args),
        }  # fmt: skip

    def value(self, x: Any, env: Env) -> Any:
        self.nodes += 1
        if isinstance(x, str):
            return env.find(x)[x]
        if not isinstance(x, list):
            return x
        head = x[0]
        if head == "if":
            self.nodes += 1
            return self.value(x[2] if self.value(x[1], env) else x[3], env)
        if head == "define":
            env[x[1][0]] = self.function(x[1][1:], x[2], env)
            return None
        if head == "lambda":
            return self.function(x[1], x[2], env)
        if head == "let":
            return self.value(x[2], Env({pair[0]: self.value(pair[1], env) for pair in x[1]}, env))
        if head == "cond":
            return next(self.value(c[1], env) for c in x[1:] if c[0] == "else" or self.value(c[0], env))
        if head in ("and", "or"):
            found: Any = None
            for item in x[1:]:
                found = self.value(item, env)
                if bool(found) == (head == "or"):
                    break
            return found
        function = self.value(head, env)
        return function(*[self.value(item, env) for item in x[1:]])

    def function(self, params: list[str], body: Any, env: Env) -> Callable[..., Any]:
        return lambda *args: self.value(body, Env(zip(params, args, strict=True), env))


class Env(dict[str, Any]):
    def __init__(self, bound: Any, outer: Env | None) -> None:
        super().__init__(bound)
        self.outer = outer

    def find(self, name: str) -> Env:
        env: Any = self
        while name not in env:
            env = env.outer
        return env


def plain(node: Node) -> Any:
    """Convert the node to lis.py's representation."""
    if isinstance(node, Form):
        return [plain(item) for item in node.items]
    return node.name if isinstance(node, Name) else node.value


def ours(text: str) -> tuple[float, int]:
    """Return seconds and nodes."""
    nodes = read(text)
    begun = time.process_time()
    evaluation = Evaluation(NoHost(), Budget(steps=10**9))  # type: ignore[arg-type]
    doing = evaluation.run(nodes, SexpEnvironment())
    try:
        next(doing)
    except StopIteration:
        return time.process_time() - begun, evaluation.machine.meter.steps
    raise AssertionError("a workflow without tasks must not send requests")


def floor(text: str) -> tuple[float, int]:
    trees = [plain(node) for node in read(text)]
    walk = Walk()
    env = Env({}, Env(walk.globals, None))
    begun = time.process_time()
    for tree in trees:
        walk.value(tree, env)
    return time.process_time() - begun, walk.nodes


def best(measure: Callable[[str], tuple[float, int]], text: str, seconds: float) -> tuple[float, int]:
    until = time.perf_counter() + seconds
    found = [measure(text)]
    while time.perf_counter() < until:
        found.append(measure(text))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="duration for each program and implementation")
    given = parser.parse_args()
    sys.setrecursionlimit(20_000)  # needed by the floor only
    print(f"{'program':10} {'nodes':>9} {'nodes/s':>12} {'floor nodes/s':>14} {'ratio':>6}")
    for name, text in PROGRAMS.items():
        (took, nodes), (walked, counted) = best(ours, text, given.seconds), best(floor, text, given.seconds)
        assert abs(nodes - counted) < counted / 10, (name, nodes, counted)
        print(f"{name:10} {counted:9,} {counted / took:12,.0f} {counted / walked:14,.0f} {walked / took:6.2f}")


if __name__ == "__main__":
    main()
