"""Request options that a run sends with every prompt: temperature, effort, service tier, headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from stackmem.core.errors import UsageError

_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100})=(.*)", re.DOTALL)
_OURS = {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"}
_SECRET = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_HOTTEST = 2.0


class Asked(Struct, frozen=True):
    """The user's request options; None leaves a choice to the provider."""

    temperature: float | None = None
    effort: str | None = None
    service_tier: str | None = None
    headers: Mapping[str, str] = {}  # name to value; values may be secrets
    # "auto" reads calls from the text of replies without native calls, "prompt" also describes the tools in the
    # prompt, "off" disables both
    text_calls: Literal["auto", "prompt", "off"] = "auto"
    # "on" makes the server follow a call schema where a call is required; "auto" does so for local servers after a
    # reply without a native call
    call_schema: Literal["auto", "on", "off"] = "auto"
    vision: Literal["auto", "on", "off"] = "auto"  # whether the model gets images

    def __repr__(self) -> str:
        return f"Asked(temperature={self.temperature}, effort={self.effort!r}, headers={[*self.headers]})"


NOTHING_ASKED = Asked()


def read_temperature(text: str | None) -> float | None:
    """Parse a temperature; raise ``UsageError`` if the text is not one."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _HOTTEST:
        raise UsageError(f"--temperature {text[:40]!r} is out of range; use a number from 0 to {_HOTTEST:g}, or none")
    return value


def read_headers(texts: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Parse ``NAME=VALUE``, or ``NAME=$VARIABLE`` for a value that is read from the environment and never stored.

    Raise UsageError if a text is not a header, the header is one that the protocol needs, or its variable is not set.
    """
    headers: dict[str, str] = {}
    for text in texts:
        match = _HEADER.fullmatch(text)
        name = match.group(1) if match else text.partition("=")[0][:80]
        if match is None or name.lower() in _OURS:
            raise UsageError(f"--headers {name!r} cannot be set; write NAME=VALUE, or NAME=$VARIABLE for a secret")
        value = match.group(2)
        if _SECRET.search(name) and not value.startswith("$"):
            raise UsageError(
                f"--headers {name!r} looks like a secret; write {name}=$VARIABLE, so that its value is not stored"
            )
        if value.startswith("$"):
            value = environ.get(value[1:], "")
            if not value:
                raise UsageError(
                    f"--headers {name!r} refers to the variable {match.group(2)[1:80]!r}, which is not set"
                )
        if not value.isascii() or not value.isprintable():
            raise UsageError(f"--headers {name!r} has an invalid value; use one line of printable ASCII")
        headers[name] = value
    return headers
