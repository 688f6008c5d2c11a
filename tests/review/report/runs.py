"""Runs for the viewer, written in the harness's format: a typical one, a long one, a hostile one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.budgets import Limits
from stackmem.core.facts import Event, ModelFailed, ModelReplied, RunStarted, ToolReturned, VerifyReturned
from stackmem.core.machine import advance, evolve
from stackmem.core.messages import ToolCall, Usage, View
from stackmem.core.pricing import Price
from stackmem.core.requests import AskModel, Effect
from stackmem.core.state import State
from stackmem.history.history import History
from stackmem.memory import open_strategy
from stackmem.trace.store import TraceWriter
from tests.build import World, alloc, call, do, failed, message_text, named, pop, push, reply, started, stored

PRICE = Price(3.0, 15.0, 3.75, 6.0, 0.3, source="a price for tests")
START = 1_795_186_800.0


@dataclass
class Clock:
    """The time of the run: each reading is a little later, a slow reply much later."""

    now: float = START

    def __call__(self) -> float:
        self.now += 0.4
        return self.now


@dataclass
class Provider:
    """Reports usage like a provider with a prompt cache that can read whole prompts for five minutes."""

    clock: Clock
    held: list[tuple[str, float]] = field(default_factory=list)

    def usage(self, view: View, said: ModelReplied) -> Usage:
        standing = view.system + "".join(tool.description + tool.schema for tool in view.tools)
        whole = standing + "\n".join(message_text(message) for message in view.messages)
        self.clock.now += 2.5
        fresh = [text for text, at in self.held if self.clock.now - at < 300]
        read = max((len(text) for text in fresh if whole.startswith(text)), default=len(standing) if fresh else 0)
        self.held = [*self.held[-40:], (whole, self.clock.now)]
        output = sum(len(str(part.arguments)) if isinstance(part, ToolCall) else 40 for part in said.parts) // 4
        left = max(0, len(whole) - read)
        return Usage(left % 60, read * 10 // 37, max(0, left * 10 // 37 - left % 60), 0, output + 30)


@dataclass
class Kept(World):
    """An in-memory workspace whose real history is saved after each step that may change it."""

    place: Path = Path()
    history: History | None = None

    def tree(self) -> str:
        assert self.history is not None
        for path, text in self.files.items():
            (self.place / path).parent.mkdir(parents=True, exist_ok=True)
            (self.place / path).write_text(text, encoding="utf-8")
        return self.history.snapshot()

    def perform(self, effect: Effect) -> Event:
        event = super().perform(effect)
        if self.history is not None and isinstance(event, ToolReturned | VerifyReturned):
            return replace(event, tree=self.tree())
        return event


def record(
    folder: Path,
    start: RunStarted,
    replies: Iterable[ModelReplied | ModelFailed],
    world: World,
    clock: Clock,
    usage: Callable[[View, ModelReplied], Usage] | None = None,
) -> Path:
    """Write the run of these replies to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    writer = TraceWriter(folder / "trace.jsonl", clock)
    strategy, left = open_strategy(start.strategy), iter(replies)
    event: Event = start
    state = State()
    while True:
        writer.append(event)
        state = evolve(state, event)
        upcoming = advance(state, strategy)
        if upcoming is None:
            break
        if isinstance(upcoming, AskModel):
            said = next(left, None)
            if said is None:
                break
            fact = named(said, upcoming)
            event = (
                replace(fact, usage=usage(upcoming.view, fact)) if usage and isinstance(fact, ModelReplied) else fact
            )
        else:
            event = world.perform(upcoming) if isinstance(upcoming, Effect) else upcoming
    writer.close()
    return folder


SPEC = """# Invoices
An invoice is a list of lines: quantity, unit price, tax rate in percent.
The total is rounded once, at the end, half to even. Amounts are decimal, never float.
Refunds are negative quantities; a refund of more than was sold is an error.
"""
TOTALS = '''"""Totals of an invoice."""

from decimal import ROUND_HALF_EVEN, Decimal


def total(lines):
    """The sum of all lines, tax included, rounded once."""
    exact = sum(quantity * price * (1 + rate / 100) for quantity, price, rate in lines)
    return Decimal(exact).quantize(Decimal("0.01"), ROUND_HALF_EVEN)
'''
REFUNDS = (
    TOTALS
    + """

def refund(lines, quantity):
    sold = sum(line[0] for line in lines)
    if quantity > sold:
        raise ValueError(f"{quantity} were returned, {sold} were sold")
    return total([(-quantity, lines[0][1], lines[0][2])])
"""
)
TEST = "python -m pytest -q tests"
LOG = "\n".join(f"tests/test_totals.py::test_rounds_once[{number}] PASSED" for number in range(150))


