"""Strategies by what they do with the past: the colours of the report."""

from __future__ import annotations

from typing import Literal

Family = Literal["linear", "masking", "summary", "lookup", "frames", "stackheap", "other"]

FAMILIES: dict[Family, tuple[str, frozenset[str]]] = {
    "linear": ("keeps it as it was, whole or the last of it", frozenset({"full", "window", "truncate"})),
    "masking": ("takes old results out", frozenset({"mask", "clear", "boundary"})),
    "summary": ("sums it up", frozenset({"summary", "rolling_summary", "structured_summary", "hierarchical"})),
    "lookup": ("writes it down or looks it up", frozenset({"rag", "notes", "memory_dir", "expandable"})),
    "frames": ("ends frames, no heap", frozenset({"isolated", "fold", "stack"})),
    "stackheap": ("heap, and frames", frozenset({"heap", "stackheap", "stackheap_fork", "stackheap_lossless"})),
    "other": ("other", frozenset()),
}
"""Name to what its strategies do, and their names."""


def family_of(strategy: str) -> Family:
    """By the name before any parameters."""
    base = strategy.partition(":")[0]
    return next((family for family, (_, names) in FAMILIES.items() if base in names), "other")


def leads(strategy: str, baseline: str) -> bool:
    """Whether its line is drawn over the others: the baseline, and stack and heap together."""
    return strategy in {baseline, "stackheap"}
