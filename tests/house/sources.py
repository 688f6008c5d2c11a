"""The files of this repository, for tests of the whole project."""

import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Created by set-up, tools and runs; none of these are in the repository.
MADE = {
    ".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    ".import_linter_cache", ".coverage", "runs", "dist",
}  # fmt: skip


def files(pattern: str, under: Path = ROOT) -> list[Path]:
    """Return the repository's matching files, sorted, without those created by tools and runs."""
    return [path for path in _files(under) if fnmatchcase(path.name, pattern)]


@cache
def _files(under: Path) -> list[Path]:
    found = []
    for place, folders, names in os.walk(under):
        # Generated folders are not even scanned: they may be many times the size of the repository.
        folders[:] = [folder for folder in folders if not _made((Path(place) / folder).relative_to(ROOT))]
        found += [
            path for name in names if not _made((path := Path(place) / name).relative_to(ROOT)) and path.is_file()
        ]
    return sorted(found)


def _made(relative: Path) -> bool:
    return not MADE.isdisjoint(relative.parts) or relative.parts[:2] == ("sandbox", "work")


def modules() -> list[Path]:
    """Return the package's modules that contain code."""
    return [path for path in files("*.py", ROOT / "stackmem") if path.read_text(encoding="utf-8").strip()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))
