"""Instances of SWE-bench with a local clone: the repository at its commit, and the tests of the record as checks.

What a record's own image would install is not there: the tests run with the sandbox's Python and pytest. So only
records whose test names are pytest's can be imported, and only repositories whose tests need nothing more pass.

Source: SWE-bench's dataset guide and harness, autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.errors import UsageError

from .clone import Clone, CloneEntry
from .folder import ImportedTask, TaskRefused, dockerfile, make, toml, write

SECONDS = 1_800.0
"""Wall time of the tests, SWE-bench's own default."""

_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_CHECKS = """#!/bin/sh
# Puts the record's tests in their places and runs those that it names.
set -u
tests=${TESTS_DIR:-/tests}
verifier=${VERIFIER_DIR:-/logs/verifier}
unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONSTARTUP
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/reward.json"
sh "$tests/place.sh"
python -P "$tests/node_judge.py" "$tests/record.json" "$verifier"
"""
_SOLVES = """#!/bin/sh
set -eu
sh "$(dirname "$0")/place.sh"
"""


class Instance(Struct, frozen=True):
    """One record; the two lists of tests may stand as JSON text, as they do in the published tables."""

    instance_id: str
    base_commit: str
    problem_statement: str
    test_patch: str
    FAIL_TO_PASS: list[str] | str
    PASS_TO_PASS: list[str] | str
    patch: str = ""
    repo: str = ""


def from_swebench(path: Path, out: Path, repo: Path | None) -> Iterator[ImportedTask | TaskRefused]:
    """A task for each record of a ``.json`` or ``.jsonl`` file.

    Raises:
        UsageError: The file holds no records, or the clone is missing.
    """
    if repo is None:
        raise UsageError("a SWE-bench record needs the repository; name a local clone of it with --repo")
    records = _records(path)
    if not records:
        raise UsageError(f"{path} holds no record; name a .json or .jsonl of records")
    for record in records:
        try:
            instance = msgspec.convert(record, Instance)
        except msgspec.ValidationError as error:
            named = record.get("instance_id") if isinstance(record, dict) else None
            yield TaskRefused(str(named or "a record"), f"it is not as SWE-bench has it: {error}")
            continue
        yield make(instance.instance_id, out, partial(_fill, instance, repo))


def _records(path: Path) -> list[Any]:
    try:
        raw = path.read_bytes()
        try:
            value = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return [msgspec.json.decode(line) for line in raw.splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name a .json or .jsonl of records") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON ({error}); name a .json or .jsonl of records") from error
    if isinstance(value, dict) and "instance_id" not in value:
        return list(value.values())
    return value if isinstance(value, list) else [value]


def _tests(instance: Instance, kind: str) -> list[str]:
    given = getattr(instance, kind)
    try:
        names = msgspec.json.decode(given, type=list[str]) if isinstance(given, str) else given
    except msgspec.DecodeError as error:
        raise UsageError(f"its {kind} is no list of tests ({error})") from error
    foreign = [name for name in names if "::" not in name or not name.split("::")[0].endswith(".py")]
    if foreign:
        raise UsageError(f"its {kind} names {foreign[0]!r}, which is no test of pytest; only those can be run here")
    return names


def _fill(instance: Instance, repo: Path, folder: Path) -> list[str]:
    names = {kind: _tests(instance, kind) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    if not names["FAIL_TO_PASS"]:
        raise UsageError("its FAIL_TO_PASS is empty: doing nothing would solve it")
    if not _COMMIT.fullmatch(instance.base_commit):
        raise UsageError(f"its base_commit {instance.base_commit[:80]!r} is no commit id")
    if not repo.is_dir():
        raise UsageError(f"no folder {repo}; name a local clone with --repo")
    clone = Clone(repo, folder.parent / "clone")
    before = clone.files(instance.base_commit)
    (folder / "environment" / "workspace").mkdir(parents=True)
    clone.write(before, folder / "environment" / "workspace")
    _place(clone, before, clone.patched(instance.base_commit, instance.test_patch), folder / "tests")
    if instance.patch.strip():
        _place(clone, before, clone.patched(instance.base_commit, instance.patch), folder / "solution")
        write(folder / "solution" / "solve.sh", _SOLVES, run=True)
    write(folder / "environment" / "Dockerfile", dockerfile())
    write(folder / "instruction.md", instance.problem_statement.strip() + "\n")
    about = f"{instance.repo or 'a repository'} at {instance.base_commit[:12]}"
    write(folder / "task.toml", toml(f"swebench/{instance.instance_id}", about, SECONDS, ("swebench",)))
    judge = resources.files("stackmem.formats.tasks").joinpath("node_judge.py").read_text("utf-8")
    write(folder / "tests" / "node_judge.py", judge)
    write(folder / "tests" / "record.json", msgspec.json.encode(names).decode() + "\n")
    write(folder / "tests" / "test.sh", _CHECKS, run=True)
    notes = ["what its image would install is not in the sandbox: the tests run with the Python and pytest there"]
    return notes if instance.patch.strip() else [*notes, "it has no patch, so there is no solution to check it by"]


def _place(clone: Clone, before: dict[str, CloneEntry], after: dict[str, CloneEntry], folder: Path) -> None:
    """The files that a patch changes, and a script that puts them into the folder it is run in."""
    changed = {path: entry for path, entry in after.items() if before.get(path) != entry}
    clone.write(changed, folder / "files")
    (folder / "files").mkdir(parents=True, exist_ok=True)
    gone = [path for path in before if path not in after]
    lines = ["#!/bin/sh", "set -eu", 'here=$(cd "$(dirname "$0")" && pwd)']
    lines += [f"rm -f -- {_shell(path)}" for path in gone]
    lines += ['cp -R "$here/files/." .']
    write(folder / "place.sh", "\n".join(lines) + "\n", run=True)


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
