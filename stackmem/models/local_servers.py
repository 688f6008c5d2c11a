"""Model servers on this machine: their names, usual addresses and price.

They use the Chat Completions protocol, need no key, and cost nothing per token.
"""

from __future__ import annotations

from stackmem.core.pricing import Price

LOCAL_SERVERS = {"llamacpp": 8080, "ollama": 11434, "lmstudio": 1234, "vllm": 8000}
"""Prefix of model names, and the server's default port."""
FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0, "free (local)")
ASSUMED_FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0, "free (local); if this server passes requests on, give --price")
"""Price for ``openai/NAME`` at a local address, which may also be a proxy to a paid provider."""


def is_known(price: Price | None) -> bool:
    """Return whether this price is reliable enough for a cost limit."""
    return price is not None and price.source != ASSUMED_FREE.source


def default_url(kind: str) -> str:
    return f"http://127.0.0.1:{LOCAL_SERVERS[kind]}/v1"
