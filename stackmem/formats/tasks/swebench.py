"""Import instances of SWE-bench from a local clone: the repository at its commit, with the record's tests as checks.

The dependencies from a record's image are missing, because the tests run with the sandbox's Python and pytest. Only
records with pytest tests can be imported, and only repositories without further dependencies can pass.

Source: SWE-bench's dataset guide and harness, autumn 2026.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular

from .folder import ImportedTask, TaskRefused, dockerfile, make, toml, write, write_judge
from .pytest_judge import STEERS

SECONDS = 1_800.0
"""Time limit of the tests; SWE-bench's default."""

_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_CHECKS = """#!/bin/sh
# Copies the record's tests into place and runs those that it names.
set -u
tests=${TESTS_DIR:-/tests}
verifier=${VERIFIER_DIR:-/logs/verifier}
unset PYTEST_ADDOPTS PYTEST_PLUGINS PYTHONSTARTUP
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$verifier"
rm -f "$verifier/reward.txt" "$verifier/reward.json"
sh "$tests/place.sh"
python -P "$tests/pytest_judge.py" "$tests/record.json" "$verifier"
"""
_SOLVES = """#!/bin/sh
set -eu
sh "$(dirname "$0")/place.sh"
"""


class Instance(Struct, frozen=True):
    """One record. The two lists of tests can be JSON text, as in the published tables."""

    instance_id: str
    base_commit: str
    problem_statement: str
    test_patch: str
    FAIL_TO_PASS: list[str] | str
    PASS_TO_PASS: list[str] | str
    patch: str = ""
    repo: str = ""


def from_swebench(path: Path, out: Path, repo: Path | None) -> Iterator[ImportedTask | TaskRefused]:
    """Yield a task for each record of a ``.json`` or ``.jsonl`` file.

    Raise UsageError if the file has no records, or the clone is missing.
    """
    if repo is None:
        raise UsageError("a SWE-bench record needs the repository; name a local clone of it with --repo")
    records = _records(path)
    if not records:
        raise UsageError(f"{path} does not contain records; name a .json or .jsonl file with records")
    for record in records:
        try:
            instance = msgspec.convert(record, Instance)
        except msgspec.ValidationError as error:
            instance_id = record.get("instance_id") if isinstance(record, dict) else None
            yield TaskRefused(str(instance_id or "a record"), f"it does not match SWE-bench's format: {error}")
            continue
        yield make(instance.instance_id, out, partial(_fill, instance, repo))


def _records(path: Path) -> list[Any]:
    try:
        raw = read_regular(path)
        try:
            value = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return [msgspec.json.decode(line) for line in raw.splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name a .json or .jsonl file with records"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid JSON ({error}); name a .json or .jsonl file with records") from error
    if isinstance(value, dict) and "instance_id" not in value:
        return list(value.values())
    return value if isinstance(value, list) else [value]


def _tests(instance: Instance, kind: str) -> list[str]:
    listing = getattr(instance, kind)
    try:
        names = decode_json(listing, list[str]) if isinstance(listing, str) else listing
    except msgspec.DecodeError as error:
        raise UsageError(f"its {kind} is not a list of tests ({error})") from error
    foreign = [name for name in names if "::" not in name or not name.split("::")[0].endswith(".py")]
    if foreign:
        raise UsageError(f"its {kind} names {foreign[0]!r}, which is not a pytest test; other tests cannot run here")
    return names


