"""The parameters of a playbook's heading: ``$name``, ``$name:type``, ``$name=literal``."""

from __future__ import annotations

import re

from .faults import PlaybookError
from .literals import CallTo, LiteralFault, Reader, Variable
from .nodes import Param, Required

_NAME = re.compile(r"\s*+\$?([A-Za-z_]\w*)\s*+(?::\s*+([A-Za-z_][\w\[\] |.]*+)\s*+(?=[,=]|$))?\s*+")


def params_of(text: str, line: int) -> tuple[Param, ...]:
    """The parameters, in their order.

    Raises:
        PlaybookError: One is none, or two have one name.

    """
    found: dict[str, Param] = {}
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _NAME.match(text, at)
        if not match:
            told = f"{text[at : at + 200].strip()[:80]!r} is no parameter; write `$name`"
            raise PlaybookError("Bad Heading", told, line)
        at = match.end()
        default = Required
        if text[at : at + 1] == "=":
            reader = Reader(text, at + 1)
            try:
                default = reader.value()
            except LiteralFault as fault:
                raise PlaybookError("Bad Heading", f"the default of ${match[1]}: {fault}", line) from fault
            if isinstance(default, Variable | CallTo):
                raise PlaybookError("Bad Heading", f"the default of ${match[1]} must be a literal", line)
            at = reader.skip_space()
        if text[at : at + 1] not in ("", ","):
            told = f"a comma belongs before {text[at : at + 200].strip()[:80]!r}"
            raise PlaybookError("Bad Heading", told, line)
        at += 1
        if match[1] in found:
            raise PlaybookError("Bad Heading", f"two parameters are called ${match[1]}; rename one", line)
        found[match[1]] = Param(match[1], (match[2] or "").rstrip(), default)
    return tuple(found.values())
