"""Inputs that are generated: each byte of the input is one choice, so that the search can change single choices."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads choices from bytes. After the last byte, each choice is the first possibility, which is the usual one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0
        self._words = 0

    def below(self, count: int) -> int:
        if self._place >= len(self._data):
            return 0
        self._place += 1
        return self._data[self._place - 1] % count

    def of(self, *possible: T) -> T:
        return possible[self.below(len(possible))]

    def one(self, possible: Sequence[T]) -> T:
        return possible[self.below(len(possible))]

    def rarely(self) -> bool:
        """Return True for one byte in four."""
        return self.below(4) == 3

    def word(self) -> str:
        """Return a word that no other choice of this input contains."""
        self._words += 1
        return f"w{self._words}q"
