"""Import tasks of Harbor, one or a folder of them, and report what cannot be converted.

By default a task keeps its image. With ``hosted``, the files that its Dockerfile copies into the working directory are
taken, and the other instructions are listed in the notes.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.foreign.files import copy_regular, read_regular

from .folder import ImportedTask, TaskRefused, make

_OURS = "/workspace"
_TRAJECTORY = "trajectory.json is not passed to the agent: a run starts with only the task"
_MAX_FILE_BYTES = 16 << 30
_BUILT_FROM = ("environment", "environment/workspace", "environment/Dockerfile")
"""Paths that are read or written after a task was copied."""
_LEFT_BEHIND = shutil.ignore_patterns(".git", "__pycache__")


def from_harbor(
    path: Path, out: Path, repo: Path | None = None, *, hosted: bool = False
) -> Iterator[ImportedTask | TaskRefused]:
    """Yield a task for each folder with a task.toml: ``path`` itself, or its subfolders.

    Raise UsageError if there is no such folder.

    Args:
        hosted: Use this machine's tools.
    """
    folders = [path] if (path / "task.toml").is_file() else sorted(config.parent for config in path.glob("*/task.toml"))
    if not folders:
        raise UsageError(f"no task.toml in {path} or its subfolders; name a task of Harbor, or a folder of tasks")
    for folder in folders:
        yield make(folder.resolve().name, out, partial(_fill if hosted else _copy, folder))


def _refuse_links(source: Path) -> None:
    """Raise ``UsageError`` if stackmem would read or write outside the copy of a task."""
    for name in _BUILT_FROM:
        if (source / name).is_symlink():
            raise UsageError(f"{name} is a link; put the file or folder itself into the task")


def _copy(source: Path, target: Path) -> list[str]:
    _refuse_links(source)
    _copy_tree(source, target, _LEFT_BEHIND)
    return [_TRAJECTORY] if (target / "trajectory.json").is_file() else []


def _fill(source: Path, target: Path) -> list[str]:
    _refuse_links(source)
    _copy_tree(source, target, _LEFT_BEHIND)
    recipe = read_dockerfile(target / "environment" / "Dockerfile")
    notes = []
    if not (target / "environment" / "workspace").is_dir():
        notes += _workspace(target / "environment", recipe)
        (target / "environment" / "workspace").mkdir(parents=True, exist_ok=True)
    if recipe.undone:
        examples = "; ".join(line[:80] for line in recipe.undone[:3])
        more = f" and {len(recipe.undone) - 3} more" if len(recipe.undone) > 3 else ""
        notes.append(f"environment/Dockerfile sets up things that the sandbox lacks: {examples}{more}")
    notes += [
        f"environment/{name} starts services, which the sandbox does not support"
        for name in ("docker-compose.yaml", "docker-compose.yml")
        if (target / "environment" / name).is_file()
    ]
    workdir = recipe.workdir
    if workdir not in ("/", _OURS):
        mentioning = [
            name for name in ("instruction.md", "tests/test.sh", "solution/solve.sh") if _names(target / name, workdir)
        ]
        if mentioning:
            notes.append(f"{', '.join(mentioning)} mention {workdir}, which is {_OURS} here; change them")
    if (target / "trajectory.json").is_file():
        notes.append(_TRAJECTORY)
    return notes


def _copy_tree(source: Path, target: Path, ignore: Callable[[str, list[str]], set[str]] | None) -> None:
    """Copy a folder. Links stay links, and only regular files of limited size are read."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignore, copy_function=_copy_file)


def _copy_file(source: str | Path, target: str | Path) -> None:
    if Path(source).is_symlink():
        shutil.copy2(source, target, follow_symlinks=False)
        return
    copy_regular(source, target, _MAX_FILE_BYTES)
    shutil.copystat(source, target)


def _workspace(environment: Path, recipe: Recipe) -> list[str]:
    """Put the files that the image would copy into its working directory into the workspace."""
    notes = []
    work = environment / "workspace"
    for source, target in recipe.copies:
        matches = _matching(environment, source)
        safe = [match_path for match_path in matches if match_path.resolve().is_relative_to(environment.resolve())]
        if not safe:
            notes.append(f"environment/Dockerfile copies {source}, which does not exist")
        for match_path in safe:
            destination = work / target
            _refuse_through_links(work, destination, match_path)
            if match_path.is_dir():
                ignored = shutil.ignore_patterns("workspace", "Dockerfile") if match_path == environment else None
                _copy_tree(match_path, destination, ignored)
            else:
                to_folder = target.endswith("/") or destination.is_dir()
                destination = destination / match_path.name if to_folder else destination
                destination.parent.mkdir(parents=True, exist_ok=True)
                _copy_file(match_path, destination)
    return notes


