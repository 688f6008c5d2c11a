"""Artifacts as the model names them: kept, loaded for the rest of a frame, and shown in what is said."""

from __future__ import annotations

import re
from typing import Any

from stackmem.core.text import clip_chars
from stackmem.languages.frame import artifacts as kept
from stackmem.languages.frame.values import as_text

from .state import AgentState, World

SAID_CHARS = 10 << 20
"""Most characters of one message with the artifacts in it."""
_SHOWN = re.compile(r"Artifact\[([^\]\n]{1,200})\]")

Doing = Any
"""A generator of effects; what it returns stands in each docstring."""


def save(world: World, name: Any, summary: Any, content: Any) -> Doing:
    """Keep a text; gives what went wrong, or nothing."""
    if not isinstance(name, str) or not name.strip():
        return "the name of an artifact must be a text"
    artifact: kept.Artifact = yield from kept.save(name.strip(), content, as_text(summary), world.artifacts)
    if not artifact.failed:
        world.artifacts[artifact.name] = artifact
    return artifact.failed


def load(world: World, agent: AgentState, name: Any) -> Doing:
    """What is shown of an artifact or of a large variable: ``(text, failed)``."""
    if isinstance(name, str) and name[:1] == "$" and name[1:] in agent.variables:
        return clip_chars(as_text(agent.variables[name[1:]]), kept.LOADED_CHARS), ""
    artifact = world.artifacts.get(name.strip()) if isinstance(name, str) else None
    if artifact is None:
        known = ", ".join(world.artifacts) or "none"
        return "", f"there is no artifact {as_text(name)[:80]!r}; known: {known[:1000]}"
    text, failed = yield from kept.load(artifact)
    return f"Summary: {artifact.summary}\n\nContent: {text}", failed


def with_artifacts(world: World, text: str) -> Doing:
    """``(text, failed)``: a text with each ``Artifact[name]`` replaced by its content; each is read once."""
    parts, at, room = [], 0, SAID_CHARS
    read: dict[str, str] = {}
    for found in _SHOWN.finditer(text):
        artifact = world.artifacts.get(found[1].strip())
        if artifact is None:
            return "", f"there is no artifact {found[1]!r}; save it before it is shown"
        if artifact.name not in read:
            content, failed = yield from kept.read(artifact)
            read[artifact.name] = f"({found[0]}: {failed})" if failed else content
        parts += [text[at : found.start()], read[artifact.name]]
        at, room = found.end(), room - len(read[artifact.name])
        if room < 0:
            return "", f"the message with its artifacts has over {SAID_CHARS:,} characters; show fewer"
    return "".join([*parts, text[at:]]), ""
