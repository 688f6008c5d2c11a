"""Registry digests of an image (``sha256:...``), verified against the content of an archive.

A manifest names its configuration by digest, and a configuration names its layers by digest. Checking all of them
proves that the layers belong to the digest that a recipe pins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from stackmem.foreign.archives import SavedFiles, layer_digest
from stackmem.foreign.tar import ArchiveBudget
from stackmem.foreign.tree import ArchiveError

_INDEX = "index.json"
_JSON_BYTES = 16 << 20


def checked_pins(files: SavedFiles, config: bytes, layers: Sequence[str], budget: ArchiveBudget) -> tuple[str, ...]:
    """Return the digests of an image from ``docker save``: its manifests, outermost first, then its configuration.

    Empty if the configuration does not state the layers' digests. Raises ``ArchiveError`` if a stated digest is wrong.
    """
    diff_ids = json.loads(config).get("rootfs", {}).get("diff_ids")
    if not diff_ids:
        return ()
    if diff_ids != [layer_digest(files.section(name), structs.replace(budget)) for name in layers]:
        raise ArchiveError("its layers do not have the digests that its configuration states")
    of_config = _digest(config)
    index = json.loads(files.read(_INDEX, _JSON_BYTES)) if _INDEX in files else {}
    return (*_manifests(files, index, of_config, set()), of_config)


def _manifests(files: SavedFiles, index: Any, config: str, seen: set[str]) -> list[str]:
    """Return the digests from an index down to the manifest of a configuration; empty if no manifest names it."""
    for each in index.get("manifests", ()):
        digest = str(each["digest"])
        name = f"blobs/{digest.replace(':', '/', 1)}"
        if digest in seen or name not in files:  # an index also lists other platforms
            continue
        seen.add(digest)
        raw = files.read(name, _JSON_BYTES)
        if _digest(raw) != digest:
            raise ArchiveError(f"{name!a} does not have the digest that its name states")
        inner = json.loads(raw)
        if (inner.get("config") or {}).get("digest") == config:
            return [digest]
        if digests := _manifests(files, inner, config, seen):
            return [digest, *digests]
    return []


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
