"""Folders shown in the UI: runs, and benches with their trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from stackmem.core.errors import StackmemError, UsageError
from stackmem.lab.bench.ledger import PLAN, read_plan, read_rows
from stackmem.lab.bench.trial import RUNS
from stackmem.review.kept.run_index import RunIndex
from stackmem.review.kept.run_list import RunRow, choose_runs
from stackmem.run.run_folder import LEDGER, is_run
from stackmem.trace.lock import is_held

ALL, RUNS_ONLY = "all", "runs"
_MAX_STRATEGIES = 8
_LATELY = 50  # trials used to estimate the time left


class StrategyTrials(Struct, frozen=True):
    """The trials of one strategy that have ended."""

    name: str
    solved: int
    trials: int


class BenchState(Struct, frozen=True):
    """One bench in the list."""

    name: str
    folder_number: int = field(name="place")
    done: int = 0
    errors: int = 0
    total: int = 0  # trials in the plan; 0 without a plan
    bill_usd: float = 0.0  # cost of the trials at the prices of the plan
    running: bool = False
    # estimated from the pace of the last trials; None if the bench is not running or too few trials have ended
    seconds_left: float | None = None
    strategies: tuple[StrategyTrials, ...] = ()  # the best first
    more: int = 0  # strategies that are not listed
    broken: str = ""  # why the bench cannot be read; empty if it can


class ShownFolder(Struct):
    """A folder of runs, or a bench."""

    folder: Path
    runs: RunIndex
    is_bench: bool

    @property
    def name(self) -> str:
        return self.folder.resolve().name or str(self.folder)


class Places:
    """All shown folders. A run's name has two parts: the number of its folder, and its path in it."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Scan each folder once; a folder may also contain benches.

        Raise UsageError if a folder does not exist, or is a run.
        """
        self.all: list[ShownFolder] = []
        self.looked = False  # whether every folder has been scanned once
        for folder in dict.fromkeys(folders):
            if is_run(folder):
                raise UsageError(f"{folder} is a run; pass the folder that contains it, or use stackmem view {folder}")
            if not folder.is_dir():
                raise UsageError(f"no folder {folder}; pass a folder with runs or benches")
            self._add(folder)

    def _add(self, folder: Path) -> None:
        if _is_bench(folder):
            self.all.append(ShownFolder(folder, RunIndex(folder / RUNS, nested=True), is_bench=True))
            return
        self.all.append(ShownFolder(folder, RunIndex(folder), is_bench=False))
        benches = sorted(path for path in folder.iterdir() if not path.is_symlink() and _is_bench(path))
        self.all += [ShownFolder(path, RunIndex(path / RUNS, nested=True), is_bench=True) for path in benches]

    def refresh(self) -> None:
        """Scan every folder again."""
        for folder in self.all:
            folder.runs.refresh()
        self.looked = True

    def measure(self) -> None:
        """Add requests and sizes of finished runs. This is slow, so it happens after the first list is shown."""
        for folder in self.all:
            folder.runs.measure()

    @property
    def version(self) -> int:
        """Increases with every change, and when the first scan is complete."""
        return sum(folder.runs.version for folder in self.all) + self.looked

    def folder_of(self, run: str) -> Path:
        """Return the folder of a run. Raise UsageError if no run is listed under this name."""
        number, _, path = run.partition("/")
        folder = self.folder_at(number).runs.folder_of(path)
        if folder is None:
            raise UsageError("this run no longer exists; go back to the list")
        return folder

    def folder_at(self, number: str) -> ShownFolder:
        """Return the folder with this number; raise ``UsageError`` if there is none."""
        if not number.isascii() or not number.isdigit() or len(number) > 4 or int(number) >= len(self.all):
            raise UsageError("no such folder; go back to the list")
        return self.all[int(number)]

    def rows(self, query: str, conditions: Sequence[str], order: str, limit: int, scope: str = ALL) -> dict[str, Any]:
        """Return the runs that contain a text and meet every condition, with counts per outcome.

        Args:
            scope: ``all``, ``runs`` for those outside benches, or the number of a folder. If every shown folder is a
                bench, ``runs`` is ``all``.

        Raises:
            UsageError: As ``choose_runs`` and ``folder_at``.
        """
        folders = self._in_scope(scope)
        rows = {f"{number}/{path}": row for number, folder in folders for path, row in _rows(folder)}
        names = {id(row): name for name, row in rows.items()}
        text = query.casefold()
        holding = [row for row in rows.values() if not text or text in _text(row)]
        selected = choose_runs(holding, conditions, order, None)
        outcomes: dict[str, int] = {}
        for row in selected:
            outcomes[row.outcome] = outcomes.get(row.outcome, 0) + 1
        return {
            "rows": [{"id": names[id(row)], **to_builtins(row)} for row in selected[:limit]],
            "matched": len(selected),
            "total": len(rows),
            "looked": self.looked,
            "unread": sum(folder.runs.unread for folder in self.all),
            "outcomes": outcomes,
            "places": [{"name": folder.name, "bench": folder.is_bench} for folder in self.all],
        }

    def _in_scope(self, scope: str) -> list[tuple[int, ShownFolder]]:
        numbered = list(enumerate(self.all))
        if scope not in (ALL, RUNS_ONLY):
            folder = self.folder_at(scope)
            return [(self.all.index(folder), folder)]
        plain = [(number, folder) for number, folder in numbered if not folder.is_bench]
        return plain if scope == RUNS_ONLY and plain else numbered

    def benches(self) -> list[BenchState]:
        """Return the state of every bench, by folder number."""
        return [_state(folder, number) for number, folder in enumerate(self.all) if folder.is_bench]


def _rows(folder: ShownFolder) -> Iterable[tuple[str, RunRow]]:
    return folder.runs.rows.items()


def _text(row: RunRow) -> str:
    return "\n".join((row.run, row.task, row.model, row.strategy, row.outcome, row.parent, row.request)).casefold()


def _is_bench(folder: Path) -> bool:
    try:
        return (folder / PLAN).is_file() or (folder / LEDGER).is_file()
    except OSError:
        return False


def _state(folder: ShownFolder, number: int) -> BenchState:
    try:
        plan = read_plan(folder.folder)
        rows = list({row["id"]: row for row in read_rows(folder.folder)}.values())
    except StackmemError as error:
        return BenchState(folder.name, number, broken=str(error))
    strategies = _by_strategy(rows)
    total, running = plan.count if plan else 0, is_held(folder.folder / LEDGER)
    return BenchState(
        name=folder.name,
        folder_number=number,
        done=len(rows),
        errors=sum(row["outcome"] == "error" for row in rows),
        total=total,
        bill_usd=sum(row.get("bill_usd") or 0.0 for row in rows),
        running=running,
        strategies=strategies[:_MAX_STRATEGIES],
        more=max(0, len(strategies) - _MAX_STRATEGIES),
        seconds_left=_seconds_left(rows, total - len(rows)) if running else None,
    )


def _by_strategy(rows: Sequence[Mapping[str, Any]]) -> tuple[StrategyTrials, ...]:
    solved: dict[str, list[bool]] = {}
    for row in rows:
        solved.setdefault(str(row.get("strategy", "")), []).append(row["outcome"] in ("solved", "finished"))
    counted = [StrategyTrials(name, sum(outcomes), len(outcomes)) for name, outcomes in solved.items() if name]
    return tuple(sorted(counted, key=lambda entry: (-entry.solved / entry.trials, entry.name)))


def _seconds_left(rows: Sequence[Mapping[str, Any]], more: int) -> float | None:
    ends = sorted(end for row in rows[-_LATELY:] if isinstance(end := row.get("finished"), int | float))
    return more * (ends[-1] - ends[0]) / (len(ends) - 1) if len(ends) > 1 and more > 0 else None
