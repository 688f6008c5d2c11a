"""The runs whose traces and prompts are stored as text: the worked example, and one in which everything goes wrong."""

from __future__ import annotations

from collections.abc import Callable

from stackmem.core.budgets import Budgets, Limits
from stackmem.core.facts import ToolReturned, VerifyReturned
from tests.build import (
    Played,
    World,
    alloc,
    call,
    do,
    failed,
    play,
    pop,
    push,
    reply,
    started,
    stored,
)  # fmt: skip

# The words of the system prompt and the tools are an input, recorded in the trace; the pages store what the rules
# derive.
SYSTEM = "(the system prompt)"

SPEC = """# Calculator
evaluate(expression: str) -> float
+ - * / with precedence, parentheses, unary minus. Whitespace is ignored.
ValueError where malformed, ZeroDivisionError where it divides by zero.
"""
TRY = "cd src && python -c 'from calculator import evaluate; print(evaluate(\"2+3\"))'"
TEST = "cd src && python -m pytest -q ../tests"


def calculator() -> Played:
    """The worked example: discover, store, push, read, work, pop, twice; then free and end."""
    world = World(
        {"spec.md": SPEC},
        {TRY: ToolReturned("5.0\n[exit 0]", exit_code=0), TEST: ToolReturned("9 passed\n[exit 0]", exit_code=0)},
    )
    return play(
        do("read_file", path="spec.md"),
        alloc(
            "spec",
            "evaluate(expression: str) -> float. + - * / with precedence, parentheses, unary minus; spaces ignored.\n"
            "ValueError: malformed. ZeroDivisionError: division by zero.",
            description="Calculator: signature, operators, errors",
            source="spec.md",
        ),
        push(
            name="implement",
            objective="Create src/calculator.py per heap 'spec'. Verify in src/: evaluate('2+3') is 5.0.",
            context="Heap 'spec' has the signature and the errors. Tests come later, in tests/test_calculator.py.",
            return_spec="Files created, approach, what the verification printed",
        ),
        do("heap_read", name="spec"),
        do("write_file", path="src/calculator.py", content="def evaluate(expression): ...\n"),
        do("run_command", command=TRY),
        pop("Created src/calculator.py, recursive descent. Verified: evaluate('2+3') printed 5.0."),
        push(
            name="test",
            objective="Write tests for src/calculator.py per heap 'spec'. Run pytest, fix until all pass.",
            context="Heap 'spec' has the errors to cover. src/calculator.py is done.",
            return_spec="Number of tests, passed and failed, any fix",
            constraint="steps=20",
            verify=TEST,
        ),
        do("heap_read", name="spec"),
        do("write_file", path="tests/test_calculator.py", content="def test_sum(): ...\n"),
        do("run_command", command=TEST),
        pop("9 tests, all pass.", store=[stored("env", f"tests: {TEST}", description="How tests run")]),
        do("heap_free", name="spec"),
        pop("Built src/calculator.py and tests/test_calculator.py; 9 of 9 tests pass."),
        start=started(system=SYSTEM, checked=True),
        world=world,
    )


def mishaps(strategy: str) -> Played:
    """A run in which the model, the provider and the world fail in most ways they can."""
    world = World({"a.py": "1"}, verified=VerifyReturned("exit 1", "1 failed"))
    return play(
        reply("I would rather talk.", stop="end"),
        reply(),
        do("list_files"),
        reply("This goes on and", call("write_file", path="a.py", content="cut"), stop="truncated"),
        reply(stop="refused"),
        reply(call("list_files"), call("list_files")),
        do("no_such_tool"),
        do("read_file", start_line="one", lines=3),
        failed("rate_limited", 7.0),
        alloc("spec", "what a.py does", description="about a.py", source="a.py"),
        alloc("spec", "again"),
        alloc("bad name", "", description="two\nlines"),
        alloc("lost", "x", source="gone.py"),
        alloc("large", "x" * 101),
        do("heap_read", name="spce"),
        do("heap_read", name="spec", start_line=5),
        push(objective="See heap 'spce'. " + "o" * 200, context="", return_spec="r" * 201, name="no name"),
        push(objective="Rewrite a.py per heap 'spec'; store heap 'report'.", verify="make", constraint="steps=2"),
        do("run_command", command="2 > a.py"),
        do("heap_read", name="spec"),
        do("list_files"),
        pop(""),
        pop("Half of it.", store=[stored("report", "half")]),
        push(constraint="steps=0", verify="make"),
        reply("My last words.", call("list_files")),
        do("list_files"),
        do("list_files"),
        failed("window"),
        start=started(strategy, system=SYSTEM, budgets=Budgets(heap_chars=100), limits=Limits(steps=28)),
        world=world,
    )


STORIES: dict[str, Callable[[], Played]] = {
    "calculator": calculator,
    "mishaps": lambda: mishaps("stackheap"),
    "mishaps-delta": lambda: mishaps("stackheap:index=delta"),
    "mishaps-full": lambda: mishaps("full"),
}
