"""A YAML scanner that counts open brackets, since the library's time grows with the square of how many are open."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def bounded_scanner(scanner: Any, most: int) -> Any:
    """A class as ``scanner``, one of ruamel.yaml's, that refuses a bracket inside more than ``most`` open ones.

    The refusal is a ``ScannerError`` with the bracket's place, so that the text's rest is never read.
    """

    def fetch_flow_collection_start(self: Any, *given: Any, **named: Any) -> None:
        if len(self.flow_context) > most:
            from ruamel.yaml.scanner import ScannerError

            raise ScannerError(None, None, f"nested deeper than {most} levels", self.reader.get_mark())
        scanner.fetch_flow_collection_start(self, *given, **named)

    return type("BoundedScanner", (scanner,), {"fetch_flow_collection_start": fetch_flow_collection_start})
