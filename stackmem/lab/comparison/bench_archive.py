"""A bench in one file that can be cited and repeated.

Rule: two benches are equal if their rows are. Times, and names derived from times, are ignored.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct, field

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.core.text import quantity
from stackmem.foreign.files import read_regular
from stackmem.lab.bench.ledger import PLAN, read_plan
from stackmem.lab.bench.plan import BenchPlan
from stackmem.lab.bench.results import TIMES, read_results
from stackmem.lab.worlds import design
from stackmem.lab.worlds.folder import task_files

from . import archive
from .archive import ArchiveManifest, digest, pack_archive, unpack_archive
from .write import write_report

_UNLIKE = {*TIMES, "rate_limited"}


class BenchArchive(Struct, frozen=True):
    """A consistent archive of a bench."""

    manifest: ArchiveManifest
    plan: BenchPlan
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # trial to its row


def write_archive(folder: Path, path: Path) -> ArchiveManifest:
    """Write the bench in ``folder`` as a zip archive."""
    plan = read_plan(folder)
    if plan is None:
        raise UsageError(f"{folder} does not contain a bench; stackmem bench -o DIR creates one")
    with TemporaryDirectory(prefix="stackmem-") as scratch:
        report = Path(scratch, "report.md")
        write_report(folder, str(report))
        rows = sorted(read_results(folder), key=lambda row: str(row["id"]))
        return pack_archive(
            path, read_regular(folder / PLAN), rows, report.read_bytes(),
            title=f"A comparison of memory strategies: {plan.suite or 'a bench'}, {quantity(len(rows), 'trial')}",
            models=(plan.price, *plan.models),
            commands=(plan.command, f"stackmem bench --repeat {path.name} -o again"),
            worlds=_worlds(plan),
        )  # fmt: skip


def read_archive(path: Path) -> BenchArchive:
    """Read the archive of a bench."""
    manifest, plan, rows = unpack_archive(path)
    try:
        return BenchArchive(manifest, decode_json(plan, BenchPlan), {str(row["id"]): row for row in rows})
    except (KeyError, msgspec.DecodeError) as error:
        raise TraceError(f"{path} is not an archive of a bench ({error})") from error


def refuse_unlike(original: BenchArchive) -> None:
    """Raise unless the version, the plug-ins and the worlds are the same. Otherwise the rows could not be the same."""
    archive.refuse_unlike(original.manifest)
    there, here = original.manifest.worlds, _worlds(original.plan)
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            raise UsageError(f"the world {name} differs from the archive's; install the version that the archive used")


def differences(original: BenchArchive, folder: Path) -> list[str]:
    """Return a sentence for each difference from the bench in ``folder``; empty if they are equal."""
    here = {str(row["id"]): row for row in read_results(folder)}
    return archive.differences(original.manifest, original.rows, here, _UNLIKE)


def _worlds(plan: BenchPlan) -> dict[str, str]:
    digests = {}
    for subject in plan.subjects:
        if subject.horizon is not None and subject.noise is not None:
            world = design(subject.family, 1, subject.horizon, subject.noise)
            text = "\0".join(f"{path}\0{content}" for path, content, _ in task_files(world))
            digests[subject.label] = digest(text.encode())
    return digests
