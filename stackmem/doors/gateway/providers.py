"""Finds the provider of a request from its path, headers and the shape of its key.

- A request for one provider goes to that provider or is refused, so that a key never reaches another provider.
- Unknown paths are refused, unless one server receives all requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl

from .upstream import ADDRESSES, Headers, Upstreams
from .wires import WIRES, wire_of

_HEADERS = {
    "x-api-key": "anthropic", "anthropic-": "anthropic", "openai-": "openai", "x-goog-": "google", "api-key": "azure",
}  # fmt: skip
"""Header name prefixes that only one provider uses."""
_GEMINI_PATH = re.compile(r"^/v1(?:alpha|beta)/|:(?:streamGenerate|generate)Content$")
_GEMINI_PAID = re.compile(r"/v1beta/models/[^/:]+:(?:generateContent|streamGenerateContent|countTokens)")
_OTHER_KEY = "sk-"
"""Keys of providers other than Google."""
_KEYS = {"sk-ant-": "anthropic", "AIza": "google"}
_PATHS = {
    "anthropic": ("messages", "complete", "skills", "organizations"),
    "openai": (
        "chat", "responses", "completions", "embeddings", "moderations", "images", "audio", "batches", "fine_tuning",
        "uploads", "vector_stores", "assistants", "threads", "conversations", "containers", "evals", "realtime",
        "videos", "organization", "engines",
    ),
    "azure": ("openai",),
}  # fmt: skip
_OWNERS = {name: owner for owner, names in _PATHS.items() for name in names}
_SHARED = ("models", "files")
"""Paths that both providers have; Anthropic's clients add an Anthropic header to every request."""
_NAMES = {"anthropic": "Anthropic", "openai": "OpenAI", "google": "Google", "azure": "Azure"}
_COUNTS = "/messages/count_tokens"
_PAID = {_COUNTS, "/embeddings", *(path for wire in WIRES for path in wire.paths)}
"""Paths that may be sent with the user's own key, without the version."""
_VERSION = re.compile(r"/v1(?=/|$)")


class Misdirected(Exception):  # noqa: N818 - reported as the answer, not raised to the user
    """A request must not be forwarded; the message says why."""


def provider_of(path: str, query: str, headers: Headers, upstreams: Upstreams) -> str:
    """Return ``anthropic``, ``openai`` or ``google``."""
    owners = set(_owners(path, query, headers))
    if upstreams.is_one_server:
        return next((owner for owner in ("anthropic", "google") if owner in owners), "openai")
    if upstreams.openai != ADDRESSES["openai"]:
        # the user configured an Azure address for OpenAI
        owners = {"openai" if owner == "azure" else owner for owner in owners}
    if not owners and _first(path) in _SHARED:
        owners = {"openai"}
    if not owners:
        raise Misdirected(
            f"no provider is known for the path {path[:80]!r}; set --upstream URL to forward every path to one server"
        )
    names = " and ".join(_NAMES[owner] for owner in sorted(owners))
    if len(owners) > 1:
        raise Misdirected(f"the path, headers and key of the request belong to {names}; send those of one provider")
    (owner,) = owners
    if not upstreams.address(owner) or (owner == "google" and not _GEMINI_PATH.search(path)):
        raise Misdirected(f"the request is for {names}, and this gateway does not forward to it; set --upstream URL")
    return owner


def may_use_own_key(method: str, path: str) -> bool:
    """Return whether a client without a key may use the user's key: for replies, token counts and lists.

    The whole path must match, so that other paths with the same ending never get the key.
    """
    if method == "POST" and _GEMINI_PAID.fullmatch(path):
        return True
    bare = (path.removeprefix("/v1") if path.startswith("/v1/") else path).rstrip("/")
    if method in ("GET", "HEAD"):
        return bare == "/models" or bare.startswith("/models/")
    return method == "POST" and bare in _PAID


def counts_tokens(path: str) -> bool:
    """Return whether an Anthropic path counts the tokens of a request."""
    return path.endswith(_COUNTS)


def _owners(path: str, query: str, headers: Headers) -> Iterator[str]:
    wire = wire_of(path)
    first = _first(path)
    if wire is not None:
        yield wire.provider
    elif first in _OWNERS:
        yield _OWNERS[first]
    elif path.startswith("/api/"):  # used by Claude Code itself
        yield "anthropic"
    elif path.startswith("/v1beta/") or ":generateContent" in path or ":streamGenerateContent" in path:
        yield "google"
    if any(name == "key" for name, _ in parse_qsl(query)):
        yield "google"
    for name, value in headers:
        spelled = name.decode("latin-1").lower()
        yield from (owner for begin, owner in _HEADERS.items() if spelled.startswith(begin))
        if spelled == "authorization":
            key = value.decode("latin-1").strip().rpartition(" ")[2]
            yield from (owner for begin, owner in _KEYS.items() if key.startswith(begin))
            if _GEMINI_PATH.search(path) and key.startswith(_OTHER_KEY) and not key.startswith(tuple(_KEYS)):
                yield "openai"


def _first(path: str) -> str:
    """Return the first path segment after the version."""
    return _VERSION.sub("", path, count=1).lstrip("/").partition("/")[0]
