"""A sequence that only grows, shared between the values that hold it.

States are immutable, yet a run of 10,000 steps must not copy 10,000 turns at each step. A ``Log`` is a view
of the first ``len`` items of a shared buffer: appending to the newest view extends the buffer, appending to an
older one copies it first. What anyone holds never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

from msgspec import json

T = TypeVar("T")
A = TypeVar("A")

_FOLDS_KEPT = 8


class _Buffer:
    """The shared store: the items, and for each fold over them how far it came and what it found."""

    __slots__ = ("folds", "items")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.folds: dict[Hashable, tuple[int, Any]] = {}


def _same(one: Any, other: Any) -> bool:
    """Whether two items are one another's copies to the byte: ``1 == True``, but a prompt shows the difference."""
    return one is other or (one == other and json.encode(one, enc_hook=list) == json.encode(other, enc_hook=list))


class Log(Generic[T]):
    """An immutable sequence; ``append`` takes constant time and returns a new one."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = _Buffer(list(items))
        self._length = len(self._buffer.items)

    def append(self, item: T) -> Log[T]:
        items = self._buffer.items
        if len(items) == self._length:
            items.append(item)
            buffer = self._buffer
        elif _same(items[self._length], item):  # the same history, told again
            buffer = self._buffer
        else:
            buffer = _Buffer(items[: self._length])
            buffer.items.append(item)
        longer: Log[T] = Log.__new__(Log)
        longer._buffer = buffer
        longer._length = self._length + 1
        return longer

    def fold(self, step: Callable[[A, T], A], initial: A, key: Hashable = None) -> A:
        """``reduce(step, self, initial)``, continued from where the same fold last stopped.

        ``step`` is pure; ``(step, key)`` names the fold, so ``key`` tells apart what ``initial`` does not show.
        """
        name = (step, key)
        done: int
        found: A
        done, found = self._buffer.folds.get(name, (0, initial))
        if done > self._length:
            done, found = 0, initial
        for index in range(done, self._length):
            found = step(found, self._buffer.items[index])
        if done != self._length:
            folds = self._buffer.folds
            if name not in folds and len(folds) >= _FOLDS_KEPT:
                del folds[next(iter(folds))]
            folds[name] = (self._length, found)
        return found

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self._buffer.items[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        item: T = self._buffer.items[index % self._length]
        return item

    def __iter__(self) -> Iterator[T]:
        items = self._buffer.items
        return (items[index] for index in range(self._length))

    def __reversed__(self) -> Iterator[T]:
        items = self._buffer.items
        return (items[index] for index in range(self._length - 1, -1, -1))

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        if self._buffer is other._buffer:
            return self._length == other._length
        return self._length == other._length and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"
