"""Takes the user's changes of the folder into the workspace of a conversation, before each step of the agent.

Rule 1: Within a request only files are followed. HEAD and the index are followed when the next request begins.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec

from stackmem.core.errors import StackmemError
from stackmem.core.facts import FolderChanged
from stackmem.core.state import State
from stackmem.history.history import History
from stackmem.history.lower import file_clock_ns
from stackmem.history.origin import Origin, find_origin
from stackmem.history.selection import own_below
from stackmem.history.walk import Key, path_bytes
from stackmem.run.opened import Opened
from stackmem.run.plan import Plan
from stackmem.run.run_folder import FOLDER_SEEN
from stackmem.workspace.clip import shown_name

from .common import FollowedFolder, head_of, moves_of
from .folder_look import MAX_NAMED, FolderLook
from .git_following import GitFollower
from .inventory import (
    Entry,
    Inventory,
    as_before,
    blobs_in_index,
    read_inventory,
    take_inventory,
    take_settled,
    without_ignored,
    write_inventory,
)

_TRIES, _TICK_SECONDS = 3, 0.012
_MAX_SHARE = 0.05
"""Maximum share of the time that looks take within a request, if one takes longer than ``_SHORT_SECONDS``."""
_SHORT_SECONDS = 0.2
_MAX_TOLD = 3
"""How often a request reads of the same file."""


def follow_folder(opened: Opened, history: History, plan: Plan, stack: ExitStack) -> None:
    """Let a conversation about a user's folder follow the folder until ``stack`` is closed."""
    folder, stored = Path(opened.folder), opened.stored
    followed = FollowedFolder(
        folder, opened.places.run, opened.places.work, history, stored.leave_out,
        tuple(own_below(folder, plan.request.folders)), stored.git is not None,
        GitFollower(opened.inside, opened.late) if opened.inside is not None else None,
    )  # fmt: skip
    follower = Follower(followed, opened.world.digest)
    stack.callback(follower.save)
    opened.world.follow = follower.changed


