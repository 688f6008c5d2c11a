"""Offers skills to a run: on the heap, in the agent's instructions, and their other files to commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from stackmem.core.guidance.skills import Skill, advice
from stackmem.core.strategy import MemoryStrategy
from stackmem.core.tools import HeapRead, tool_name
from stackmem.foreign.files import digest_of_regular
from stackmem.workspace.profile import Mount
from stackmem.workspace.project.skills import own_skill_file

_MAX_BYTES = 8 << 20


def offered(skills: tuple[Skill, ...], strategy: MemoryStrategy, *, small: bool) -> tuple[tuple[Skill, ...], str]:
    """Return the skills to put on the heap, and the text for the agent's instructions.

    A small model gets none, because its window is short. A strategy without a heap names the project's files.
    """
    if small:
        return (), ""
    if tool_name(HeapRead) in map(tool_name, strategy.tools):
        return skills, advice(skills, heap=True)
    return (), advice(tuple(skill for skill in skills if not skill.own), heap=False)


def scrubbed(skill: Skill, scrub: Callable[[str], str]) -> Skill:
    return replace(skill, description=scrub(skill.description), content=scrub(skill.content))


def skill_mounts(skills: tuple[Skill, ...], folder: Path | None, environ: Mapping[str, str]) -> tuple[Mount, ...]:
    """Return read-only mounts for the folders of the user's skills that have other files.

    A folder in the workspace, or one that contains it, is not mounted, because a mount point there could be moved.
    """
    places = []
    for skill in skills:
        file = own_skill_file(skill.source, environ) if skill.files else None
        if file is None or not file.is_file():
            continue
        parent = file.parent
        inside = folder is not None and (parent.is_relative_to(folder) or folder.is_relative_to(parent))
        if not inside and parent != Path("/"):
            places.append(str(parent))
    return tuple(Mount(path, path) for path in dict.fromkeys(places))


def own_digests(skills: tuple[Skill, ...], environ: Mapping[str, str]) -> Callable[[str], str | None]:
    """Return a function that computes the digest of one of the user's skills, or None for any other path.

    It reads only these files, because an agent chooses the sources of its chunks.
    """
    files = {skill.source: file for skill in skills if (file := own_skill_file(skill.source, environ)) is not None}
    return partial(_own_digest, files)


def _own_digest(files: Mapping[str, Path], source: str) -> str | None:
    file = files.get(source)
    if file is None:
        return None
    try:
        return digest_of_regular(file, _MAX_BYTES)
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError):
        return "unknown"
