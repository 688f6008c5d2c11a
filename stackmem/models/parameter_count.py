"""How many parameters a model has, by what its server says or by its name."""

from __future__ import annotations

import re
from typing import Any

_TIMES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SIZE = re.compile(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s*([KMBT])\s*", re.IGNORECASE)
_EXPERTS = re.compile(r"(?<![a-z0-9.])(\d{1,3})x(\d{1,4}(?:\.\d{1,3})?)b(?![a-z0-9])", re.IGNORECASE)
_IN_NAME = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,3})?)([mb])(?![a-z0-9])", re.IGNORECASE)
_MOST = 10**15
_PLACES = (
    ("meta", "n_params"),
    ("details", "parameter_size"),
    ("model_info", "general.parameter_count"),
    ("parameter_size",),
    ("params",),
)
"""Where servers say it: llama.cpp, Ollama, Ollama's show, and others."""


def count_in_entry(entry: dict[str, Any]) -> int | None:
    """The parameters of a model by a server's entry for it; None if the entry does not say."""
    for path in _PLACES:
        value: Any = entry
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if (count := _count(value)) is not None:
            return count
    return None


def count_in_name(name: str) -> int | None:
    """The parameters by a name such as ``qwen2.5-coder:1.5b`` or ``Mixtral-8x7B``; None if it names none."""
    experts = _EXPERTS.search(name)
    if experts is not None:
        return int(int(experts[1]) * float(experts[2]) * 1e9)
    found = [float(size) * _TIMES[unit.upper()] for size, unit in _IN_NAME.findall(name)]
    return int(max(found)) if found and max(found) >= 1 else None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and (written := _SIZE.fullmatch(value)) is not None:
        value = float(written[1]) * _TIMES[written[2].upper()]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= _MOST:
        return None
    return int(value)
