"""What runs changed, as the predictions that SWE-bench's own harness takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from stackmem.core.facts import RunStarted
from stackmem.errors import UsageError
from stackmem.run.run_folder import PATCH, TRACE
from stackmem.trace.lineage import RunReader

from .find import find_run


class Prediction(Struct, frozen=True):
    """One line; ``instance_id`` is the name of the task that was solved."""

    instance_id: str
    model_name_or_path: str
    model_patch: str


def predictions(named: str, runs_dir: Path) -> list[Prediction]:
    """A prediction for the run that is named, or for every run below a folder of runs or of a bench.

    Several runs of one task by the same model and strategy are told apart by ``#2`` and so on, in the order of their
    names.

    Raises:
        UsageError: There is no run there, or one has no patch.

    """
    times: Counter[tuple[str, str]] = Counter()
    found = []
    for folder in run_folders(named, runs_dir):
        start = _start(folder)
        who = f"stackmem/{start.model}/{start.strategy}"
        times[start.task_name, who] += 1
        again = times[start.task_name, who]
        found.append(Prediction(start.task_name, f"{who}#{again}" if again > 1 else who, _patch(folder)))
    return found


def run_folders(named: str, runs_dir: Path) -> list[Path]:
    """The run that is named, or every run below the folder that is."""
    given = Path(named)
    if given.is_dir() and not (given / TRACE).is_file():
        found = sorted(path.parent for path in given.glob(f"**/{TRACE}"))
        if found:
            return found
    return [find_run(named, runs_dir)]


def spelled(found: Iterable[Prediction], *, by_instance: bool) -> Iterator[str]:
    """The predictions as JSON Lines, or as one object by instance.

    Raises:
        UsageError: Two of them are of one instance, of which an object can hold but one.

    """
    if not by_instance:
        for one in found:
            yield msgspec.json.encode(one).decode() + "\n"
        return
    table: dict[str, Prediction] = {}
    for one in found:
        if one.instance_id in table:
            raise UsageError(
                f"there are several runs of {one.instance_id}, and an object by instance holds one; name one run, or "
                "write JSON Lines (-o FILE.jsonl)"
            )
        table[one.instance_id] = one
    yield msgspec.json.format(msgspec.json.encode(table), indent=2).decode() + "\n"


def _start(folder: Path) -> RunStarted:
    first = next(iter(RunReader(folder)), None)
    if first is None or not isinstance(first.event, RunStarted):
        raise UsageError(f"{folder} holds no run that began; name another one")
    return first.event


def _patch(folder: Path) -> str:
    try:
        raw = (folder / PATCH).read_bytes()
    except OSError as error:
        raise UsageError(
            f"the run {folder.name} has no patch ({error.strerror}); only finished runs that keep files have one"
        ) from error
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the patch of {folder.name} changes a file that is no UTF-8, which JSON cannot hold; leave this run out"
        ) from error
