"""A bench in one file that can be cited, and made again: what was planned, by what code, with what results.

Rule 1: an archive says what it was made by, and each thing by its digest; one that does not hold together is refused.
Rule 2: it is read in memory, by the names that are known, and nothing of it is unpacked onto a disk or run.
Rule 3: two benches are equal where their rows are, but for what differs between any two: times, and names made of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from stackmem.bench.ledger import PLAN, read_plan
from stackmem.bench.plan import BenchPlan
from stackmem.bench.results import TIMES, read_results
from stackmem.core.strict_json import decode_json
from stackmem.errors import TraceError, UsageError
from stackmem.history.origin import find_origin, work_tree_of
from stackmem.models.catalog import lookup
from stackmem.tools.plugins import plugin_digests, refuse_unlike_plugins
from stackmem.version import VERSION
from stackmem.worlds import design
from stackmem.worlds.folder import task_files

from .comparison.write import write_report

FORMAT = 1
LARGEST_BYTES = 1 << 30
_MANIFEST, _ROWS, _REPORT = "manifest.json", "results.jsonl", "report.md"
_SHOWN = 5
_UNLIKE = {*TIMES, "rate_limited"}


class ArchiveManifest(Struct, frozen=True):
    """What an archive says of itself.

    Attributes:
        code: SHA-256 over the sources of the package.
        revision: The commit that they were checked out from; empty where they were installed.
        plugins: Package and version to the digest of its files.
        worlds: Family and horizon to the digest of its task with seed 1.
        files: Name of each other file of the archive to its digest.
    """

    version: str
    code: str
    revision: str
    plugins: dict[str, str]
    worlds: dict[str, str]
    files: dict[str, str]
    format: int = FORMAT


class BenchArchive(Struct, frozen=True):
    """An archive that holds together.

    Attributes:
        rows: Trial to its row.
    """

    manifest: ArchiveManifest
    plan: BenchPlan
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_archive(folder: Path, path: Path) -> ArchiveManifest:
    """The bench in ``folder`` as a gzipped tar.

    Raises:
        UsageError: It cannot be written, or there is no bench.
        TraceError: The bench's files are broken.
    """
    plan = read_plan(folder)
    if plan is None:
        raise UsageError(f"{folder} holds no bench; stackmem bench makes one in the folder that its -o names")
    report = path.with_name(f".{path.name}.report.md")
    try:
        write_report(folder, str(report))
        files = _files(plan, folder, path.name, report.read_bytes())
        manifest = ArchiveManifest(
            VERSION, _code(), _revision(), plugin_digests(), _worlds(plan),
            {name: _digest(content) for name, content in files.items()},
        )  # fmt: skip
        fresh = path.with_name(f".{path.name}.new")
        with tarfile.open(fresh, "w:gz") as archive:
            for name, content in {_MANIFEST: _json(msgspec.to_builtins(manifest)), **files}.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        fresh.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); name another file with --archive") from error
    finally:
        report.unlink(missing_ok=True)
    return manifest


def _files(plan: BenchPlan, folder: Path, name: str, report: bytes) -> dict[str, bytes]:
    rows = sorted(read_results(folder), key=lambda row: str(row["id"]))
    prices = {model: msgspec.to_builtins(lookup(model)) for model in (plan.price, *plan.models)}
    again = f"stackmem bench --repeat {name} -o again"
    return {
        PLAN: (folder / PLAN).read_bytes(),
        _ROWS: b"".join(json.dumps(row, sort_keys=True).encode() + b"\n" for row in rows),
        _REPORT: report,
        "prices.json": _json(prices),
        "environment.txt": "".join(f"{line}\n" for line in _environment()).encode(),
        "REPEAT.txt": f"{plan.command}\n\nmade it. This makes it again and compares:\n\n{again}\n".encode(),
        "CITATION.cff": _citation(plan, len(rows)).encode(),
    }


def read_archive(path: Path) -> BenchArchive:
    """The archive, held against itself.

    Raises:
        UsageError: It cannot be read.
        TraceError: It does not hold together (what does not is named).
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than any archive of a bench")
        with tarfile.open(path, "r:gz") as archive:
            content = {name: _member(archive, name) for name in (_MANIFEST, PLAN, _ROWS)}
        manifest = decode_json(content[_MANIFEST], ArchiveManifest)
        for name in (PLAN, _ROWS):
            if manifest.files.get(name) != _digest(content[name]):
                raise TraceError(f"{name} of {path} is not what was archived; fetch the archive anew")
        rows = [json.loads(line) for line in content[_ROWS].splitlines()]
        return BenchArchive(manifest, decode_json(content[PLAN], BenchPlan), {str(row["id"]): row for row in rows})
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror or error}); name an archive of a bench") from error
    except (tarfile.TarError, EOFError, KeyError, ValueError, TypeError, msgspec.DecodeError) as error:
        raise TraceError(f"{path} is no archive of a bench ({error})") from error


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    member = archive.getmember(name)
    found = archive.extractfile(member) if member.isfile() and member.size <= LARGEST_BYTES else None
    if found is None:
        raise KeyError(f"{name} is no file")
    return found.read(LARGEST_BYTES)


