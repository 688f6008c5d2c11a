"""``{{slots}}`` in prompt text: strict, because a prompt with a hole in it is a silent fault."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SLOT = re.compile(r"\{\{\s*([a-z_0-9]+)\s*\}\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """``template`` with every slot replaced.

    Raises:
        KeyError: The template has a slot that ``values`` does not name.

    """
    return _SLOT.sub(lambda slot: values[slot.group(1)], template)


def slots_of(template: str) -> set[str]:
    return set(_SLOT.findall(template))
