"""Simulates the provider's prompt cache by its documented rules: what each request would have read and written.

Rule 1: Entries are written only at breakpoints, and only for prefixes of at least the model's minimum length.
Rule 2: A breakpoint reads the longest entry among its own prefix and the prefixes up to 19 positions before it.
    Consecutive calls, and consecutive results, are one position. The breakpoint that reaches furthest counts.
Rule 3: An entry lives for five minutes or an hour from the start of the request that last wrote or read it.
Rule 4: An entry can be read once the response that wrote it has begun.
Rule 5: Everything between the longest entry read and the last breakpoint is written, each part with the time to live of
    the breakpoint at its end. Everything after the last breakpoint is neither read nor written.

Source: the prompt caching pages of the provider, as of November 2026; docs/cache.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from stackmem.core.messages import Usage, View

from .prefix import Count, PromptPrefixes, PromptReader, marks

LOOK_BACK = 20  # positions, by the provider's documentation
LIFE_SECONDS = {"5m": 300.0, "1h": 3_600.0}
_CONVERSATIONS = 64  # number of remembered last prompts, which bounds the memory


class CacheRequest(Struct, frozen=True):
    """One request to a model."""

    at: float  # when it was sent, in seconds on any clock
    view: View
    settings: str = ""  # other settings whose change invalidates the messages: tool choice, kind of thinking
    began: float | None = None  # when its response began; None: immediately
    # Whether later prompts contain the reply as the model wrote it. A call that was read from text comes back in a
    # different form.
    literal: bool = True


class Cached(Struct, frozen=True):
    """The effect of the cache on one request, in tokens."""

    read: int
    written_5m: int
    written_1h: int
    uncached: int
    # why the request did not continue where the last one of its conversation ended; empty if it did
    broken: str = ""

    def usage(self, output_tokens: int) -> Usage:
        """Return the usage that a reply of this length would report."""
        return Usage(self.uncached, self.read, self.written_5m, self.written_1h, output_tokens)


def simulate(requests: Iterable[CacheRequest], minimum_tokens: int, count: Count) -> Iterator[Cached]:
    """Yield the effect of an initially empty cache on each request in turn. ``minimum_tokens`` is the model's."""
    return map(Cache(minimum_tokens, count).answer, requests)


class _Entry(Struct, frozen=True):
    readable: float
    expires: float
    life: float


class Cache:
    """The cache of one model for one account, initially empty."""

    def __init__(self, minimum_tokens: int, count: Count) -> None:
        self._minimum = minimum_tokens
        self._reader = PromptReader(count)
        self._entries: dict[bytes, _Entry] = {}
        self._open: dict[
            bytes, PromptPrefixes
        ] = {}  # the last prompt of each conversation, by the digest at its last breakpoint

    def answer(self, request: CacheRequest) -> Cached:
        """Return the effect on the next request. Requests must come in the order in which they were sent."""
        prompt = self._reader.read(request.view, request.settings)
        marked = marks(request.view, prompt)
        hits = [self._longest_hit(at, prompt, request.at) for at, _ in marked]
        hit = max(hits, default=-1)
        broken = self._miss_reason(request.at, prompt, hit) if marked else "no breakpoint"
        for index in set(hits) - {-1}:
            entry = self._entries[prompt.prefixes[index].digest]
            self._keep(prompt.prefixes[index].digest, request, entry.life)
        read = prompt.prefixes[hit].tokens if hit >= 0 else 0
        end, written = read, {"5m": 0, "1h": 0}
        for at, ttl in marked:
            size = prompt.prefixes[at].tokens
            if size < self._minimum:
                continue
            self._keep(prompt.prefixes[at].digest, request, LIFE_SECONDS[ttl])
            written[ttl] += max(0, size - end)
            end = max(end, size)
        self._go_on(prompt, hit, marked[-1][0] if marked else len(prompt.prefixes) - 1)
        return Cached(read, written["5m"], written["1h"], prompt.tokens - end, broken)

    def _longest_hit(self, mark: int, prompt: PromptPrefixes, now: float) -> int:
        """Return the index of the longest prefix that the breakpoint can read, or -1."""
        prefixes = prompt.prefixes
        furthest = prefixes[mark].position - LOOK_BACK
        for index in range(mark, -1, -1):
            prefix = prefixes[index]
            if prefix.position <= furthest:
                return -1
            entry = self._entries.get(prefix.digest)
            if entry is not None and entry.readable <= now < entry.expires:
                return index
        return -1

    def _keep(self, digest: bytes, request: CacheRequest, life: float) -> None:
        """Write the entry, or renew its life."""
        old = self._entries.get(digest)
        readable = request.at if request.began is None else request.began
        live = old is not None and old.expires > request.at
        self._entries[digest] = _Entry(
            min(readable, old.readable) if old and live else readable, request.at + life, life
        )

    def _go_on(self, prompt: PromptPrefixes, hit: int, end: int) -> None:
        """Store the prompt as the last one of its conversation."""
        if hit >= 0:
            self._open.pop(prompt.prefixes[hit].digest, None)
        if end >= 0:
            self._open[prompt.prefixes[end].digest] = prompt
        if len(self._open) > _CONVERSATIONS:
            del self._open[next(iter(self._open))]

    def _miss_reason(self, now: float, prompt: PromptPrefixes, hit: int) -> str:
        prefixes = prompt.prefixes
        if hit >= 0 and prefixes[hit].digest in self._open:
            return ""
        if not self._open:
            return "first request"
        for index in range(len(prefixes) - 1, hit, -1):
            entry = self._entries.get(prefixes[index].digest)
            if entry is not None:
                return _unreadable(entry, now)
        return difference(max(reversed(self._open.values()), key=lambda before: shared_blocks(before, prompt)), prompt)


def _unreadable(entry: _Entry, now: float) -> str:
    if entry.expires <= now:
        return "expired"
    return "not begun" if entry.readable > now else "out of reach"


def difference(before: PromptPrefixes, now: PromptPrefixes) -> str:
    """Describe the first difference from the most similar earlier prompt."""
    for name in ("tools", "system", "settings"):
        if getattr(before, name) != getattr(now, name):
            return f"{name} changed"
    shared = shared_blocks(before, now)
    if shared == len(now.prefixes):
        return "messages removed" if shared < len(before.prefixes) else "below the minimum"
    if shared == len(before.prefixes):
        return "below the minimum"
    number = sum(start <= shared for start in now.starts)
    return f"message {number} changed" if number > 1 else "new conversation"


def shared_blocks(before: PromptPrefixes, now: PromptPrefixes) -> int:
    """Return how many blocks at their beginning two prompts share."""
    low, high = 0, min(len(before.prefixes), len(now.prefixes))
    while low < high:  # digests are chained: after the first difference, all of them differ
        middle = (low + high) // 2
        if before.prefixes[middle].digest == now.prefixes[middle].digest:
            low = middle + 1
        else:
            high = middle
    return low
