"""A YAML scanner that limits nesting, because the library's time grows with the square of the number of open
brackets.
"""

from __future__ import annotations

from functools import cache
from typing import Any


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
