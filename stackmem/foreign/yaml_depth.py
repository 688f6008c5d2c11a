"""Bounds on the time of YAML: a scanner that limits nesting, because the library's time grows with the square of the
number of open brackets, and a faster reader for one line of JSON.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

_MAX_KEY_CHARS = 1_000
"""YAML refuses a key of more than 1,024 characters, counted with its quotes and escapes."""


@cache
def bounded_scanner(scanner: Any, most: int) -> Any:
    """Return a subclass of ``scanner``, a scanner of ruamel.yaml, that refuses more than ``most`` nested brackets.

    It raises a ``ScannerError`` with the position of the bracket, and the rest of the text is not read.
    """

    def fetch_flow_collection_start(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(self.flow_context) > most:
            from ruamel.yaml.scanner import ScannerError

            raise ScannerError(None, None, f"nested deeper than {most} levels", self.reader.get_mark())
        scanner.fetch_flow_collection_start(self, *args, **kwargs)

    return type("BoundedScanner", (scanner,), {"fetch_flow_collection_start": fetch_flow_collection_start})


def read_json_line(text: str, max_depth: int) -> dict[str, Any] | None:
    """Read a mapping that is one line of JSON, which takes a hundredth of the time that YAML takes.

    Return None if YAML would refuse the text or read it differently.
    """
    if not text.startswith("{") or not text.isprintable():
        return None
    try:
        root: dict[str, Any] = json.loads(text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError):
        return None
    level: list[Any] = [root]
    for _ in range(max_depth):
        items = (item for each in level for item in (each.values() if isinstance(each, dict) else each))
        level = [item for item in items if isinstance(item, dict | list)]
        if not level:
            return root
    return None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs) or any(len(json.dumps(key)) > _MAX_KEY_CHARS for key in mapping):
        raise ValueError("YAML refuses keys that are repeated or too long")
    return mapping
