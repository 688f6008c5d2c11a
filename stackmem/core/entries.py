"""A chunk as a call stores it along the way."""

from __future__ import annotations

from msgspec import Struct


class StoreEntry(Struct, frozen=True):
    """The parameters of ``heap_alloc``, which say what each is."""

    name: str
    content: str
    description: str = ""
    source: str = ""
