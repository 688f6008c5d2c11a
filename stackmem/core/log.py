"""An append-only sequence that shares its storage between versions.

States are immutable, yet a run of 10,000 steps must not copy 10,000 turns at each step. A ``Log`` is a view of the
first ``len`` items of a shared buffer. Appending to the newest view extends the buffer; appending to an older one
starts a new buffer based on it. Existing views never change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Generic, TypeVar, overload

from msgspec import json

T = TypeVar("T")
A = TypeVar("A")

_FOLDS_KEPT = 8
_DEEPEST = 4
"""Maximum number of buffers based on one another. The next branch is a copy."""


class _Buffer:
    """The shared storage: the items, and for each fold over them its position and value."""

    __slots__ = ("base", "depth", "folds", "items", "start")

    def __init__(self, items: list[Any], base: Log[Any] | None = None, depth: int = 0) -> None:
        self.items = items  # the items after the first ``start``, which are in ``base``
        self.base = base
        self.start = 0 if base is None else len(base)
        self.depth = depth  # number of buffers below this one
        self.folds: dict[Hashable, tuple[int, Any]] = {}


def _equal_bytes(item: Any, other: Any) -> bool:
    """Return whether two items encode to equal bytes. ``1 == True``, but in a prompt they differ."""
    return item is other or (item == other and json.encode(item, enc_hook=list) == json.encode(other, enc_hook=list))


class Log(Generic[T]):
    """An immutable sequence. ``append`` takes constant time and returns a new one."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = _Buffer(list(items))
        self._length = len(self._buffer.items)

    def append(self, item: T) -> Log[T]:
        buffer, own = self._buffer, self._length - self._buffer.start
        if len(buffer.items) == own:
            buffer.items.append(item)
        elif not _equal_bytes(buffer.items[own], item):  # an equal item is the same history, appended a second time
            buffer = self._branch(item)
        return self._view(buffer, self._length + 1)

    def without_last(self) -> Log[T]:
        """Return all but the last item without copying. Raise IndexError if the log is empty."""
        if not self._length:
            raise IndexError("an empty log has no last item")
        base = self._buffer.base
        if base is not None and self._length == len(base):
            return base.without_last()
        return self._view(self._buffer, self._length - 1)

    def _view(self, buffer: _Buffer, length: int) -> Log[T]:
        other: Log[T] = Log.__new__(Log)
        other._buffer, other._length = buffer, length
        return other

    def _branch(self, item: T) -> _Buffer:
        """Return a buffer in which ``item`` follows the items of this log."""
        depth = self._buffer.depth + 1
        return _Buffer([*self, item]) if depth > _DEEPEST else _Buffer([item], self, depth)

    def fold(self, step: Callable[[A, T], A], initial: A, key: Hashable = None) -> A:
        """Return ``reduce(step, self, initial)``, continuing from where the same fold last stopped.

        ``step`` must be pure. ``(step, key)`` identifies the fold, so ``key`` must distinguish different initial
        values.
        """
        return self.fold_from(step, lambda: initial, key)

    def fold_from(self, step: Callable[[A, T], A], begin: Callable[[], A], key: Hashable = None) -> A:
        """Do the same as ``fold`` for an initial value that is expensive: ``begin`` is called only if no cached fold
        exists.
        """
        name, buffer = (step, key), self._buffer
        folds, start = buffer.folds, buffer.start
        value: A
        cached = folds.get(name)
        if cached is not None and cached[0] <= self._length:
            done, value = cached
        else:
            done, value = start, begin() if buffer.base is None else buffer.base.fold_from(step, begin, key)
        items = buffer.items
        for index in range(done - start, self._length - start):
            value = step(value, items[index])
        if done != self._length:
            if cached is None and len(folds) >= _FOLDS_KEPT:
                del folds[next(iter(folds))]
            folds[name] = (self._length, value)
        return value

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        buffer = self._buffer
        if buffer.base is None and isinstance(index, int) and -self._length <= index < self._length:
            only: T = buffer.items[index if index >= 0 else index + self._length]
            return only
        if isinstance(index, slice):
            items = self._buffer.items if self._buffer.base is None else list(self)
            return [items[position] for position in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        position = index % self._length
        if buffer.base is not None and position < buffer.start:
            item: T = buffer.base[position]
        else:
            item = buffer.items[position - buffer.start]
        return item

    def __iter__(self) -> Iterator[T]:
        buffer = self._buffer
        own = islice(buffer.items, self._length - buffer.start)
        return own if buffer.base is None else chain(buffer.base, own)

    def __reversed__(self) -> Iterator[T]:
        buffer = self._buffer
        own = (buffer.items[position] for position in range(self._length - buffer.start - 1, -1, -1))
        return own if buffer.base is None else chain(own, reversed(buffer.base))

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
