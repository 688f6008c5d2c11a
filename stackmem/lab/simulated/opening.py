"""Opens a simulated model by the variant that its name asks for."""

from __future__ import annotations

from stackmem.errors import UsageError

from .dials import PERFECT, SETTINGS, ReaderDials, read_dial
from .reader import BoundedReader
from .sight import VARIANTS


def open_simulated(variant: str, window_tokens: int, name: str) -> BoundedReader:
    """Open the model ``sim/NAME:VARIANT``; the words of a variant are joined by ``+``."""
    policy, dials = VARIANTS[0], PERFECT
    for word in filter(None, variant.split("+")):
        turned = read_dial(dials, word)
        if turned is not None:
            dials = turned
        elif word in VARIANTS:
            policy = word
        else:
            known = ", ".join((*VARIANTS, *SETTINGS, *(f"{field}=SHARE" for field in ReaderDials.__struct_fields__)))
            raise UsageError(f"sim/{name} has no variant {word[:80]!r}; there are {known}, with + between")
    return BoundedReader(policy, window_tokens, dials)