def _matching(environment: Path, source: str) -> list[Path]:
    if not source.strip("./"):
        return [environment]
    try:
        return sorted(environment.glob(source.lstrip("/")))
    except (ValueError, NotImplementedError):  # Docker's patterns differ from Python's
        return []


def _refuse_through_links(work: Path, destination: Path, source: Path) -> None:
    """Raise if the target is behind a link, because an earlier COPY may have created links that lead outside."""
    inside = [path for path in (destination, *destination.parents) if path.is_relative_to(work)]
    targets = (
        [destination / inner.relative_to(source) for inner in source.rglob("*")]
        if source.is_dir()
        else [destination / source.name]
    )
    for path in (*inside, *targets):
        if path.is_symlink():
            raise UsageError(
                f"environment/Dockerfile copies onto {path.relative_to(work)}, which is a link; put the files "
                "themselves into environment/workspace"
            )


def _names(file: Path, folder: str) -> bool:
    try:
        text = read_regular(file).decode("utf-8", "replace")
    except OSError:
        return False
    return re.search(rf"(?<![\w/.-]){re.escape(folder)}(?![\w-])", text) is not None


_LOGICAL = re.compile(r"\\[ \t]*\n")
_SILENT = {"FROM", "WORKDIR", "COPY", "ADD", "ENV", "LABEL", "CMD", "ENTRYPOINT", "EXPOSE", "ARG", "SHELL", "USER"}


class Recipe(Struct, frozen=True):
    """The relevant parts of a Dockerfile."""

    workdir: str  # the last WORKDIR, by default ``/``
    # source in the build context, and target below ``workdir``, with ``.`` for ``workdir``
    copies: tuple[tuple[str, str], ...]
    undone: tuple[str, ...]  # instructions with effects outside the working directory, verbatim


def read_dockerfile(path: Path) -> Recipe:
    """Parse a Dockerfile. A missing file is treated as empty."""
    text = read_regular(path).decode("utf-8", "replace") if path.is_file() else ""
    lines = [line.strip() for line in _LOGICAL.sub(" ", text).splitlines()]
    instructions = [line for line in lines if line and not line.startswith("#")]
    here = "/"
    copied: list[tuple[str, str]] = []
    undone: list[str] = []
    for line in instructions:
        word, _, rest = line.partition(" ")
        match word.upper():
            case "WORKDIR":
                here = str(PurePosixPath(here, rest.strip().strip("\"'")))
            case "COPY" | "ADD":
                copied += _copied(rest, here)
                undone += [] if _copied(rest, here) else [line]
            case other if other not in _SILENT:
                undone.append(line)
    copies = tuple((source, _inside(target, here)) for source, target in copied if _inside(target, here))
    undone += [f"COPY {source} {target}" for source, target in copied if not _inside(target, here)]
    return Recipe(here, copies, tuple(undone))


def _copied(rest: str, here: str) -> list[tuple[str, str]]:
    """Return source and absolute target of each file in a COPY line; empty if it copies from elsewhere."""
    try:
        words = shlex.split(rest)
    except ValueError:
        return []
    flags = [word for word in words if word.startswith("--")]
    words = [word for word in words if not word.startswith("--")]
    if len(words) < 2 or any(flag.startswith("--from") for flag in flags) or any("://" in word for word in words):
        return []
    *sources, target = words
    to_folder = target.endswith("/") or target == "." or len(sources) > 1
    return [(source, str(PurePosixPath(here, target)) + ("/" if to_folder else "")) for source in sources]


def _inside(target: str, workdir: str) -> str:
    """Return the target relative to the working directory; empty if it is outside."""
    path = PurePosixPath(target)
    if not path.is_relative_to(workdir) or workdir == "/" or ".." in path.parts:
        return ""
    return f"{path.relative_to(workdir)}{'/' if target.endswith('/') else ''}"
