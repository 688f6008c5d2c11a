"""The token that a server's clients must bring."""

from __future__ import annotations

import re
import secrets

from stackmem.core.errors import UsageError

TOKEN_HEADER = "x-stackmem-token"  # noqa: S105 - the name of a header
SHORTEST_TOKEN = 16
_TOKEN = re.compile(r"[A-Za-z0-9._~-]+")


def token_of(setting: str, variable: str) -> str:
    """Return the token that the user set in a variable, or a new random one if it is empty.

    Raise UsageError if the token is too short, or has characters that a path cannot contain.
    """
    if not setting:
        return secrets.token_urlsafe(24)
    if len(setting) < SHORTEST_TOKEN:
        raise UsageError(f"{variable} needs at least {SHORTEST_TOKEN} characters; unset it to get a new token")
    if not _TOKEN.fullmatch(setting):
        raise UsageError(f"{variable} may only contain letters, digits and ._~-; unset it to get a new token")
    return setting
