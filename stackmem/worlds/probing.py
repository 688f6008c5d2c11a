"""Facts that are found by trial: a document lists the candidates, and those that look right first fail."""

from __future__ import annotations

from random import Random

from .kernel import Size, WorldFacts
from .prose import document


def plant(
    rng: Random, size: Size, facts: WorldFacts, key: str, candidates: tuple[str, ...], path: str, title: str
) -> tuple[str, str]:
    """The document's text, and the candidate that is right: never one of the first two."""
    few = size.horizon < 20
    listed = [*candidates[:2], *rng.sample(candidates[2:], len(candidates) - 2)]
    right = listed[2] if few else listed[rng.randrange(2, len(listed))]
    facts.tell(key, right, f"probe {path}")
    line = f"candidate {key}: {' '.join(listed)}"
    sections = [
        ("Background", []),
        ("What has been in use", [line]),
        ("What to know", []),
    ]
    return document(title, rng, sections, size.chars(500)), right
