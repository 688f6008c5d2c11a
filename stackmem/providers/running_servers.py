"""The model servers that are running on this machine, with their models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from stackmem.models.local_servers import LOCAL_SERVERS

from .served import ServedModel, read_models

_SECONDS = 1.0
_MAX_BYTES = 8 << 20


class RunningServer(Struct, frozen=True):
    """A server that answered, with its models by name."""

    kind: str
    url: str
    models: dict[str, ServedModel]


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
