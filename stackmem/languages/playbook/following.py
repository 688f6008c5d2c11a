"""Which lines may follow a line: the pointer is moved by nobody but this."""

from __future__ import annotations

from collections.abc import Iterator

from .line_order import LineOrder, Number, StepLine, target_of
from .nodes import Playbook

_BRANCHES = ("CND", "LOP", "ELS")


def expected(book: Playbook, at: StepLine | None) -> tuple[StepLine, ...]:
    """The lines that may come behind ``at``, in the order of the file; at the start the first one alone."""
    if at is None:
        return book.steps[:1]
    order = book.order
    places = {order.place[number] for number in _allowed(order, at) if number in order.place}
    return tuple(book.steps[index] for index in sorted(places))


def _allowed(order: LineOrder, at: StepLine) -> Iterator[Number]:
    yield at.number
    behind = order.place[at.number] + 1
    if behind < len(order.steps):
        yield order.steps[behind].number
    inside = order.first_inside(at.number)
    if inside is not None:
        yield inside
    if at.code in _BRANCHES or inside is None:
        yield from _beside(order, at)
    target = target_of(at)
    if target:
        yield target
    yield from filter(order.is_loop, _ancestors(at.number))


def _ancestors(number: Number) -> list[Number]:
    """The numbers around a line, innermost first."""
    return [number[:length] for length in range(len(number) - 1, 0, -1)]


def _beside(order: LineOrder, at: StepLine) -> Iterator[Number]:
    """The next line of the block behind a CND; behind the last of a block, that of the first ancestor which has one."""
    own = order.next_beside(at.number)
    if own is not None:
        if at.code in _BRANCHES:
            yield own
        return
    for number in _ancestors(at.number):
        following = order.next_beside(number)
        if following is not None:
            yield following
            return
