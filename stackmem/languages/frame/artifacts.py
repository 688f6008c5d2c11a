"""Artifacts: texts that a program keeps under a name.

A short artifact is a chunk. A long one is a file plus a chunk that describes it.

Rule 1: a file is written before the chunk that names it, so a chunk never names a missing file.
Rule 2: a name cannot lead out of its folder, and two names never share a file.
Rule 3: names and descriptions satisfy the heap's rules. An empty text becomes a file, because a chunk cannot be empty.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Any

from msgspec import Struct

from stackmem.core.requests import InvokeTool
from stackmem.core.text import clip_chars, mark_cut
from stackmem.languages.operations import ChunkAnswer, KeepChunk, ReadChunk, ToolAnswer

from .values import as_text

CHUNK_CHARS = 2_000
"""Maximum length of an artifact that is stored as a chunk."""
LOADED_CHARS = 30_000
"""Maximum length shown of an artifact: its head and tail, with a mark between them."""
FOLDER = "artifacts"
_SUMMARY_CHARS = 200
_NAME_CHARS = 64
_STRANGE = re.compile(r"[^A-Za-z0-9_.-]")

Doing = Generator[InvokeTool | KeepChunk | ReadChunk, Any, Any]
"""Each docstring documents the return value. Use with ``yield from``."""


class Artifact(Struct, frozen=True):
    """A text stored under a name."""

    name: str  # as the program spells it
    chunk: str  # name of the heap chunk
    summary: str = ""  # one line, at most 200 characters
    chars: int = 0
    file: str = ""  # workspace path of a long artifact; empty if the chunk is the text itself
    failed: str = ""  # why it was not stored; empty on success


def plain_name(name: str) -> str:
    """Return the chunk and file name of an artifact called ``name``.

    Characters outside ``A-Za-z0-9_.-`` become ``_``, and so does a leading dot or dash.
    """
    plain = _STRANGE.sub("_", name.strip())[:_NAME_CHARS] or "_"
    return f"_{plain[1:]}" if plain[0] in ".-" else plain


def save(name: str, content: Any, summary: str = "", existing: Iterable[str] = ()) -> Doing:
    """Store ``content``, replacing an artifact of the same name. Returns the ``Artifact``.

    ``content`` is a text, or a value that is stored as JSON. ``existing`` are names of the existing artifacts. A
    different name that would produce the same file is refused.
    """
    chunk, text, summary = plain_name(name), as_text(content), _one_line(summary)
    if not name.strip():
        return Artifact(name, chunk, failed="an artifact needs a name")
    other = next((each for each in existing if each.strip() != name.strip() and plain_name(each) == chunk), None)
    if other is not None:
        return Artifact(name, chunk, failed=f"{name[:80]!r} and {other[:80]!r} would be one artifact; rename one")
    chunk_text, file = text, ""
    if not text or len(text) > CHUNK_CHARS:
        file = f"{FOLDER}/{chunk}"
        wrote: ToolAnswer = yield InvokeTool("write_file", {"path": file, "content": text, "parents": True})
        if wrote.failed:
            return Artifact(name, chunk, failed=f"the artifact could not be written: {wrote.detail}")
        chunk_text = f"{summary}\n({len(text):,} characters, in the file {file})".strip()
    answer: ChunkAnswer = yield KeepChunk(chunk, chunk_text, summary, file)
    return Artifact(name, chunk, summary, len(text), file, answer.failed)


def read(artifact: Artifact) -> Doing:
    """Read the full text of an artifact. Returns ``(text, failed)``."""
    if artifact.file:
        answer: ToolAnswer = yield InvokeTool("read_file", {"path": artifact.file})
        return ("", answer.detail or answer.failed) if answer.failed else (as_text(answer.value), "")
    chunk: ChunkAnswer = yield ReadChunk(artifact.chunk)
    return chunk.content, chunk.failed


def load(artifact: Artifact) -> Doing:
    """Read the text shown to a model, at most ``LOADED_CHARS`` long. Returns ``(text, failed)``."""
    text, failed = yield from read(artifact)
    return clip_chars(text, LOADED_CHARS), failed


def _one_line(summary: str) -> str:
    plain = "".join(char if char.isprintable() else " " for char in summary)
    return mark_cut(" ".join(plain.split()), _SUMMARY_CHARS)