class Follower:
    """Looks at the folder before each step of a request, and once when a run begins or goes on."""

    def __init__(self, folder: FollowedFolder, digest: Callable[[str], str]) -> None:
        self._followed, self._digest = folder, digest
        self._history = folder.history
        self._seen_at = folder.run_dir / FOLDER_SEEN
        self._inventory: Inventory | None = None
        self._unsaved = False
        self._request, self._step, self._is_joined = 0, 0, False
        self._ignored: set[bytes] = set()  # files that ignore rules exclude, for the present request
        self._counts: Counter[bytes] = Counter()  # how often a file has changed within the present request
        self._next_look = 0.0
        hidden = folder.overlay.hidden if folder.overlay is not None else ()
        self._hidden = {*hidden, *(os.fsencode(os.path.relpath(path, folder.folder)) for path in folder.own)}
        self._leave_out = {path_bytes(path) for path in folder.leave_out}

    def changed(self, state: State) -> FolderChanged | None:
        """Return the fact that the workspace has new changes of the folder, or None if there are none."""
        self.save()
        if state.session is None or state.failures:
            return None
        if not self._is_joined:
            self._is_joined = True
            if (event := self._join(state)) is not None:
                return event
        moment = (state.session.requests, state.step)
        if moment == (self._request, self._step) or not state.session.working:
            return None
        is_new = self._inventory is None or moment[0] != self._request
        self._request, self._step = moment
        if is_new:
            self._ignored, self._counts, self._next_look = set(), Counter(), 0.0
            return self._look(state)
        return self._look_again(state)

    def _join(self, state: State) -> FolderChanged | None:
        """Bring the changes of the user that other runs of the family took in, or that an undo went back before."""
        with closing(FolderLook(self._followed, state)) as look:
            if look.number == state.folder and not look.is_interrupted:
                return None
            look.take_in([], Inventory({}), None)
            return self._event(look.news, look.number, state)

    def _event(self, news: Iterable[str], number: int, state: State) -> FolderChanged:
        digests = {path: self._digest(path) for path in state.heap.sources}
        return FolderChanged(tuple(news), number, digests, self._history.snapshot())

    def save(self) -> None:
        """Save what is known of the folder. Call it once the fact of the last look is recorded."""
        if self._unsaved and self._inventory is not None:
            write_inventory(self._seen_at, self._inventory)
            self._unsaved = False

    def _look(self, state: State) -> FolderChanged | None:
        before = self._inventory or read_inventory(self._seen_at)
        for _ in range(_TRIES):
            now = file_clock_ns()
            keys = take_inventory(self._followed.folder, self._hidden, self._leave_out)
            if all(key[3] < now for key in keys.values()):
                break
            time.sleep(_TICK_SECONDS)  # a file changed in this tick of the clock could change again unseen
        origin = self._origin()
        with closing(FolderLook(self._followed, state)) as look:
            begins = before is None and state.session is not None and state.session.requests == 1 and look.is_new
            changed = self._changed_paths(before, keys)
            if not begins:
                look.take_in(changed, before, origin)
        self._history.trust_until(now)
        self._inventory = self._now(before, keys, look, origin)
        self._unsaved = self._inventory != before
        news = [*moves_of(before, self._inventory.head), *look.news]
        if self._followed.inside is not None and origin is not None:
            news += self._followed.inside.follow(origin, before.head if before is not None else None)
        if not (news or look.number != state.folder or look.has_moved):
            self.save()
            return None
        return self._event(_shortened(news), look.number, state)

    def _look_again(self, state: State) -> FolderChanged | None:
        """Look between two steps of a request. A file that is being written is left for the next look."""
        before = self._inventory
        if before is None or time.monotonic() < self._next_look:
            return None
        listing = take_settled(self._followed.folder, self._hidden, self._leave_out, before)
        often = {path for path, count in self._counts.items() if count >= _MAX_TOLD}
        keys = as_before(listing.keys, before, often) if often else listing.keys
        changed = self._changed_paths(before, keys)
        if listing.seconds > _SHORT_SECONDS:
            self._next_look = time.monotonic() + listing.seconds / _MAX_SHARE
        if not changed:
            return None
        origin = self._origin()
        with closing(FolderLook(self._followed, state)) as look:
            look.take_in(changed, before, origin)
        self._history.trust_until(listing.at_ns)
        self._inventory = msgspec.structs.replace(self._now(before, keys, look, origin), head=before.head)
        self._unsaved = True
        self._counts.update(changed)
        often = {path for path in changed if self._counts[path] == _MAX_TOLD}
        news = [
            *look.news,
            *(f"more changes of {shown_name(path)} come with the next request" for path in sorted(often)),
        ]
        if not (news or look.number != state.folder or look.has_moved):
            return None
        return self._event(_shortened(news), look.number, state)

    def _changed_paths(self, before: Inventory | None, keys: Mapping[bytes, Key]) -> list[bytes]:
        if before is None:
            return []
        new = [path for path in keys if path not in before.files and path not in self._ignored]
        fresh = without_ignored(new, self._history.git_dir, self._followed.folder)
        self._ignored.update(set(new) - set(fresh))
        later = [path for path, entry in before.files.items() if keys.get(path) != entry.key]
        return sorted({*fresh, *later})

    def _now(
        self, before: Inventory | None, keys: Mapping[bytes, Key], look: FolderLook, origin: Origin | None
    ) -> Inventory:
        """Return the inventory after a look. Ignored files are not in it."""
        entries = before.files if before is not None else {}
        is_same = all(path in entries and entries[path].key == key for path, key in keys.items())
        if before is not None and is_same and len(entries) == len(keys) and head_of(origin) == before.head:
            return before
        blobs = blobs_in_index(origin, keys)
        files = {}
        for path, key in keys.items():
            entry = entries.get(path)
            if entry is not None and entry.key == key:
                files[path] = entry if entry.blob else Entry(key, blobs.get(path, ""))
            elif before is None or path in look.nodes:
                node = look.nodes.get(path)
                files[path] = Entry(key, node.id if node is not None else blobs.get(path, ""))
        return Inventory(files, head_of(origin))

    def _origin(self) -> Origin | None:
        if not self._followed.git:
            return None
        with suppress(StackmemError, OSError):
            return find_origin(self._followed.folder)
        return None


def _shortened(news: list[str]) -> list[str]:
    more = len(news) - MAX_NAMED
    return [*news[:MAX_NAMED], f"and {more:,} more files"] if more > 0 else news