def refuse_unlike(archive: BenchArchive) -> None:
    """Only the same version with the same plug-ins and worlds makes the same rows.

    Raises:
        UsageError: Something is another one here (named).
    """
    told = archive.manifest
    if told.version != VERSION:
        raise UsageError(f"the archive was made by stackmem {told.version}, and this is {VERSION}; install that one")
    refuse_unlike_plugins(told.plugins)
    here = _worlds(archive.plan)
    for name in sorted(told.worlds.keys() | here.keys()):
        if told.worlds.get(name) != here.get(name):
            raise UsageError(f"the world {name} is not the one that the archive was made with; install that one")


def differences(archive: BenchArchive, folder: Path) -> list[str]:
    """What the bench in ``folder`` has otherwise, in sentences; none where they are equal."""
    here = {str(row["id"]): row for row in read_results(folder)}
    said = list(_differing(archive.rows, here))
    more = [f"and {len(said) - _SHOWN:,} more"] if len(said) > _SHOWN else []
    code = [] if archive.manifest.code == _code() else ["the code is another one than the archive's"]
    return [*said[:_SHOWN], *more, *code] if said else []


def _differing(there: Mapping[str, Mapping[str, Any]], here: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in sorted(there.keys() | here.keys()):
        if name not in here or name not in there:
            yield f"{name}: {'not made here' if name in there else 'not in the archive'}"
            continue
        one, other = there[name], here[name]
        columns = sorted((one.keys() | other.keys()) - _UNLIKE)
        unlike = [column for column in columns if one.get(column) != other.get(column)]
        if unlike:
            told = ", ".join(f"{column} {one.get(column)!r} became {other.get(column)!r}" for column in unlike[:3])
            yield f"{name}: {told}" + (f" and {len(unlike) - 3} more" if len(unlike) > 3 else "")


def _worlds(plan: BenchPlan) -> dict[str, str]:
    found = {}
    for subject in plan.subjects:
        if subject.horizon is not None and subject.noise is not None:
            made = design(subject.family, 1, subject.horizon, subject.noise)
            text = "\0".join(f"{path}\0{content}" for path, content, _ in task_files(made))
            found[subject.shown] = _digest(text.encode())
    return found


def _code() -> str:
    home = Path(__file__).resolve().parents[1]
    sources = (path for path in sorted(home.rglob("*")) if path.suffix in (".py", ".md", ".toml", ".json"))
    told = hashlib.sha256()
    for path in sources:
        told.update(f"{path.relative_to(home)} {_digest(path.read_bytes())}\n".encode())
    return told.hexdigest()


def _revision() -> str:
    try:
        home = Path(__file__).resolve().parents[2]
        return find_origin(home).head if work_tree_of(home) == home else ""
    except (OSError, UsageError):
        return ""


def _environment() -> list[str]:
    named = {f"{package.metadata['Name']}=={package.version}" for package in distributions()}
    return [f"# {platform.python_implementation()} {platform.python_version()}, {platform.system()}", *sorted(named)]


def _citation(plan: BenchPlan, rows: int) -> str:
    title = f"A comparison of memory strategies: {plan.suite or 'a bench'}, {rows} trials"
    return (
        "cff-version: 1.2.0\nmessage: If you use these results, cite them and the software that made them.\n"
        f"type: dataset\ntitle: {json.dumps(title)}\nauthors:\n  - name: the person who ran the bench\n"
        f"references:\n  - type: software\n    title: stackmem\n    version: {json.dumps(VERSION)}\n"
        "    authors:\n      - name: the authors of stackmem\n"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
