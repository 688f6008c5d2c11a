"""Artifacts: texts under a name, kept on the heap; long ones in a file of the workspace."""

from __future__ import annotations

import re
from typing import Any

from ..effects import ChunkAnswer, InvokeTool, KeepChunk, ReadChunk, ToolAnswer
from ..frame_text import shown
from .session_log import shortened
from .state import AgentState, Artifact, World

CHUNK_CHARS = 2_000
LOADED_CHARS = 30_000
_SUMMARY_CHARS = 300
_NAME_CHARS = 100
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")
_SHOWN = re.compile(r"Artifact\[([^\]\n]{1,200})\]")

Doing = Any
"""A generator of effects; what it returns stands in each docstring."""


def plain_name(name: str) -> str:
    """A name with every other character as ``_``; it never leads out of its folder."""
    return _STRANGE.sub("_", name)[:_NAME_CHARS].lstrip(".") or "_"


def save(world: World, name: Any, summary: Any, content: Any) -> Doing:
    """Keep a text; gives what went wrong, or nothing."""
    if not isinstance(name, str) or not name.strip():
        return "the name of an artifact must be a text"
    chunk, text = plain_name(name.strip()), shown(content)
    clash = next((each for each in world.artifacts if each != name.strip() and plain_name(each) == chunk), None)
    if clash is not None:
        return f"{name[:80]!r} and {clash[:80]!r} would be one file; rename one"
    said, file = shown(summary)[:_SUMMARY_CHARS], ""
    kept = text
    if len(text) > CHUNK_CHARS:
        file = f"artifacts/{chunk}"
        wrote: ToolAnswer = yield InvokeTool("write_file", {"path": file, "content": text, "parents": True})
        if wrote.failed:
            return f"the artifact could not be written: {wrote.detail}"
        kept = f"{said}\n({len(text):,} characters, in the file {file})"
    answer: ChunkAnswer = yield KeepChunk(chunk, kept, said, file)
    if answer.failed:
        return answer.failed
    world.artifacts[name.strip()] = Artifact(name.strip(), said, len(text), file)
    return ""


def content_of(world: World, artifact: Artifact) -> Doing:
    """``(text, failed)`` of an artifact, whole."""
    if artifact.file:
        read: ToolAnswer = yield InvokeTool("read_file", {"path": artifact.file})
        return (shown(read.value), "") if not read.failed else ("", read.detail)
    answer: ChunkAnswer = yield ReadChunk(plain_name(artifact.name))
    return answer.content, answer.failed


def load(world: World, agent: AgentState, name: Any) -> Doing:
    """What is shown of an artifact or of a large variable: ``(text, failed)``."""
    if isinstance(name, str) and name[:1] == "$" and name[1:] in agent.variables:
        return shortened(shown(agent.variables[name[1:]]), LOADED_CHARS), ""
    artifact = world.artifacts.get(name) if isinstance(name, str) else None
    if artifact is None:
        known = ", ".join(world.artifacts) or "none"
        return "", f"there is no artifact {shown(name)[:80]!r}; known: {known[:1000]}"
    text, failed = yield from content_of(world, artifact)
    return f"Summary: {artifact.summary}\n\nContent: {shortened(text, LOADED_CHARS)}", failed


def with_artifacts(world: World, text: str) -> Doing:
    """``(text, unknown)``: a text with each ``Artifact[name]`` replaced by its content, and names that are none."""
    parts, at, unknown = [], 0, []
    for found in _SHOWN.finditer(text):
        artifact = world.artifacts.get(found[1])
        if artifact is None:
            unknown.append(found[1])
            continue
        content, failed = yield from content_of(world, artifact)
        parts += [text[at : found.start()], content or f"(Artifact[{found[1]}]: {failed})"]
        at = found.end()
    return "".join([*parts, text[at:]]), unknown
