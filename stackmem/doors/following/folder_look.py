"""One look at the user's folder, which brings its changes to the workspace.

Rule 1: A file that only the user changed is in the workspace as it is in the folder.
Rule 2: A file that both changed is merged. Lines that both changed get conflict markers in the workspace. A version
    that cannot be merged is kept next to the folder's version.
Rule 3: The folder is only read.
"""

from __future__ import annotations

import os
from contextlib import suppress

from stackmem.core.errors import StackmemError
from stackmem.core.state import State
from stackmem.foreign.private import write_json
from stackmem.history.following.merging import merge_modes, merge_texts
from stackmem.history.lower import FileKeeper, open_folder
from stackmem.history.objects import DELETED, REMOVED, Node
from stackmem.history.origin import Origin
from stackmem.history.restore import put_file, remove_file
from stackmem.run.run_folder import FOLDER_PENDING
from stackmem.workspace.clip import shown_name
from stackmem.workspace.overlay.mount import refresh

from .common import Files, FollowedFamily, FollowedFolder, PendingLook, paths_in, set_file
from .inventory import Entry, Inventory, changed_lines

MAX_NAMED = 40
"""How many files the lines of a look name."""
_MAX_CONTENT_BYTES = 64 * 1024 * 1024
_KEPT_NEXT_TO = b".agent-version"
"""Suffix of the agent's version of a file that cannot be merged."""


