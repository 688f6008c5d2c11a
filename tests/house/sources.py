"""The files of this repository, as the whole-house tests look at them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
# Made by set-up, tools and runs; none of it is in the repository.
MADE = {
    ".git", ".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis",
    ".import_linter_cache", "runs", "dist",
}  # fmt: skip


def files(pattern: str, under: Path = ROOT) -> list[Path]:
    """Files of the repository that match, sorted, without what was made by tools and runs."""
    found = [path for path in under.rglob(pattern) if path.is_file()]
    return sorted(path for path in found if not _made(path.relative_to(ROOT)))


def _made(relative: Path) -> bool:
    return not MADE.isdisjoint(relative.parts) or relative.parts[:2] == ("sandbox", "work")


def modules() -> list[Path]:
    """The modules of the package that hold code."""
    return [path for path in files("*.py", ROOT / "stackmem") if path.read_text(encoding="utf-8").strip()]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))
