"""A chunk as a call stores it along the way."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class StoreEntry(Struct, frozen=True):
    name: Annotated[str, Meta(description="Chunk name: letters, digits, _ . - / (at most {{name_chars}}).")]
    content: Annotated[str, Meta(description="What to keep.")]
    description: Annotated[str, Meta(description="One line for the heap index.")] = ""
    source: Annotated[str, Meta(description="Workspace file that the content describes, if any.")] = ""


Store = Annotated[
    tuple[StoreEntry, ...],
    Meta(description="Chunks to store on the heap in this same step; existing names are overwritten; all or none."),
]
