"""Runs several parts of a program together: each to what it asks next, then all answers at once."""

from __future__ import annotations

from typing import Any

from stackmem.languages.effects import Complete, Group, InvokeTool

from .session import Doing


def side_by_side(branches: list[Doing], most: int) -> Doing:
    """What each branch returns, in their order. What is no completion or tool is asked by itself."""
    results: dict[int, Any] = {}
    asking: dict[int, Any] = {}
    for number in range(len(branches)):
        yield from _advanced(number, branches[number], None, asking, results)
    while asking:
        numbers = sorted(asking)
        answers = yield Group(tuple(asking[number] for number in numbers), most)
        asking = {}
        for number, answer in zip(numbers, answers, strict=True):
            yield from _advanced(number, branches[number], answer, asking, results)
    return [results[number] for number in range(len(branches))]


def _advanced(number: int, branch: Doing, answer: Any, asking: dict[int, Any], results: dict[int, Any]) -> Doing:
    try:
        asked = branch.send(answer)
        while not isinstance(asked, Complete | InvokeTool):
            asked = branch.send((yield asked))
        asking[number] = asked
    except StopIteration as stop:
        results[number] = stop.value
