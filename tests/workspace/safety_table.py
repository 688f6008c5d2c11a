"""The table of hostile cases in docs/safety-details.md, generated from the tests: a row per test, a column per level.

``python -m tests.workspace.safety_table`` rewrites it. A cell says ``holds`` if the test runs at that level, where it
must pass for every user; so the table is true if the tests pass.
"""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "safety-details.md"
BEGIN, END = "<!-- hostile cases -->\n", "<!-- end of hostile cases -->\n"
COLUMNS = ("bubblewrap", "namespaces", "landlock", "none")
PROXY = "test_egress_proxy"
HOLDS, DOCUMENTED, MOOT, NOT_RUN = "holds", "documented", "n/a", "not run"


def cases() -> Iterator[tuple[str, str, Callable[..., None]]]:
    """Return each hostile case: the subject of its file, its name, and the test."""
    for folder in ("workspace", "history"):
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py")):
            text = path.read_text("utf-8")
            if "@hostile(" not in text and "@for_everyone" not in text:
                continue
            module = importlib.import_module(f"tests.{folder}.{path.stem}")
            for name, test in vars(module).items():
                own = getattr(test, "__module__", "") == module.__name__
                if own and name.startswith("test_") and getattr(test, "everyone", False):
                    yield path.stem.removeprefix("test_").replace("_", " "), name, test


def cells(test: Callable[..., None]) -> tuple[str, ...] | None:
    """Return the outcome at each level; None for a case without levels."""
    claim = getattr(test, "hostile", None)
    if claim is None:
        return None
    # A variant of a level shares its column: bubblewrap on a layer, bubblewrap without /proc.
    held = {level.split(" ")[0] for level in claim.levels}
    return tuple(
        HOLDS
        if level in held
        else DOCUMENTED
        if level in claim.documented
        else MOOT
        if level in claim.moot
        else NOT_RUN
        for level in COLUMNS
    )


def contradictions() -> list[str]:
    """Return cases that contradict themselves about a level, or name an unknown level."""
    wrong = []
    for _, name, test in cases():
        if (claim := getattr(test, "hostile", None)) is not None:
            said = [*{level.split(" ")[0] for level in claim.levels}, *claim.documented, *claim.moot]
            if len(said) != len(set(said)) or not set(said) <= set(COLUMNS):
                wrong.append(name)
    return wrong


def sentence(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def proxy_cases() -> list[str]:
    """Return hostile requests to the proxy of listed hosts; these tests need no sandbox or user."""
    module = importlib.import_module(f"tests.workspace.{PROXY}")
    return [name for name, test in vars(module).items() if name.startswith("test_") and callable(test)]


def table() -> str:
    rows = [(subject, sentence(name), cells(test)) for subject, name, test in cases()]
    leveled = [(subject, told, row) for subject, told, row in rows if row is not None]
    others = [(subject, told) for subject, told, row in rows if row is None]
    proxied = [sentence(name) for name in proxy_cases()]
    counted = [cell for *_, row in leveled for cell in row]
    count = ", ".join(f"{counted.count(word):,} {word}" for word in (HOLDS, DOCUMENTED, MOOT, NOT_RUN))
    lines = [
        f"There are {len(rows) + len(proxied)} cases. {len(leveled)} run in a sandbox, with results {count}.", "",
        f"| case | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS),
        *(f"| {subject}: {told} | {' | '.join(row)} |" for subject, told, row in leveled), "",
        f"These {len(others)} cases test stackmem itself with a hostile folder. They hold at every level:", "",
        *(f"- {subject}: {told}" for subject, told in others), "",
        f"These {len(proxied)} cases test the proxy of [listed hosts](network.md) with hostile commands. All hold:", "",
        *(f"- {told}" for told in proxied), "",
    ]  # fmt: skip
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the page with the current table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
