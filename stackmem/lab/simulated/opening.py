"""Open a simulated model by the variant in its name."""

from __future__ import annotations

from stackmem.core.errors import UsageError

from .dials import PERFECT, SETTINGS, ReaderDials, read_dial
from .reader import BoundedReader
from .sight import VARIANTS


def open_simulated(variant: str, window_tokens: int, name: str) -> BoundedReader:
    """Open the model ``sim/NAME:VARIANT``. Several words of a variant are joined with ``+``."""
    policy, dials = VARIANTS[0], PERFECT
    for word in filter(None, variant.split("+")):
        turned = read_dial(dials, word)
        if turned is not None:
            dials = turned
        elif word in VARIANTS:
            policy = word
        else:
            choices = ", ".join((*VARIANTS, *SETTINGS, *(f"{field}=SHARE" for field in ReaderDials.__struct_fields__)))
            raise UsageError(f"sim/{name} has no variant {word[:80]!r}; use some of {choices}, joined with +")
    return BoundedReader(policy, window_tokens, dials)
