"""``stackheap_lossless``: as ``stackheap``, and a popped frame can still be asked.

``heap_read`` with the name ``frame:NAME`` and a query shows the passages of that frame's conversation that fit best. It
answers the one thing that clean frames lose, at the price of a call. It takes the parameters of ``stackheap``. Source:
our own.
"""

from __future__ import annotations

from .shared.offers import READ_FRAMES
from .stackheap import StackHeap, configured


def stackheap_lossless(parameters: str) -> StackHeap:
    return configured("stackheap_lossless", parameters, READ_FRAMES, "+lossless")