def invoices() -> Iterator[ModelReplied | ModelFailed]:
    """Two levels of frames, a chunk that grows stale, a failing check, and a frame that is popped by force."""
    yield do("list_files")
    yield reply("I read the specification first.", call("read_file", path="spec.md"))
    yield alloc("spec", SPEC, description="What an invoice is, how totals are rounded", source="spec.md")
    yield push(
        name="totals", objective="Write invoices/totals.py per heap 'spec': total(lines). Verify by its tests.",
        context="Heap 'spec' has the rules. Nothing exists yet.", return_spec="Functions, what was verified",
        verify=TEST,
    )  # fmt: skip
    yield do("heap_read", name="spec")
    yield do("write_file", path="invoices/totals.py", content=TOTALS)
    yield do("run_command", command=TEST)
    yield push(
        name="rounding", objective="Find why 3 x 0.35 at 7% is one cent off; store what you find as heap 'rounding'.",
        context="invoices/totals.py multiplies floats.", return_spec="The cause in one sentence",
    )  # fmt: skip
    yield do("read_file", path="invoices/totals.py")
    yield do("run_command", command="python -c 'print(3 * 0.35 * 1.07)'")
    yield failed("overloaded")
    yield do("run_command", command=TEST)
    yield alloc(
        "rounding", "float 0.35 is not 35/100: convert to Decimal before multiplying.",
        source="invoices/totals.py", description="Cause of the missing cent",
    )  # fmt: skip
    yield pop("Floats: see heap 'rounding'.")
    yield do(
        "write_file", path="invoices/totals.py", content=TOTALS.replace("quantity * price", "quantity * Decimal(price)")
    )
    yield do("run_command", command=TEST)
    yield do("heap_read", name="rounding")
    yield do("run_command", command=TEST)
    yield pop(
        "total() in invoices/totals.py; 150 tests pass.",
        store=[stored("env", f"tests: {TEST}", description="How tests run")],
    )
    yield push(
        name="refunds", objective="Add refund(lines, quantity) per heap 'spec', with tests.", constraint="steps=7",
        context="Heap 'env' says how tests run.", return_spec="Functions, tests", verify="make check",
    )  # fmt: skip
    yield do("heap_read", name="spec")
    yield do("heap_read", name="speck")
    yield do("heap_read", name="env")
    yield do("write_file", path="invoices/totals.py", content=REFUNDS)
    for number in range(6):
        yield do("run_command", command=f"{TEST} -k refund_{number}")
    yield do("heap_write", name="env", content=f"tests: {TEST}\nlint: ruff check .")
    yield push(
        name="docs", objective="Describe totals and refunds in README.md, with one example each.",
        context="Heap 'spec' has the rules; invoices/totals.py is done.", return_spec="Sections written",
    )  # fmt: skip
    yield do("heap_read", name="spec")
    yield do(
        "write_file", path="README.md", content="# Invoices\n\n`total(lines)` is the sum with tax, rounded once.\n"
    )
    yield do("read_file", path="README.md")
    yield do("write_file", path="README.md", content="# Invoices\n\n`total(lines)` is the sum with tax, rounded once.\n"
             "`refund(lines, quantity)` is what goes back; more than was sold is an error.\n")  # fmt: skip
    yield pop("README.md: what totals and refunds are.")
    yield do("heap_free", name="rounding")
    yield do("run_command", command=TEST)
    yield pop("invoices/totals.py has total() and refund(); 156 tests pass; README.md describes both.")


def showpiece(folder: Path, strategy: str = "stackheap") -> Path:
    """A typical run with usage, costs and files."""
    place = folder.parent / f"{folder.name}-work"
    place.mkdir(parents=True)
    folder.mkdir(parents=True)
    world = Kept(
        {"spec.md": SPEC},
        {TEST: ToolReturned(f"{LOG}\n150 passed\n[exit 0]", exit_code=0),
         f"{TEST} -k refund_2": ToolReturned("E  AssertionError: -1.05 != -1.04\n[exit 1]", failed=True, exit_code=1)},
        place=place,
        history=History(folder / "history.git", place),
    )  # fmt: skip
    start = started(
        strategy, task="Build invoices/: totals and refunds per spec.md, with tests and a README.\n",
        task_name="invoices", model="claude-sonnet-5-5", price=PRICE, checked=True, limits=Limits(steps=60),
        tree=world.tree(),
    )  # fmt: skip
    clock = Clock()
    return record(folder, start, _pondering(invoices(), clock), world, clock, Provider(clock).usage)


