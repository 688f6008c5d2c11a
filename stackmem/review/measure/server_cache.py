"""Simulates the cache of a local server (llama.cpp, vLLM, Ollama): it reuses the longest known prefix.

Rule 1: Every prefix of every earlier prompt is found again. Breakpoints do not matter, and entries do not expire within
    a run.
Rule 2: The reply to a prompt is cached after it, and is found if it comes back as the model wrote it.
Rule 3: Everything after that is evaluated.
"""

from __future__ import annotations

from stackmem.core.messages import View

from .cache import Cached, CacheRequest, difference, shared_blocks
from .prefix import Count, PromptPrefixes, PromptReader

_CONVERSATIONS = 64


class ServerCache:
    """The cache of one server, initially empty."""

    def __init__(self, count: Count) -> None:
        self._reader = PromptReader(count)
        self._seen: set[bytes] = set()
        # maps the digest of a whole prompt to whether its reply comes back as it was written
        self._ends: dict[bytes, bool] = {}
        self._last: dict[bytes, PromptPrefixes] = {}

    def answer(self, request: CacheRequest) -> Cached:
        """Return the effect on the next request. Requests must come in the order in which they were sent."""
        prompt = self._reader.read(request.view, request.settings)
        prefixes = prompt.prefixes
        hit = next((at for at in range(len(prefixes) - 1, -1, -1) if prefixes[at].digest in self._seen), -1)
        digest = prefixes[hit].digest if hit >= 0 else b""
        broken = "" if digest in self._ends else self._miss_reason(prompt)
        end = _after_reply(request.view, prompt, hit) if self._ends.get(digest) else hit
        read = prefixes[end].tokens if end >= 0 else 0
        self._keep(prompt, digest, literal=request.literal)
        return Cached(read, 0, 0, prompt.tokens - read, broken)

    def _keep(self, prompt: PromptPrefixes, digest: bytes, *, literal: bool) -> None:
        for prefix in reversed(prompt.prefixes):
            if prefix.digest in self._seen:
                break
            self._seen.add(prefix.digest)
        self._last.pop(digest, None)
        if prompt.prefixes:
            self._ends[prompt.prefixes[-1].digest] = literal
            self._last[prompt.prefixes[-1].digest] = prompt
        if len(self._last) > _CONVERSATIONS:
            del self._last[next(iter(self._last))]

    def _miss_reason(self, prompt: PromptPrefixes) -> str:
        if not self._last:
            return "first request"
        return difference(max(reversed(self._last.values()), key=lambda before: shared_blocks(before, prompt)), prompt)


def _after_reply(view: View, prompt: PromptPrefixes, hit: int) -> int:
    """Return the end of the reply that follows the prefix, or of the prefix itself if no reply follows."""
    for number, start in enumerate(prompt.starts):
        if start == hit + 1 and view.messages[number].role == "assistant":
            following = prompt.starts[number + 1] if number + 1 < len(prompt.starts) else len(prompt.prefixes)
            return following - 1
    return hit
