"""A study of recordings in one file that can be cited, and repeated with the same recordings.

Rule: the archive contains the names and digests of the recordings, but not the recordings. If they differ, comparison
is refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.lab.bench.evidence import PRICED_AS, READS, STRATEGIES, RecordingEntry, digests_of
from stackmem.lab.bench.provenance import code_digest

from . import archive
from .archive import ArchiveManifest, pack_archive, unpack_archive
from .evidence import write_evidence

_UNLIKE = {"code"}


class EvidencePlan(Struct, frozen=True):
    """The recordings and settings of a study."""

    recordings: dict[str, str]  # each file, by its name in the entries, to the SHA-256 of its bytes
    strategies: tuple[str, ...] = STRATEGIES
    reads: tuple[float, ...] = READS  # prices of a cached token read, relative to an input token
    priced_as: str = PRICED_AS  # the model whose prices determined the bills
    command: str = ""  # the command line of the study


class EvidenceArchive(Struct, frozen=True):
    """A consistent archive of a study."""

    manifest: ArchiveManifest
    plan: EvidencePlan
    entries: tuple[RecordingEntry, ...]


def write_archive(entries: Sequence[RecordingEntry], folder: Path, path: Path, words: Sequence[str]) -> ArchiveManifest:
    """Write the study as a zip archive."""
    recordings = digests_of(folder)
    for entry in entries:
        if entry.file not in recordings:
            raise UsageError(f"{folder} lacks {entry.file}, which has figures; name other --rows")
        if entry.code != code_digest():
            raise UsageError(f"the figures of {entry.file} come from other code; name other --rows to repeat the study")
    strategies = entries[0].strategies if entries else STRATEGIES
    plan = EvidencePlan(recordings, strategies, command=shlex.join(words))
    with TemporaryDirectory(prefix="stackmem-") as location:
        report = Path(location, "report.md")
        write_evidence(entries, report)
        count = sum(1 for entry in entries if entry.bills)
        planned = msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
        return pack_archive(
            path, planned, map(_row, entries), report.read_bytes(),
            title=f"Recordings of coding agents under memory strategies: {count} recordings",
            models=(PRICED_AS,),
            commands=(plan.command, f"stackmem evidence {shlex.quote(folder.name)} --repeat {path.name} -o again.html"),
            worlds={},
        )  # fmt: skip


def read_archive(path: Path) -> EvidenceArchive:
    """Read the archive of a study."""
    manifest, plan, rows = unpack_archive(path)
    try:
        stored_plan = decode_json(plan, EvidencePlan)
        return EvidenceArchive(manifest, stored_plan, tuple(msgspec.convert(row, RecordingEntry) for row in rows))
    except msgspec.DecodeError as error:
        raise TraceError(f"{path} is not an archive of a study of recordings ({error})") from error


def refuse_unlike(original: EvidenceArchive, folder: Path) -> None:
    """Raise unless the version, the plug-ins and the recordings are the same."""
    archive.refuse_unlike(original.manifest)
    there, here = original.plan.recordings, digests_of(folder)
    for name in sorted(there.keys() | here.keys()):
        if there.get(name) != here.get(name):
            wrong = (
                f"has no {name}" if name not in here else f"has {name}" if name not in there else f"has another {name}"
            )
            raise UsageError(f"{folder} {wrong}, unlike the archive; restore the original recordings")


def differences(original: EvidenceArchive, entries: Iterable[RecordingEntry]) -> list[str]:
    """Return a sentence for each difference in the entries; empty if they are equal."""
    there, here = ({_name(entry): _row(entry) for entry in each} for each in (original.entries, entries))
    return archive.differences(original.manifest, there, here, _UNLIKE)


def _name(entry: RecordingEntry) -> str:
    return f"{entry.file} {entry.session}".strip()


def _row(entry: RecordingEntry) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(entry)
    return row
