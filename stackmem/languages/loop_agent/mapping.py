"""Where a result goes in the payload: a path for the whole of it, or result path to payload path."""

from __future__ import annotations

import json
from typing import Any

from .merging import Write
from .paths import MISSING, looked_up, parsed
from .references import Names, resolved


def pairs_of(mapping: Any) -> tuple[tuple[str, str], ...] | None:
    """``(result path, payload path)``, each as text; None where it is no mapping."""
    if isinstance(mapping, str) and mapping.lstrip().startswith("{") and not mapping.lstrip().startswith("{{"):
        try:
            mapping = json.loads(mapping)
        except (ValueError, RecursionError):
            return None
    if isinstance(mapping, str):
        return (("", mapping),)
    if isinstance(mapping, dict) and all(isinstance(value, str) for value in mapping.values()):
        return tuple((str(name), value) for name, value in mapping.items())
    return None


def mapping_fault(mapping: Any) -> str:
    """What is wrong with an output mapping; empty where nothing is. References in payload paths are not looked at."""
    pairs = pairs_of(mapping)
    if pairs is None:
        return "an output mapping is a payload path, or an object of result path to payload path"
    for source, target in pairs:
        if parsed(source) is None:
            return f"{source[:80]!r} is no path in a result; write it like a.b[0]"
        if "{{" not in target and not parsed(_bare(target)):
            return f"{target[:80]!r} is no path in the payload; write it like a.b[0]"
    return ""


def writes_of(mapping: Any, result: Any, names: Names, warnings: list[str]) -> tuple[Write, ...]:
    """What a sound mapping writes of a result."""
    found = []
    for source, target in pairs_of(mapping) or ():
        value = looked_up(result, parsed(source) or ())
        spelled = str(resolved(target, names, warnings)) if "{{" in target else target
        path = parsed(_bare(spelled))
        if value is MISSING:
            _warn(warnings, f"the result has no '{source}', so nothing was written to '{spelled}'")
        elif not path:
            _warn(warnings, f"{spelled[:80]!r} is no path in the payload; nothing was written there")
        else:
            found.append(Write(path, value))
    return tuple(found)


def _bare(path: str) -> str:
    text = path.strip()
    return text[len("payload.") :] if text.lower().startswith("payload.") else text


def _warn(warnings: list[str], told: str) -> None:
    if told not in warnings and len(warnings) < 50:
        warnings.append(told)
