"""Model servers on this machine: their names, usual addresses, and which of them are running.

They use the Chat Completions protocol, need no key, and cost nothing per token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.core.pricing import Price

from .served import ServedModel, read_models

LOCAL_SERVERS = {"llamacpp": 8080, "ollama": 11434, "lmstudio": 1234, "vllm": 8000}
"""Prefix of model names, and the server's default port."""
FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0, "free (local)")
ASSUMED_FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0, "free (local); if this server passes requests on, give --price")
"""Price for ``openai/NAME`` at a local address, which may also be a proxy to a paid provider."""
_SECONDS = 1.0
_MAX_BYTES = 8 << 20


class RunningServer(Struct, frozen=True):
    """A server that answered, with its models by name."""

    kind: str
    url: str
    models: dict[str, ServedModel]


def is_known(price: Price | None) -> bool:
    """Return whether this price is reliable enough for a cost limit."""
    return price is not None and price.source != ASSUMED_FREE.source


def default_url(kind: str) -> str:
    return f"http://127.0.0.1:{LOCAL_SERVERS[kind]}/v1"


def running_servers(ports: dict[str, int] = LOCAL_SERVERS) -> Iterator[RunningServer]:
    """Query the usual ports of this machine for models; ports that do not answer within a second are skipped."""
    import httpx2

    with httpx2.Client(timeout=_SECONDS, trust_env=False) as client:
        for kind, port in ports.items():
            url = f"http://127.0.0.1:{port}/v1"
            text = bytearray()
            try:
                with client.stream("GET", f"{url}/models") as answer:
                    if answer.status_code != 200:
                        continue
                    for piece in answer.iter_bytes():
                        text += piece
                        if len(text) > _MAX_BYTES:
                            break
                listed: Any = json.loads(bytes(text))
            except (httpx2.HTTPError, OSError, ValueError, RecursionError):
                continue
            models = read_models(listed)
            if models is not None:
                yield RunningServer(kind, url, models)
