"""The provider's prompt cache as documented: prefixes, breakpoints, look-back, minimum, time to live."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LIFE_SECONDS = {"5m": 300.0, "1h": 3_600.0}
LOOK_BACK = 20


@dataclass
class _Block:
    text: str
    kind: str
    ttl: str | None


@dataclass
class PrefixCache:
    """Cached content by digest of the prefix.

    Args:
        minimum: Shorter prefixes are silently not written. Unit: tokens.
    """

    minimum: int = 512
    clock: Callable[[], float] = time.monotonic
    entries: dict[str, tuple[float, float]] = field(default_factory=dict)

    def usage(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the prompt's usage as a reply reports it, then cache the prefixes that the request marks."""
        blocks = _flatten(body)
        digests, sizes, positions = _prefixes(blocks)
        marked = [index for index, block in enumerate(blocks) if block.ttl is not None]
        hit = max((self._found(index, digests, positions) for index in marked), default=-1)
        read = sizes[hit] if hit >= 0 else 0
        end, written = read, {"5m": 0, "1h": 0}
        for index in marked:
            ttl = blocks[index].ttl or "5m"
            if sizes[index] < self.minimum:
                continue
            life = LIFE_SECONDS[ttl]
            self.entries[digests[index]] = (self.clock() + life, life)
            written[ttl] += max(0, sizes[index] - end)
            end = max(end, sizes[index])
        return {
            "input_tokens": (sizes[-1] if sizes else 0) - end,
            "cache_creation_input_tokens": written["5m"] + written["1h"],
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _found(self, mark: int, digests: list[str], positions: list[int]) -> int:
        """Return and refresh the longest cached prefix within reach of a breakpoint; -1 if there is none."""
        for index in range(mark, -1, -1):
            if positions[mark] - positions[index] >= LOOK_BACK:
                return -1
            expires, life = self.entries.get(digests[index], (-math.inf, 0.0))
            if expires > self.clock():
                self.entries[digests[index]] = (self.clock() + life, life)
                return index
        return -1


def prompt_tokens(body: dict[str, Any]) -> int:
    """A simple count: four characters of JSON are one token."""
    return _prefixes(_flatten(body))[1][-1]


def without_marks(value: Any) -> Any:
    """Return a request's value without cache breakpoints, which are neither cached nor signed.

    A message's content as a text means one text block: Claude Code sends new messages as blocks and old ones as texts.
    """
    if isinstance(value, dict):
        bare = {name: without_marks(item) for name, item in value.items() if name != "cache_control"}
        if "role" in bare and isinstance(bare.get("content"), str):
            bare["content"] = [{"type": "text", "text": bare["content"]}]
        return bare
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def _flatten(body: dict[str, Any]) -> list[_Block]:
    found = [_block(tool, "tool") for tool in body.get("tools", [])]
    found += [_block(block, "system") for block in body.get("system", [])]
    settings = json.dumps([body.get("tool_choice"), body.get("thinking")], sort_keys=True)
    for message in body["messages"]:
        found += [_block(block, f"{message['role']} {settings}") for block in message["content"]]
    return found


def _block(block: dict[str, Any], place: str) -> _Block:
    mark = block.get("cache_control")
    text = place + json.dumps(without_marks(block), ensure_ascii=False, sort_keys=False)
    return _Block(text, block.get("type", "tool"), mark.get("ttl", "5m") if mark else None)


def _prefixes(blocks: list[_Block]) -> tuple[list[str], list[int], list[int]]:
    """Yield digest, size in tokens and position of the prefix that ends with each block."""
    digest, size, position, before = b"", 0, 0, ""
    digests, sizes, positions = [], [], []
    for block in blocks:
        digest = hashlib.sha256(digest + block.text.encode()).digest()
        size += math.ceil(len(block.text) / 4)
        # A run of tool_use blocks, or of tool_result blocks, is one position.
        if not (block.kind == before and block.kind in {"tool_use", "tool_result"}):
            position += 1
        before = block.kind
        digests.append(digest.hex())
        sizes.append(size)
        positions.append(position)
    return digests, sizes, positions
