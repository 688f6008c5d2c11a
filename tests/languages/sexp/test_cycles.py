"""Cycles are written as such; shared values and values computed on each access are not."""

from __future__ import annotations

import json
import random
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stackmem.languages.sexp.errors import Budget
from stackmem.languages.sexp.reader import read
from stackmem.languages.sexp.tree import datum
from stackmem.languages.sexp.values import CYCLE, as_json, containers, equal, from_python, to_source

SAMPLES = 1_500
WIDE = Budget(nested=200_000)


class Computed(dict[str, Any]):
    """A mapping that creates new values on each access."""

    def items(self) -> ItemsView[str, Any]:
        return {key: _fresh(value) for key, value in super().items()}.items()

    def values(self) -> ValuesView[Any]:
        return {key: _fresh(value) for key, value in super().items()}.values()


class Counted(Mapping[int, Any]):
    """A mapping from numbers to mappings that exist only while they are in use."""

    def __init__(self, count: int, last: int) -> None:
        self._count, self._last = count, last

    def __getitem__(self, key: int) -> Any:
        return {0: self._last} if self._count == 1 else Counted(1, key or self._last)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._count))

    def __len__(self) -> int:
        return self._count


def _fresh(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


def acyclic(draw: random.Random, depth: int, shared: list[Any]) -> Any:
    """Return nested lists and mappings without cycles, in which a part may occur several times."""
    if shared and draw.random() < 0.15:
        return draw.choice(shared)
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([1, -2.5, "text", True, "", 10**20])
    count = draw.randrange(1, 4)
    inner = [acyclic(draw, depth - 1, shared) for _ in range(count)]
    value: Any = draw.choice([list, tuple, _table, _computed])(inner)
    shared.append(value)
    return value


def _table(inner: list[Any]) -> dict[str, Any]:
    return {f"k{number}": item for number, item in enumerate(inner)}


def _computed(inner: list[Any]) -> Computed:
    return Computed(_table(inner))


def plain(value: Any) -> Any:
    """Convert mappings to lists of pairs by simple recursion."""
    if isinstance(value, dict):
        return [[key, plain(item)] for key, item in dict.items(value)]
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in dict.items(value)}
    return [copied(item) for item in value] if isinstance(value, list | tuple) else value


def test_an_acyclic_value_is_written_without_a_cycle() -> None:
    for seed in range(SAMPLES):
        value = acyclic(random.Random(seed), 5, [])
        source = to_source(value)
        assert CYCLE not in source, seed
        (node,) = read(source)
        assert equal(datum(node), plain(value)), seed


def test_an_acyclic_value_goes_out_as_json_without_a_cycle() -> None:
    for seed in range(SAMPLES):
        value = acyclic(random.Random(seed), 5, [])
        assert CYCLE not in json.dumps(as_json(value, Budget())), seed


def test_an_acyclic_value_enters_as_it_is() -> None:
    for seed in range(SAMPLES):
        value = acyclic(random.Random(seed), 5, [])
        assert copied(from_python(value)) == copied(value), seed
        assert copied(from_python([None, value])) == [[], copied(value)], seed


def test_deep_mappings_are_written_whole() -> None:
    value: Any = 1
    for _ in range(50_000):
        value = {"a": value}
    source = to_source(value)
    assert CYCLE not in source
    assert source.count("(a ") == 50_000
    assert sum(1 for _ in containers(value, WIDE)) == 50_000
    assert equal(value, from_python(value, WIDE))


def test_values_that_are_computed_while_two_mappings_are_compared_are_not_confused() -> None:
    assert equal(Counted(500, 0), Counted(500, 0))
    assert not equal(Counted(500, 0), Counted(500, 1))
    assert not equal(Counted(500, 1), Counted(500, 0))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 5), st.data())
def test_a_real_cycle_is_written_once_at_its_place(kinds: list[int], back: int, data: st.DataObject) -> None:
    """Build a chain of containers whose last one contains an earlier one."""
    chain: list[Any] = [{} if kind % 2 else [] for kind in kinds]
    target = chain[back % len(chain)]
    for holder, inner in zip(chain, [*chain[1:], target], strict=True):
        extra = data.draw(st.integers(0, 2))
        if isinstance(holder, dict):
            holder |= {"next": inner, **{f"x{number}": {"n": [number]} for number in range(extra)}}
        else:
            holder += [inner, *({"n": [number]} for number in range(extra))]
    assert to_source(chain[0]).count(CYCLE) == 1
    assert json.dumps(as_json(chain[0], Budget())).count(CYCLE) == 1
    assert sum(1 for _ in containers(chain[0], Budget())) >= len(chain)
    assert equal(chain[0], from_python(chain[0]))
