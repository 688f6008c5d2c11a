"""A run for pages that stay open while it continues: everything once, then only changes."""

from __future__ import annotations

from collections import deque
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
from msgspec.structs import fields

from .follow import FollowedRun
from .heap import Lane
from .prompts import Prompts
from .rows import RunPage
from .texts import Texts
from .view import PageContent, pictures_of

_LISTS = ("frames", "steps", "before", "lanes", "sequences")
_SCALARS = tuple(field.name for field in fields(RunPage) if field.name not in _LISTS)
_MAX_CHANGES = 500  # changes kept for pages that lost their connection


class LiveRun:
    """One run, shared by all pages that show it; thread-safe."""

    def __init__(self, folder: Path, at_once: int = 500, kept_bytes: int = 32_000_000) -> None:
        """Prepare; the first ``refresh`` starts reading.

        Args:
            at_once: As in ``FollowedRun``.
            kept_bytes: Maximum size of the stored changes. The last change is always kept.
        """
        self._lock, self._kept_bytes = Lock(), kept_bytes
        self._texts, self._parts = Texts(), list[Any]()
        self._followed = FollowedRun(
            folder, self._texts, Prompts(self._texts, self._parts, {}, pictures_of(folder)), at_once
        )
        self._page: RunPage | None = None
        self._sent = _Sent()
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_MAX_CHANGES)
        self.version = 0  # number of changes

    def refresh(self, seconds: float = inf) -> int:
        """Read new records, and return the version.

        Raise TraceError if the trace is broken.

        Args:
            seconds: How long to read. ``reading`` reports whether there is more.
        """
        with self._lock:
            page = self._followed.read(seconds)
            first = self._page is None
            before, after = self._sent, _Sent.of(self._texts.items, self._parts, page, self._sent.lanes)
            if first or before != after:
                self.version += 1
                if not first:
                    self._keep(msgspec.json.encode(self._change(before, page)))
                self._note(page, after)
            self._page = page
            return self.version

    @property
    def reading(self) -> bool:
        """Whether the trace contains more than was read."""
        return self._page is not None and bool(self._page.reading)

    def _keep(self, change: bytes) -> None:
        self._changes.append((self.version, change))
        while len(self._changes) > 1 and sum(len(data) for _, data in self._changes) > self._kept_bytes:
            self._changes.popleft()

    def content(self) -> tuple[int, bytes]:
        """Return the version, and the whole page as JSON."""
        with self._lock:
            runs = [self._page] if self._page else []
            return self.version, msgspec.json.encode(PageContent(self._texts.items, self._parts, runs))

    def since(self, version: int) -> list[tuple[int, bytes]] | None:
        """Return the changes after a version, oldest first; None if they are no longer kept."""
        with self._lock:
            if not 0 < version <= self.version:
                return None
            changes = [change for change in self._changes if change[0] > version]
            return changes if len(changes) == self.version - version else None

    def _note(self, page: RunPage, sent: _Sent) -> None:
        self._sent = sent
        touched = self._followed.fold.lanes.touched
        for lane in page.lanes if not sent.lanes else [lane for lane in page.lanes if lane.name in touched]:
            sent.lanes[lane.name] = len(lane.versions), len(lane.reads), len(lane.stale)
        touched.clear()
        self._followed.fold.touched.clear()

    def _change(self, sent: _Sent, page: RunPage) -> dict[str, Any]:
        fold = self._followed.fold
        change: dict[str, Any] = {
            "texts": self._texts.items[sent.texts :],
            "parts": self._parts[sent.parts :],
            "run": {name: getattr(page, name) for name in _SCALARS},
            "before": page.before[sent.before :],
            "steps": page.steps[sent.steps :],
            "frames": [[number, page.frames[number]] for number in sorted(fold.touched)],
            "lanes": [_lane_change(lane, sent) for lane in page.lanes if lane.name in fold.lanes.touched],
            "sequences": [
                [number, added[start:]]
                for number, added in enumerate(page.sequences)
                if len(added) > (start := sent.sequences[number] if number < len(sent.sequences) else 0)
            ],
        }
        if sent.steps:
            last = page.steps[sent.steps - 1]
            change["last"] = {"usd": last.usd, "facts": last.facts[sent.facts :], "files": last.files[sent.files :]}
        return change


def _lane_change(lane: Lane, sent: _Sent) -> dict[str, Any]:
    """Return the lane from the last version, read and stale period that a page has; each may have changed since."""
    versions, reads, stale = sent.lanes.get(lane.name, (0, 0, 0))
    at = max(0, versions - 1), reads, max(0, stale - 1)
    rest = {"versions": lane.versions[at[0] :], "reads": lane.reads[at[1] :], "stale": lane.stale[at[2] :]}
    return {"name": lane.name, "at": at, **rest}


class _Sent(msgspec.Struct):
    """How much of a run the pages have; ``lanes`` counts versions, reads and stale periods by name."""

    texts: int = 0
    parts: int = 0
    before: int = 0
    steps: int = 0
    facts: int = 0
    files: int = 0
    usd: float | None = None
    frames: int = 0
    sequences: list[int] = []
    said: list[Any] = []
    lanes: dict[str, tuple[int, int, int]] = {}

    @classmethod
    def of(cls, texts: list[str], parts: list[Any], page: RunPage, lanes: dict[str, tuple[int, int, int]]) -> _Sent:
        last = page.steps[-1] if page.steps else None
        return cls(
            texts=len(texts),
            parts=len(parts),
            before=len(page.before),
            steps=len(page.steps),
            facts=len(last.facts) if last else 0,
            files=len(last.files) if last else 0,
            usd=last.usd if last else None,
            frames=len(page.frames),
            sequences=[len(sequence) for sequence in page.sequences],
            said=[getattr(page, name) for name in _SCALARS],
            lanes=lanes,
        )
