"""Build task folders: written to a scratch folder, validated like any task, and moved into place atomically."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.run.tasks.reader import read_task


class ImportedTask(Struct, frozen=True):
    """A task folder that was created."""

    name: str
    folder: Path
    notes: tuple[str, ...]  # parts of the original that could not be converted, one sentence each


class TaskRefused(Struct, frozen=True):
    """Something that could not become a task. No files of it remain."""

    name: str
    reason: str


def make(name: str, out: Path, fill: Callable[[Path], list[str]]) -> ImportedTask | TaskRefused:
    """Create a task. ``fill`` writes it into the folder it receives and returns its notes.

    A task that cannot be created, or that stackmem would refuse to read, is refused.
    """
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")[:120] or "task"
    target = out / plain
    if target.exists() or target.is_symlink():
        return TaskRefused(plain, f"{target} exists already; remove it, or name another folder with -o")
    scratch: Path | None = None
    try:
        out.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{plain[:40]}-", dir=out.absolute()))
        folder = scratch / plain
        folder.mkdir()
        notes = fill(folder)
        read = read_task(folder)
        notes += [sentence.replace(f"{folder}/", "") for sentence in read.warnings]
        folder.rename(target)
    except UsageError as error:
        return TaskRefused(plain, str(error).replace(f"{scratch}/", ""))
    except UnicodeDecodeError as error:
        return TaskRefused(
            plain, f"one of its texts is not UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        )
    except (OSError, shutil.Error) as error:
        return TaskRefused(plain, f"it cannot be copied ({error}); free some space or check the permissions of {out}")
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return ImportedTask(plain, target, tuple(dict.fromkeys(notes)))


def write(path: Path, text: str, *, run: bool = False) -> None:
    """Write a file and create its parent folders. ``run`` makes it executable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755 if run else 0o644)


def write_judge(tests: Path, groups: Mapping[str, list[str]], steering: list[str] | None = None) -> None:
    """Write the pytest judge and the record of tests that must pass.

    Args:
        groups: Name to the ids of tests, relative to the workspace.
        steering: Paths of files that may control pytest. With None, pytest runs without any, and all tests that it
            reports must pass.
    """
    record = {"groups": groups, "whole": steering is None, "settings": steering is not None, "steering": steering or []}
    write(tests / "record.json", msgspec.json.encode(record).decode() + "\n")
    judge = resources.files("stackmem.formats.tasks").joinpath("pytest_judge.py").read_text("utf-8")
    write(tests / "pytest_judge.py", judge)


def toml(name: str, description: str, seconds: float, keywords: tuple[str, ...]) -> str:
    """Return a task.toml without network access, with ``seconds`` as the time limit of its checks."""
    words = ", ".join(map(quoted, keywords))
    return (
        f'schema_version = "1.4"\n\n[task]\nname = {quoted(name)}\ndescription = {quoted(description)}\n'
        f"keywords = [{words}]\n\n[verifier]\ntimeout_sec = {seconds}\n\n"
        '[environment]\nworkdir = "/workspace"\nnetwork_mode = "no-network"\n'
    )


PYTHON = 'FROM python:3.12-slim\nRUN pip install --no-cache-dir "pytest>=8,<10"'
"""The start of a Dockerfile whose tests need Python."""


def dockerfile(begins: str = PYTHON) -> str:
    """Return a Dockerfile for Harbor. Stackmem's sandbox does not read it."""
    return f"{begins}\nCOPY workspace/ /workspace/\nWORKDIR /workspace\n"


def quoted(text: str) -> str:
    """Return the text as a TOML basic string."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def beneath(folder: Path, name: object) -> Path:
    """Return the path of a file named by an untrusted record, which must be a regular file inside the folder.

    Raise UsageError if the path does not exist, or leads out of the folder.
    """
    relative = PurePosixPath(name) if isinstance(name, str) and name and "\0" not in name else None
    if relative is None or relative.is_absolute() or ".." in relative.parts:
        raise UsageError(f"{folder} names {name!r} as a file; give paths inside the folder")
    path = folder / relative
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise UsageError(f"{name!r} is not a file in {folder}; the folder is incomplete")
    return path
