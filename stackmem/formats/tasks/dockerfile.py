"""What a Dockerfile copies into its working directory, and what it does that a sandbox without images does not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

from msgspec import Struct

_LOGICAL = re.compile(r"\\[ \t]*\n")
_SILENT = {"FROM", "WORKDIR", "COPY", "ADD", "ENV", "LABEL", "CMD", "ENTRYPOINT", "EXPOSE", "ARG", "SHELL", "USER"}


class Recipe(Struct, frozen=True):
    """What was read.

    Attributes:
        workdir: The last one named; ``/`` where none is.
        copies: Source in the build's folder, and target below ``workdir``; ``.`` for itself.
        undone: Lines that set up what stands outside of the working directory, as they are written.
    """

    workdir: str
    copies: tuple[tuple[str, str], ...]
    undone: tuple[str, ...]


def read_dockerfile(path: Path) -> Recipe:
    """The recipe; a file that is not there is an empty one."""
    text = path.read_text("utf-8", "replace") if path.is_file() else ""
    lines = [line.strip() for line in _LOGICAL.sub(" ", text).splitlines()]
    told = [line for line in lines if line and not line.startswith("#")]
    here = "/"
    found: list[tuple[str, str]] = []
    undone: list[str] = []
    for line in told:
        word, _, rest = line.partition(" ")
        match word.upper():
            case "WORKDIR":
                here = str(PurePosixPath(here, rest.strip().strip("\"'")))
            case "COPY" | "ADD":
                found += _copied(rest, here)
                undone += [] if _copied(rest, here) else [line]
            case other if other not in _SILENT:
                undone.append(line)
    copies = tuple((source, _below(target, here)) for source, target in found if _below(target, here))
    undone += [f"COPY {source} {target}" for source, target in found if not _below(target, here)]
    return Recipe(here, copies, tuple(undone))


def _copied(rest: str, here: str) -> list[tuple[str, str]]:
    """Source and absolute target of each file of one line; none where it takes them from elsewhere."""
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


def _below(target: str, workdir: str) -> str:
    """The target as seen from the working directory; empty where it is elsewhere."""
    path = PurePosixPath(target)
    if not path.is_relative_to(workdir) or workdir == "/" or ".." in path.parts:
        return ""
    return f"{path.relative_to(workdir)}{'/' if target.endswith('/') else ''}"
