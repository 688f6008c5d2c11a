"""Shows a small model the files of a run before its first step: their names, and those that the task mentions in full.

Small models act before they look: they edit files that they have not read and invent names of files that do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

from stackmem.core.budgets import FileShown, FirstLook
from stackmem.core.text import mark_cut

from ..ports import WorkspacePort

MAX_LISTING_CHARS = 1_024
MAX_FILES = 4
MAX_TRIES = 32
"""Words of the task that are tried as paths; a long task would open thousands of files."""
MAX_FILE_BYTES = 1_024
_READ_BYTES = 16_384
"""More than is shown: the workspace marks what it clips in the text itself, and a clipped file must not look whole."""
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*")


def first_look(workspace: WorkspacePort, task: str, scrub: Callable[[str], str]) -> FirstLook:
    """Return the listing of the workspace and the text of each short file that the task mentions."""
    listed = workspace.list_files(".", _READ_BYTES)
    listing = "" if listed.failed else mark_cut(scrub(listed.text), MAX_LISTING_CHARS)
    files: list[FileShown] = []
    for path in islice(_mentioned(task), MAX_TRIES):
        # A file over the limit is left out: the model would take its beginning for the whole file.
        if len(files) < MAX_FILES and (text := _short_text(workspace, path)):
            files.append(FileShown(path, scrub(text)))
    return FirstLook(listing, tuple(files))


def _mentioned(task: str) -> dict[str, None]:
    """Return the words of the task that can be the path of a file, in order of appearance."""
    words = (word.rstrip(".").removeprefix("./") for word in _PATH.findall(task))
    return dict.fromkeys(word for word in words if "." in word and ".." not in word)


def _short_text(workspace: WorkspacePort, path: str) -> str:
    """Return the whole text of a file, or an empty string if it does not exist or is longer than the limit."""
    read = workspace.read_file(path, None, None, _READ_BYTES)
    complete = not read.failed and len(read.text.encode()) <= MAX_FILE_BYTES
    return read.text if complete else ""
