"""Citable and repeatable results in one file: the plan, the code that ran it, and the rows.

Rule 1: an archive records what produced it and the digest of each file. An inconsistent archive is refused. Rule 2: an
archive is read in memory, by known names only. Its content is never unpacked to disk or executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import TraceError, UsageError
from stackmem.core.strict_json import decode_json
from stackmem.core.version import VERSION
from stackmem.foreign.files import read_start
from stackmem.foreign.tree import ArchiveError
from stackmem.foreign.zips import ZipPacker, opened_zip
from stackmem.lab.bench.provenance import code_digest, environment, revision
from stackmem.models.catalog import lookup
from stackmem.run.plugins.loading import plugin_digests, refuse_unlike_plugins

FORMAT = 1
MAX_BYTES = 1 << 30
PLAN, ROWS = "plan.json", "results.jsonl"
_MANIFEST = "manifest.json"
_MAX_LISTED = 5
_GZIP = b"\x1f\x8b"

Rows = Mapping[str, Mapping[str, Any]]
"""Name of a trial or a recording, to its row."""


class ArchiveManifest(Struct, frozen=True):
    """The metadata of an archive."""

    version: str
    code: str  # SHA-256 over the sources of the package
    revision: str  # the commit of the checkout; empty if the package was installed
    plugins: dict[str, str]  # package and version to the digest of its files
    worlds: dict[str, str]  # family and horizon to the digest of its task with seed 1
    files: dict[str, str]  # name of each other file in the archive to its digest
    format: int = FORMAT


def pack_archive(
    path: Path,
    plan: bytes,
    rows: Iterable[Mapping[str, Any]],
    report: bytes,
    *,
    title: str,  # for the citation
    models: Iterable[str],  # the models whose prices determined the bills
    commands: tuple[str, str],  # the original command, and the one that repeats it
    worlds: Mapping[str, str],
) -> ArchiveManifest:
    """Write a zip archive with the given parts and this machine's code digest, environment and prices.

    Raise UsageError if the archive cannot be written.
    """
    original_command, repeat_command = commands
    files = {
        PLAN: plan,
        ROWS: b"".join(json.dumps(row, sort_keys=True).encode() + b"\n" for row in rows),
        "report.md": report,
        "prices.json": _json({model: msgspec.to_builtins(lookup(model)) for model in models}),
        "environment.txt": "".join(f"{line}\n" for line in environment()).encode(),
        "REPEAT.txt": (
            f"{original_command}\n\nproduced these results. To repeat and compare them:\n\n{repeat_command}\n"
        ).encode(),
        "CITATION.cff": _citation(title).encode(),
    }
    digests = {name: digest(content) for name, content in files.items()}
    manifest = ArchiveManifest(VERSION, code_digest(), revision(), plugin_digests(), dict(worlds), digests)
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        with ZipPacker(fresh) as packed:
            for name, content in {_MANIFEST: _json(msgspec.to_builtins(manifest)), **files}.items():
                packed.add(name, content)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with --archive") from error
    return manifest


def unpack_archive(path: Path) -> tuple[ArchiveManifest, bytes, list[dict[str, Any]]]:
    """Return the manifest, the plan as bytes, and the rows, after checking their digests.

    Raise UsageError if the archive cannot be read. Raise TraceError if a digest does not match. The message names the
    part.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is too large for an archive of results")
        if read_start(path, 2) == _GZIP:
            raise UsageError(
                f"{path} is a gzipped tar from an older version of stackmem; create the archive again with --archive"
            )
        with opened_zip(path) as archive:
            manifest_json, plan, lines = archive.read((_MANIFEST, PLAN, ROWS), MAX_BYTES)
        manifest = decode_json(manifest_json, ArchiveManifest)
        for name, content in ((PLAN, plan), (ROWS, lines)):
            if manifest.files.get(name) != digest(content):
                raise TraceError(f"{name} in {path} does not match its digest; download the archive again")
        rows = [json.loads(line) for line in lines.splitlines()]
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("a row is none")
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}); name an archive of results") from error
    except (ArchiveError, ValueError, TypeError, msgspec.DecodeError, RecursionError) as error:
        raise TraceError(f"{path} is not an archive of results ({error})") from error
    return manifest, plan, rows


def refuse_unlike(manifest: ArchiveManifest) -> None:
    """Raise unless the version and the plug-ins are the same, because only then can the rows be the same."""
    if manifest.version != VERSION:
        raise UsageError(
            f"the archive was created by stackmem {manifest.version}, and this is {VERSION}; install that version"
        )
    refuse_unlike_plugins(manifest.plugins)


def differences(manifest: ArchiveManifest, there: Rows, here: Rows, unlike: Collection[str]) -> list[str]:
    """Return a sentence for each difference in the rows; empty if they are equal."""
    sentences = list(_differing(there, here, unlike))
    more = [f"and {len(sentences) - _MAX_LISTED:,} more"] if len(sentences) > _MAX_LISTED else []
    code = [] if manifest.code == code_digest() else ["the code differs from the archive's"]
    return [*sentences[:_MAX_LISTED], *more, *code] if sentences else []


def _differing(there: Rows, here: Rows, unlike: Collection[str]) -> Iterator[str]:
    for name in sorted(there.keys() | here.keys()):
        if name not in here or name not in there:
            yield f"{name}: {'missing here' if name in there else 'not in the archive'}"
            continue
        archived, current = there[name], here[name]
        columns = sorted((archived.keys() | current.keys()) - set(unlike))
        changed = [column for column in columns if archived.get(column) != current.get(column)]
        if changed:
            changes = ", ".join(
                f"{column} {_short(archived.get(column))} became {_short(current.get(column))}"
                for column in changed[:3]
            )
            yield f"{name}: {changes}" + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _citation(title: str) -> str:
    return (
        "cff-version: 1.2.0\nmessage: If you use these results, cite them and the software that made them.\n"
        f"type: dataset\ntitle: {json.dumps(title)}\nauthors:\n  - name: stackmem\n"
        f"references:\n  - type: software\n    title: stackmem\n    version: {json.dumps(VERSION)}\n"
        "    authors:\n      - name: stackmem\n"
    )


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
