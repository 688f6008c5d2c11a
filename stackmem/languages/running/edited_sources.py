"""Reads the sources of an edited program in their current version instead of the copies stored with the run.

Rule 1: A source is searched for next to the edited file first, then where the run copied it from.
Rule 2: Files that the run itself wrote or changed in its workspace keep the run's version, as do packaged sources.
Rule 3: A source that no longer exists keeps its old text. A directory listing contains the old and new names.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable
from pathlib import Path

from stackmem.core.requests import LoadSource
from stackmem.run.request import EditedProgram, ProgramRequest
from stackmem.trace.objects import Objects
from stackmem.trace.snapshot import Snapshot

from .sources import PACKAGED, Loader, is_below, reachable_folders


class EditedSources:
    """Provides current sources in place of the run's copies."""

    def __init__(
        self, request: ProgramRequest, edited: EditedProgram, places: tuple[str, Path], scrub: Callable[[str], str]
    ) -> None:
        """Prepare to read the sources of ``edited``.

        ``places`` are the path of the workspace for its tools and the history of its files.
        """
        self._edited, self._file, self._scrub = edited, Path(edited.file), scrub
        self._workspace = places[0]
        self._program = posixpath.join(places[0], edited.program)
        self._host_program = request.path
        self._start = Snapshot(places[1], edited.tree)
        self._latest = Snapshot(places[1], Objects(places[1]).latest())
        folders = (*reachable_folders(request, Path(edited.subject)), Path(request.path).parent)
        self._loader = Loader(self._file, folders)

    def current_source(self, source: LoadSource, path: str, text: str, failed: str) -> tuple[str, str]:
        """Return ``(text, failed)`` of the current source, given the path, text and failure of the run's copy."""
        listing = source.listing
        if path.startswith(PACKAGED) or (not listing and not self._as_begun(path, text, failed)):
            return text, failed
        for candidate in self._places(path):
            _, now, fault = self._loader.read(LoadSource(str(candidate), listing=listing))
            if fault:
                continue
            if listing:
                return "\n".join(sorted({*text.splitlines(), *now.splitlines()})), ""
            return self._scrub(now), ""
        return text, failed

    def _as_begun(self, path: str, text: str, failed: str) -> bool:
        """Return whether the run left the source unchanged. It cannot write to sources outside the workspace."""
        if not is_below(path, self._workspace):
            return True
        inner = posixpath.relpath(path, self._workspace)
        if inner not in self._start:
            # then the file is in the folder under the overlay
            untouched = self._start.of_layer and inner not in self._latest
            return bool(failed) or untouched
        return not failed and self._scrub(self._start[inner].decode("utf-8-sig", "replace")) == text

    def _places(self, path: str) -> list[Path]:
        if path in (self._program, self._host_program):
            return [self._file]
        folders = map(posixpath.dirname, (self._program, self._host_program))  # a source can be relative to either
        paths = [self._file.parent / posixpath.relpath(path, each) for each in folders if is_below(path, each)]
        if is_below(path, self._workspace):
            return [*paths, Path(self._edited.subject) / posixpath.relpath(path, self._workspace)]
        return [*paths, Path(path)]


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
