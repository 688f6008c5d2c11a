"""Runs branches of a program in parallel.

Each branch runs to its next operation. All pending operations then form one group, and so on until every branch ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

from stackmem.core.requests import InvokeTool, LoadSource
from stackmem.languages.operations import Complete, Group, RunFrame, Single

Branch = Generator[Any, Any, Any]


def side_by_side(branches: Sequence[Branch], most: int = 4, *, open_at_once: int | None = None) -> Branch:
    """Return the branches' results in order. Operations that a ``Group`` cannot contain are yielded one by one.

    ``most`` is the maximum number of effects that run at a time. ``open_at_once`` is the maximum number of started
    branches; None starts all of them.
    """
    waiting = deque(enumerate(branches))
    pending: dict[int, tuple[Branch, Single]] = {}
    results: dict[int, Any] = {}
    while waiting or pending:
        while waiting and (open_at_once is None or len(pending) < open_at_once):
            number, branch = waiting.popleft()
            yield from _advance(number, branch, None, pending, results)
        if not pending:
            continue
        numbers = sorted(pending)
        answers = yield Group(tuple(pending[number][1] for number in numbers), most)
        for number, answer in zip(numbers, answers, strict=True):
            branch, _ = pending.pop(number)
            yield from _advance(number, branch, answer, pending, results)
    return [results[number] for number in sorted(results)]


def _advance(
    number: int, branch: Branch, answer: Any, pending: dict[int, tuple[Branch, Single]], results: dict[int, Any]
) -> Branch:
    """Send a branch its answer and run it to its next groupable operation or to its end."""
    try:
        operation = branch.send(answer)
        while not isinstance(operation, InvokeTool | Complete | RunFrame | LoadSource):
            operation = branch.send((yield operation))
        pending[number] = (branch, operation)
    except StopIteration as stop:
        results[number] = stop.value
