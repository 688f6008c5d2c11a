"""Files that the user mentions in a line: ``@path``, ``@"a path"``, ``@path:10`` and ``@path:10-40``. The completion of
a line: commands, mentions and paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from stackmem.run.ports import UserFile

from .commands import HELP

_MENTION = re.compile(
    r'(?<!\S)@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+?))'
    r"(?::(?P<first>[1-9]\d{0,8})(?:-(?P<last>[1-9]\d{0,8}))?)?(?=[,;.!?)]*(?:\s|$))"
)
_TYPED = re.compile(r'(?<!\S)@(?P<quote>"?)(?P<path>[^"\n]*)$')
_MAX_MENTIONS = 20


def mentions(words: str, folder: Path, is_file_of_agent: Callable[[str], bool]) -> tuple[list[UserFile], list[str]]:
    """Return the files and folders that the words mention, and messages about those that cannot be attached.

    A word such as ``@property`` that names no file is an ordinary word.
    """
    files: list[UserFile] = []
    messages: list[str] = []
    for match in _MENTION.finditer(words):
        path = match["quoted"] or match["bare"]
        first, last = match["first"], match["last"]
        target = folder / path
        try:
            is_folder, exists = target.is_dir(), target.exists()
            is_inside = target.resolve().is_relative_to(folder.resolve())
        except (OSError, ValueError):
            continue
        if not is_inside:
            if exists:
                messages.append(f"not attached: {path} is outside of the folder")
            continue
        if not exists and not is_file_of_agent(path):
            continue
        if first and last and int(last) < int(first):
            messages.append(f"not attached: {match[0]} ends before it begins")
            continue
        name = f"{path.rstrip('/')}/" if is_folder else path
        lines = (int(first), int(last or first)) if first and not is_folder else (None, None)
        files.append(UserFile(name, *lines))
    if len(files) > _MAX_MENTIONS:
        messages.append(f"attached the first {_MAX_MENTIONS} of {len(files):,} files; attach a folder instead")
    return files[:_MAX_MENTIONS], messages


def is_mention(before: str) -> bool:
    """Return whether the text before the cursor ends in a mention."""
    match = _TYPED.search(before)
    return match is not None and (bool(match["quote"]) or " " not in match["path"])


class MentionCompleter:
    """Completes a path after ``@``. Names with characters that a terminal cannot show are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = PathCompleter(get_paths=lambda: [str(folder)])

    def completions(self, before: str, event: CompleteEvent) -> Iterator[Completion]:
        match = _TYPED.search(before)
        if match is None or match["path"].startswith(("/", "~")):
            return
        typed = match["path"]
        for each in self._files.get_completions(Document(typed), event):
            path = typed + each.text
            name = path.rpartition("/")[2]
            if not path.isprintable() or '"' in path or (name.startswith(".") and not typed.rpartition("/")[2]):
                continue
            is_folder = (self._folder / path).is_dir()
            label = f"{path}/" if is_folder else path
            word = f'@"{label}' + ("" if is_folder else '"') if " " in path else f"@{label}"
            yield Completion(word, start_position=-len(match[0]), display=f"{name}/" if is_folder else name)


class ChatCompleter(Completer):
    """Completes commands at the start of a line, and files of the folder elsewhere."""

    def __init__(self, folder: Path, more: Mapping[str, str] | None = None) -> None:
        self._help = HELP | dict(more or {})
        self._files = PathCompleter(get_paths=lambda: [str(folder)])
        self._mentions = MentionCompleter(folder)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and " " not in before:
            yield from (
                Completion(name, start_position=-len(before), display_meta=says)
                for name, says in self._help.items()
                if name.startswith(before)
            )
            return
        if is_mention(before):
            yield from self._mentions.completions(before, complete_event)
            return
        word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
        yield from self._files.get_completions(Document(word), complete_event)