def _pondering(replies: Iterable[ModelReplied | ModelFailed], clock: Clock) -> Iterator[ModelReplied | ModelFailed]:
    """Yield the same replies, one of them so late that a cache entry has expired."""
    for number, said in enumerate(replies):
        if number == 33:
            clock.now += 400
        yield said


def long_run(folder: Path, steps: int, strategy: str = "stackheap") -> Path:
    """A run of this many steps in frames of about twenty, with commands, chunks and reads; each text is unique."""
    draw = random.Random(7)
    clock = Clock()
    outputs = _Outputs(draw)
    start = started(
        strategy, task="Do a great many things.\n", task_name="many", price=PRICE, limits=Limits(steps=steps),
        window_tokens=100_000_000,
    )  # fmt: skip
    frames = strategy.startswith("stackheap")
    return record(folder, start, _many(draw, frames), World(outputs=outputs), clock, _plain_usage)


class _Outputs(dict[str, ToolReturned]):
    """A unique output for each command."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def get(self, command: str, default: object = None) -> ToolReturned:  # type: ignore[override]
        return ToolReturned(_words(self._draw, 90) + "\n[exit 0]", exit_code=0)


def _words(draw: random.Random, many: int) -> str:
    return " ".join(f"{draw.choice(('test', 'line', 'path', 'value'))}_{draw.randrange(10**6)}" for _ in range(many))


def _plain_usage(view: View, said: ModelReplied) -> Usage:
    before = 4_000 + 300 * len(view.messages)
    return Usage(200, before, 250, 0, 80)


def _many(draw: random.Random, frames: bool) -> Iterator[ModelReplied]:
    chunks: list[str] = []
    number = 0
    while True:
        if frames:
            yield push(name=f"part-{number}", objective=f"Do part {number}.", context=_words(draw, 12))
        for _ in range(12):
            yield reply(_words(draw, 10), call("run_command", command=f"make {_words(draw, 4)}"))
        if frames:
            name = f"chunk-{number}"
            yield alloc(name, _words(draw, 20), description=f"what part {number} found")
            chunks.append(name)
            for wanted in draw.sample(chunks, min(3, len(chunks))):
                yield do("heap_read", name=wanted)
            if len(chunks) > 20:
                yield do("heap_free", name=chunks.pop(0))
            yield pop(f"Part {number} is done. {_words(draw, 8)}")
        number += 1


HOSTILE = (
    "</script><script>document.title='owned'</script><!--",
    "<img src=x onerror=\"document.title='owned'\">",
    "\u202egnirts desrever a\u202c and \u2066isolated\u2069 \u200bzero\u200bwidth \ufeffmark",
    "\x1b[31mred\x1b[0m \x00 nul \x07 bell \x7f del \x85 nel \u2028 line",
    "${alert(1)} {{7*7}} `backtick` \\u003c/script\\u003e ]]> --> &lt;b&gt;",
    "عربي עברית 日本語 𝒳🧵👩‍👩‍👧",
)


def hostile(folder: Path) -> Path:
    """A run with texts that would break a page without escaping."""
    lines = "\n".join(HOSTILE)
    replies = [
        reply(lines, call("run_command", command=f"echo {lines}")),
        alloc("spec", lines, description=HOSTILE[1]),
        do("heap_read", name="spec"),
        do("run_command", command="cat one-line"),
        do("no_such_tool<b>", __proto__=lines, constructor={"toString": lines, "deep": [lines, None, 10**17]}),
        reply(replace(call("run_command"), malformed='{"command": "</script>')),
        push(objective=f"See {HOSTILE[0]}", context=HOSTILE[3]),
        pop(lines),
        pop(lines),
    ]
    world = World(outputs={"cat one-line": ToolReturned("x</script>y" * 100_000, exit_code=0)})
    start = started(task=lines, task_name=HOSTILE[0], model=HOSTILE[1], workspace="/workspace")
    return record(folder, start, replies, world, Clock())


def empty(folder: Path) -> Path:
    """A run that ended before its first reply."""
    return record(folder, started(task_name="nothing"), [], World(), Clock())
