"""The last line of a test run: how many hostile cases ran at each level."""

from collections import Counter
from typing import Any

import pytest

_PROPERTY = "hostile_level"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "function", None), "hostile", False):
            item.user_properties.append((_PROPERTY, item.callspec.params["level"]))  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    ran: Counter[str] = Counter()
    skipped = 0
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            for name, level in getattr(report, "user_properties", ()):
                if name == _PROPERTY and outcome in ("passed", "failed"):
                    ran[level] += 1
                elif name == _PROPERTY and outcome == "skipped":
                    skipped += 1
    if ran or skipped:
        levels = ", ".join(f"{count} at {level}" for level, count in sorted(ran.items())) or "none"
        terminalreporter.write_line(f"hostile cases run: {levels}; skipped: {skipped}")