def _fill(instance: Instance, repo: Path, folder: Path) -> list[str]:
    names = {kind: _tests(instance, kind) for kind in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    if not names["FAIL_TO_PASS"]:
        raise UsageError("its FAIL_TO_PASS is empty: doing nothing would solve it")
    if not _COMMIT.fullmatch(instance.base_commit):
        raise UsageError(f"its base_commit {instance.base_commit[:80]!r} is not a commit id")
    if not repo.is_dir():
        raise UsageError(f"the clone {repo} is not a folder; name a local clone with --repo")
    clone = Clone(repo, folder.parent / "clone")
    before = clone.files(instance.base_commit)
    (folder / "environment" / "workspace").mkdir(parents=True)
    clone.write(before, folder / "environment" / "workspace")
    tested = clone.patched(instance.base_commit, instance.test_patch)
    solved = clone.patched(instance.base_commit, instance.patch) if instance.patch.strip() else before
    files = {name.split("::")[0] for group in names.values() for name in group}
    steering = {path for path in {**tested, **solved} if STEERS.fullmatch(PurePosixPath(path).name)}
    theirs = {path for path in steering if solved.get(path) != before.get(path)}
    _write_patch(clone, before, tested, folder / "tests", files | steering - theirs)
    if instance.patch.strip():
        _write_patch(clone, before, solved, folder / "solution")
        write(folder / "solution" / "solve.sh", _SOLVES, run=True)
    write(folder / "environment" / "Dockerfile", dockerfile())
    write(folder / "instruction.md", instance.problem_statement.strip() + "\n")
    description = f"{instance.repo or 'a repository'} at {instance.base_commit[:12]}"
    write(folder / "task.toml", toml(f"swebench/{instance.instance_id}", description, SECONDS, ("swebench",)))
    write_judge(folder / "tests", names, sorted(steering))
    write(folder / "tests" / "test.sh", _CHECKS, run=True)
    notes = ["the dependencies of its image are not installed: the tests use the sandbox's Python and pytest"]
    return notes if instance.patch.strip() else [*notes, "it has no patch, so it cannot be checked with a solution"]


def _write_patch(
    clone: Clone,
    before: dict[str, CloneEntry],
    after: dict[str, CloneEntry],
    folder: Path,
    also: Collection[str] = (),
) -> None:
    """Write the files that a patch changes, additional files by name, and a script that copies them into its folder."""
    changed = {path: entry for path, entry in after.items() if before.get(path) != entry or path in also}
    clone.write(changed, folder / "files")
    (folder / "files").mkdir(parents=True, exist_ok=True)
    removed = [path for path in before if path not in after]
    lines = ["#!/bin/sh", "set -eu", 'here=$(cd "$(dirname "$0")" && pwd)']
    lines += [f"rm -f -- {_shell(path)}" for path in removed]
    lines += ['cp -R "$here/files/." .']
    write(folder / "place.sh", "\n".join(lines) + "\n", run=True)


def _shell(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


_SECONDS = 300
_SAFE = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "safe.directory=*", "core.protectNTFS=false")


class CloneEntry(Struct, frozen=True):
    """A file of a git tree: its mode, the id of its content, and its path."""

    mode: str
    id: str
    path: str


class Clone:
    """A local clone with a separate object store for the results of patches."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        """Raise ``UsageError`` if ``folder`` is not a repository or git is missing."""
        self._program = shutil.which("git") or ""
        if not self._program:
            raise UsageError("git is not installed; install it to read a clone")
        self._folder = folder
        self._objects = scratch / "objects"
        self._objects.mkdir(parents=True)
        self._index = scratch / "index"
        self._own: Path | None = None
        self._own = Path(self._git("rev-parse", "--path-format=absolute", "--git-path", "objects").decode().strip())

    def files(self, commit: str) -> dict[str, CloneEntry]:
        """Return every file of a commit by path, without submodules.

        Raise UsageError if the clone does not contain the commit.
        """
        try:
            listing = self._git("ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{commit}}")
        except UsageError as error:
            raise UsageError(f"the clone {self._folder} does not have the commit {commit}; fetch it there") from error
        return _entries(listing)

    def patched(self, commit: str, *patches: str) -> dict[str, CloneEntry]:
        """Return every file of the commit after applying the patches in order.

        Raise UsageError if a patch does not apply.
        """
        self._index.unlink(missing_ok=True)
        self._git("read-tree", f"{commit}^{{commit}}")
        for patch in filter(str.strip, patches):
            text = patch if patch.endswith("\n") else f"{patch}\n"
            self._git("apply", "--cached", "--whitespace=nowarn", "-", stdin=text.encode("utf-8", "surrogateescape"))
        listing = self._git("ls-files", "-s", "-z")
        return _entries(listing, id_at=1)

    def write(self, entries: dict[str, CloneEntry], folder: Path) -> None:
        """Write the files. Links are written last, so that no file is written through a link."""
        contents = self._contents({entry.id for entry in entries.values()})
        for entry in sorted(entries.values(), key=lambda each: (each.mode == "120000", each.path)):
            path, content = folder / entry.path, contents[entry.id]
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.mode == "120000":
                path.symlink_to(os.fsdecode(content))
            else:
                path.write_bytes(content)
                path.chmod(0o755 if entry.mode == "100755" else 0o644)

    def _contents(self, ids: set[str]) -> dict[str, bytes]:
        """Return the content of each object from git's batch output: ``ID blob SIZE``, newline, the bytes, newline."""
        output = self._git("cat-file", "--batch", stdin="".join(f"{object_id}\n" for object_id in sorted(ids)).encode())
        contents, at = {}, 0
        while at < len(output):
            end = output.index(b"\n", at)
            name, kind, *size = output[at:end].decode().split()
            if kind == "missing":
                raise UsageError(f"the clone {self._folder} lacks the object {name}; fetch all of it there")
            if kind != "blob":
                raise UsageError(f"the object {name} of {self._folder} is not a file's content")
            length = int(size[0])
            contents[name] = output[end + 1 : end + 1 + length]
            at = end + 2 + length
        return contents

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        settings = [word for setting in _SAFE for word in ("-c", setting)]
        environment = {
            "PATH": os.defpath, "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none",
            "GIT_INDEX_FILE": str(self._index),
        }  # fmt: skip
        if self._own is not None:
            environment |= {
                "GIT_OBJECT_DIRECTORY": str(self._objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._own)
            }  # fmt: skip
        try:
            process = subprocess.run(
                [self._program, *settings, *arguments], cwd=self._folder, env=environment, input=stdin,
                capture_output=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"git cannot read {self._folder} ({error}); name a local clone with --repo") from error
        if process.returncode:
            error_lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UsageError(
                f"git {arguments[0]} failed in {self._folder}: {error_lines[0][:300] if error_lines else 'no message'}"
            )
        return process.stdout


def _entries(listing: bytes, id_at: int = 2) -> dict[str, CloneEntry]:
    entries = {}
    for line in filter(None, listing.split(b"\0")):
        head, _, name = line.partition(b"\t")
        words = head.decode().split()
        path = os.fsdecode(name)
        parts = PurePosixPath(path).parts
        if ".." in parts or PurePosixPath(path).is_absolute() or any(part.lower() == ".git" for part in parts):
            raise UsageError(f"the repository contains a file named {path!r}, which is outside it")
        if words[0] != "160000" and len(words) == 3:
            entries[path] = CloneEntry(words[0], words[id_at], path)
    return entries
