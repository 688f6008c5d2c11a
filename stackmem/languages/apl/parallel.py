"""A loop whose rounds run side by side, and give their results in the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stackmem.core.program_facts import StepEntered
from stackmem.languages.effects import Complete, Group, InvokeTool, LoadSource, RunFrame, Single

from .here import Doing, Here
from .nodes import Foreach, Step

Run = Callable[[tuple[Step, ...], Here], Doing]


def in_rounds(run: Run, step: Foreach, items: list[Any], here: Here, path: str) -> Doing:
    """Each branch goes on to its next effect; then the effects of all are performed together.

    A branch has a register of its own: what it sets is gone when it ends, but for what its last step gives.

    Raises:
        Halt: Of the first branch, in the order of the items, that cannot go on; the others are given up.

    """
    total = len(items)
    waiting = deque(enumerate(items, 1))
    running: dict[int, tuple[Doing, Single]] = {}
    results: dict[int, Any] = {}
    while waiting or running:
        while waiting and len(running) < step.max_concurrency:
            number, item = waiting.popleft()
            scope = here.scope.copy()
            scope.set(step.loop_var, item)
            inner_path = f"{path}[{number}]"
            yield StepEntered(inner_path, f"item {number} of {total}")
            inner = replace(here, scope=scope).inside(inner_path, f"Item {number} of {total}")
            yield from _advance(number, run(step.body, inner), None, running, results)
        if not running:
            continue
        numbers = sorted(running)
        effects = tuple(running[number][1] for number in numbers)
        answers = yield Group(effects, step.max_concurrency)
        for number, answer in zip(numbers, answers, strict=True):
            branch, _ = running.pop(number)
            yield from _advance(number, branch, answer, running, results)
    return [results[number] for number in sorted(results)]


def _advance(
    number: int, branch: Doing, answer: Any, running: dict[int, tuple[Doing, Single]], results: dict[int, Any]
) -> Doing:
    """Send a branch its answer and let it run to the effect it waits for next, or to its end."""
    while True:
        try:
            asked = branch.send(answer)
        except StopIteration as stop:
            results[number] = stop.value
            return
        if isinstance(asked, InvokeTool | Complete | RunFrame | LoadSource):
            running[number] = (branch, asked)
            return
        answer = yield asked
