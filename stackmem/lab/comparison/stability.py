"""Check which verdicts depend on the model: under how many models one strategy is better than another.

Within a table, one strategy is better if it solves at least as much at no higher bill and one of the gaps is large
enough to matter. A model is a simulated reader with its settings, or a real one. No single model decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from stackmem.lab.bench.statistics import AMOUNT_OF_INTEREST, SHARE_OF_INTEREST

from .columns import as_text
from .figures import Line, Section, Wants, bill_name
from .run_columns import Kind


class Band(Struct, frozen=True):
    """Minimum and maximum over the models: the share solved, and the bill relative to the baseline."""

    solved: tuple[float, float]
    ratio: tuple[float, float] | None


class StabilityMap(Struct, frozen=True):
    """One set of tasks under several models."""

    title: str
    models: tuple[str, ...]
    strategies: tuple[str, ...]  # the strategies with figures under every model
    bands: Mapping[str, Band]
    better: Mapping[tuple[str, str], int]  # for a pair of strategies, under how many models the first is better


def stability_maps(sections: Sequence[Section], wants: Wants) -> list[StabilityMap]:
    """Return a map for all tasks and for each horizon that ran under several models."""
    groups: dict[tuple[str, str], list[Section]] = {}
    for section in sections:
        if not section.task:
            groups.setdefault((section.noise, section.title), []).append(section)
    return [
        _map(f"{title}" + (f" · noise {noise}" if noise else ""), group_sections, wants)
        for (noise, title), group_sections in groups.items()
        if len(group_sections) > 1
    ]


def _map(title: str, sections: Sequence[Section], wants: Wants) -> StabilityMap:
    figures = [{line.strategy: both for line in each.lines if (both := _figures(line, wants))} for each in sections]
    shared = [name for name in figures[0] if all(name in each for each in figures)]
    better = {
        (first, second): sum(_is_better(each[first], each[second]) for each in figures)
        for first in shared
        for second in shared
        if first != second
    }
    base = [each.get(wants.baseline) for each in figures]
    bands = {name: _band([each[name] for each in figures], base) for name in shared}
    return StabilityMap(title, tuple(each.model for each in sections), tuple(shared), bands, better)


def _figures(line: Line, wants: Wants) -> tuple[float, float] | None:
    solved, bill = line.figures["solved"], line.figures[bill_name(wants.read_multiple)]
    return None if solved is None or bill is None else (solved.value, bill.value)


def _is_better(first: tuple[float, float], second: tuple[float, float]) -> bool:
    gain, saved = first[0] - second[0], second[1] - first[1]
    matters = gain >= SHARE_OF_INTEREST or first[1] * (1 + AMOUNT_OF_INTEREST) <= second[1]
    return gain >= 0 <= saved and matters and second[1] > 0


def _band(figures: Sequence[tuple[float, float]], base: Sequence[tuple[float, float] | None]) -> Band:
    solved = [share for share, _ in figures]
    ratios = [bill / other[1] for (_, bill), other in zip(figures, base, strict=True) if other and other[1] > 0]
    complete = len(ratios) == len(figures)
    return Band((min(solved), max(solved)), (min(ratios), max(ratios)) if complete else None)


def map_rows(stability_map: StabilityMap, wants: Wants) -> list[list[str]]:
    """Return the map as a table with its header row."""
    rows = [["strategy", "solved", f"bill to {wants.baseline}", *(f"over {name}" for name in stability_map.strategies)]]
    for name in stability_map.strategies:
        band = stability_map.bands[name]
        cells = [
            "" if name == other else _share(stability_map.better[name, other], len(stability_map.models))
            for other in stability_map.strategies
        ]
        rows.append([name, _range(band.solved, "share"), _range(band.ratio, "ratio"), *cells])
    return rows


def _share(count: int, models: int) -> str:
    word = "all" if count == models else "most" if 2 * count > models else "none" if count == 0 else "depends"
    return word if word in ("all", "none") else f"{word}, {count} of {models}"


def _range(ends: tuple[float, float] | None, kind: Kind) -> str:
    if ends is None:
        return ""
    low, high = (as_text(end, kind) for end in ends)
    return low if low == high else f"{low} to {high}"


def map_text(stability_map: StabilityMap) -> str:
    """Return the text above the map."""
    points, percent = SHARE_OF_INTEREST * 100, AMOUNT_OF_INTEREST * 100
    models = stability_map.models
    return (
        f"Under how many of {len(models)} models ({', '.join(models)}) the strategy of a row is better "
        f"than that of a column: it solves at least as much at no higher bill, and gains {points:.0f} points of "
        f"success or {percent:.0f} % of the bill. A range covers all models. A result that differs between them "
        "depends on the reader."
    )