class FolderLook:
    """One look at the folder."""

    def __init__(self, folder: FollowedFolder, state: State) -> None:
        self.news: list[str] = []  # the user's changes, in a line for each file
        self.nodes: dict[bytes, Node | None] = {}  # the content of the files that were read
        self.has_moved = False  # whether the workspace or the common version changed
        self._followed, self._state, self._history = folder, state, folder.history
        self._family = FollowedFamily(folder.run_dir, folder.history)
        self._log = self._family.log()
        self.number = len(self._log)  # the number of the last change in the family's log
        # whether the folder is as the conversation found it, as far as its runs know
        self.is_new = not self._log and not self._family.is_known and self._family.first == folder.run_dir
        self._contents: dict[str, bytes] = {}
        self._room = _MAX_CONTENT_BYTES
        self._conflict = False
        overlay = folder.overlay
        self._root = os.dup(overlay.view.fd) if overlay is not None else open_folder(os.fsencode(folder.work))
        self._folder: FileKeeper = self._history.keeper(open_folder(os.fsencode(folder.folder)))
        self._view: FileKeeper = self._history.keeper(os.dup(self._root))

    @property
    def is_interrupted(self) -> bool:
        """Whether a crash interrupted an earlier look after it had decided what to do."""
        pending = self._family.pending()
        return pending is not None and pending.number > self._state.folder

    def close(self) -> None:
        os.close(self._root)
        self._folder.close()
        self._view.close()

    def take_in(self, changed: list[bytes], before: Inventory | None, origin: Origin | None) -> None:
        if self._followed.overlay is not None and (changed or self._log[self._state.folder :] or before is None):
            refresh(self._followed.overlay.view)
        known_number = self._recover()
        missing = [self._family.files_taken(entry) for entry in self._log[known_number:]]
        if not (changed or missing or before is None):
            return
        ours = self._history.files(self._history.snapshot())
        common = self._family.common(self._state.begun.tree)
        tracked = {*ours, *common, *self._history.base_files()}
        for past, present in missing:
            self._join(ours, past, present, tracked)
        looked = changed if before is not None else sorted(tracked)
        transfer: tuple[Files, Files] = ({}, {})
        meeting = paths_in(missing) & tracked
        for path in looked:
            if path in tracked or self._followed.overlay is None:
                node, reason = self._read(path)
                if not reason:
                    self._meet(path, node, ours, common, transfer)
                    meeting.add(path)
            else:
                self._tell_of_visible(path, before, origin)
        is_new = bool(transfer[0] or transfer[1])
        tree = self._history.plain_tree
        old, new = (tree(transfer[0]), tree(transfer[1])) if is_new else ("", "")
        files = tree({path: ours.get(path, DELETED) for path in meeting})
        result = self._history.tree_of(common) if is_new else ""
        pending = PendingLook(self.number + is_new, files, old, new, result, tuple(self.news))
        write_json(self._followed.run_dir / FOLDER_PENDING, pending)
        self._complete(pending)

    def _complete(self, pending: PendingLook) -> None:
        """Let the workspace and the log have the outcome of a look."""
        for path, node in sorted(self._history.listed(pending.files).items()):
            self._materialize(path, None if node.mode == REMOVED else node)
        self._family.complete(pending)
        self.number = pending.number

    def _recover(self) -> int:
        """Complete a look that a crash interrupted. Returns the number of the last change that the run then has."""
        pending = self._family.pending()
        if pending is None or not self.is_interrupted:
            return self._state.folder
        self._complete(pending)
        self._log = self._family.log()
        self.number = len(self._log)
        self.news += pending.news
        self.has_moved = True
        return pending.number

    def _read(self, path: bytes) -> tuple[Node | None, str]:
        """Return the folder's version of a file, or None with the reason if it cannot be read."""
        node, reason = self._folder.look(path)
        if not reason:
            self.nodes[path] = node
        if node is not None and len(self._folder.content) <= self._room:
            self._room -= len(self._folder.content)
            self._contents[node.id] = self._folder.content
        return node, reason

    def _tell_of_visible(self, path: bytes, before: Inventory | None, origin: Origin | None) -> None:
        """Tell of a file that the workspace shows as it is in the folder."""
        if len(self.news) >= MAX_NAMED:  # it will not be named, so it is not read
            self.nodes[path] = None
            self.news.append("")
            return
        node, reason = self._read(path)
        entry = before.files.get(path) if before is not None else None
        if not reason and (entry is None or node is None or entry.blob != node.id):
            self._tell(path, "added" if entry is None else "changed", self._old(entry, origin), node)

    def _content(self, node: Node | None) -> bytes | None:
        if node is None:
            return None
        content = self._contents.get(node.id)
        return self._family.content(node) if content is None else content

    def _join(self, ours: Files, before: Files, after: Files, tracked: set[bytes]) -> None:
        """Bring a change of the user that another run of the family took in."""
        for path in sorted({*before, *after}):
            if path in tracked or self._followed.overlay is None:
                set_file(ours, path, self._merged(path, before.get(path), ours.get(path), after.get(path), ours))
                self._conflict = False

    def _meet(
        self, path: bytes, theirs: Node | None, ours: Files, common: Files, transfer: tuple[Files, Files]
    ) -> None:
        """Bring the folder's version of a file to the workspace's version."""
        base, own = common.get(path), ours.get(path)
        if theirs == base:
            return
        result = self._merged(path, base, own, theirs, ours)
        for files, node in zip(transfer, (base, theirs), strict=True):
            set_file(files, path, node)
        set_file(common, path, theirs)
        set_file(ours, path, result)
        self.has_moved = True
        content = self._content(base) if len(self.news) < MAX_NAMED else None
        kind = "changed" if base is not None else "added"
        self._tell(path, kind, content, theirs, self._suffix(own, base, theirs, result))

    def _merged(
        self, path: bytes, base: Node | None, own: Node | None, theirs: Node | None, ours: Files
    ) -> Node | None:
        if own in (base, theirs):
            return theirs
        if theirs == base or theirs is None or own is None:
            return own if own is not None else theirs
        start = self._content(base) if base is not None else b""
        mode = merge_modes(base or theirs, own, theirs)
        own_content, their_content = self._content(own), self._content(theirs)
        if mode is not None and start is not None and own_content is not None and their_content is not None:
            merge = merge_texts(start, own_content, their_content)
            if merge is not None:
                self._conflict = bool(merge.conflicts)
                merged = Node(mode, self._history.keep(merge.content))
                self._contents[merged.id] = merge.content
                return merged
        ours[path + _KEPT_NEXT_TO] = own
        self._materialize(path + _KEPT_NEXT_TO, own)
        return theirs

    def _suffix(self, own: Node | None, base: Node | None, theirs: Node | None, result: Node | None) -> str:
        """Say what became of the agent's own change."""
        conflict, self._conflict = self._conflict, False
        if own in (base, theirs):
            return ""
        if theirs is None:
            return "; you had changed it, so your workspace keeps it"
        if own is None:
            return "; you had deleted it, so it is back"
        if result == theirs:
            return f"; it cannot be merged, so your version is in the file with the suffix {_KEPT_NEXT_TO.decode()}"
        if conflict:
            return "; you had changed the same lines, so resolve the conflict markers in it"
        return "; it is merged with your changes"

    def _tell(self, path: bytes, kind: str, old: bytes | None, node: Node | None, suffix: str = "") -> None:
        name = shown_name(path)
        if node is None:
            self.news.append(f"the user deleted {name}{suffix}")
            return
        lines = ""
        if kind == "changed" and old is not None:
            content = self._content(node)
            span = changed_lines(old, content) if content is not None and b"\0" not in content else None
            if span is not None:
                lines = f", line {span[0]}" if span[0] == span[1] else f", lines {span[0]} to {span[1]}"
        self.news.append(f"the user {kind} {name}{lines}{suffix}")

    def _old(self, entry: Entry | None, origin: Origin | None) -> bytes | None:
        """Return the content that a file had at the last look, if it is known."""
        if entry is None or not entry.blob:
            return None
        content = self._content(Node("", entry.blob))
        if content is None and origin is not None:
            with suppress(StackmemError):
                content = origin.ask("cat-file", "blob", entry.blob)
        return content

    def _materialize(self, path: bytes, node: Node | None) -> None:
        """Let the workspace have this version of a file. A failure leaves the file as it is."""
        seen, _ = self._view.look(path)
        if seen == node:
            return
        self.has_moved = True
        try:
            if node is None:
                remove_file(self._root, path)
            elif (content := self._content(node)) is not None:
                put_file(self._root, path, node.mode, content)
        except OSError as error:
            self.news.append(f"{shown_name(path)} cannot be written to your workspace ({error.strerror})")
