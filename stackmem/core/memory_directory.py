"""The directory of the memory tool, whose files exist only in the state.

Rule 1: A command that fails changes nothing and says what would work.
Rule 2: A folder exists if it contains a file. Only ``/memories`` itself may be empty.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, assert_never

from msgspec import Meta, Struct

from .declarations import Behavior

ROOT = "/memories"
FILES = 64
TOTAL_CHARS = 100_000
PATH_CHARS = 200
_NEEDS = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}


MemoryCommand = Literal["view", "create", "str_replace", "insert", "delete", "rename"]


class Memory(Struct, frozen=True, tag="memory"):
    """Keep notes in the directory /memories, which outlives this conversation: at most 64 files with 100,000 characters
    in all. You see nothing of it until you view it.
    view: a folder's files, or a file with line numbers. create: a new file with file_text. str_replace: old_str, which
    must occur once, with new_str. insert: insert_text after line insert_line (0 for the start). delete: a file or
    folder. rename: old_path to new_path.
    """

    behavior: ClassVar[Behavior] = Behavior(while_closing=True)

    command: Annotated[MemoryCommand, Meta(description="What to do.")]
    path: Annotated[str | None, Meta(description="All commands but rename: a path under /memories.")] = None
    file_text: Annotated[str | None, Meta(description="create: the file's text.")] = None
    old_str: Annotated[str | None, Meta(description="str_replace: text that occurs exactly once.")] = None
    new_str: Annotated[str | None, Meta(description="str_replace: the replacement for old_str.")] = None
    insert_line: Annotated[int | None, Meta(description="insert: the line after which to insert, from 0.")] = None
    insert_text: Annotated[str | None, Meta(description="insert: the text.")] = None
    old_path: Annotated[str | None, Meta(description="rename: the old path.")] = None
    new_path: Annotated[str | None, Meta(description="rename: the new path.")] = None


class Directory(Struct, frozen=True):
    """Maps paths to texts. Every path begins with ``/memories/``."""

    files: dict[str, str] = {}

    @property
    def chars(self) -> int:
        return sum(map(len, self.files.values()))

    def under(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder and its subfolders, sorted."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))


class CommandOutcome(Struct, frozen=True):
    """The result of a command. With a ``fault``, nothing has changed."""

    directory: Directory
    text: str = ""
    fault: str = ""


_Change = tuple[dict[str, str], str]
"""The files after a command, and the text that the model reads."""


def carry_out(directory: Directory, call: Memory) -> CommandOutcome:
    """Return the directory after the command, and the text that the model reads."""
    needs = _NEEDS[call.command]
    missing = [name for name in needs if getattr(call, name) is None]
    if missing:
        fault = f"{call.command} needs {' and '.join(needs)}; {', '.join(missing)} is missing"
        return CommandOutcome(directory, fault=fault)
    paths = [getattr(call, name) for name in needs if name.endswith("path")]
    fault = next((fault for fault in map(_path_fault, paths) if fault), "")
    if fault:
        return CommandOutcome(directory, fault=fault)
    change = _run(directory, call, paths[0].rstrip("/"), paths[-1].rstrip("/"))
    if isinstance(change, str):
        return CommandOutcome(directory, fault=change)
    after = Directory(change[0])
    fault = _size_fault(directory, after)
    return CommandOutcome(directory, fault=fault) if fault else CommandOutcome(after, change[1])


def _run(directory: Directory, call: Memory, path: str, other: str) -> _Change | str:
    """Return what the command changes, or why it fails."""
    match call.command:
        case "view":
            return _view(directory, path)
        case "create":
            return _create(directory, path, call.file_text or "")
        case "str_replace":
            return _replace_text(directory, path, call.old_str or "", call.new_str or "")
        case "insert":
            return _insert(directory, path, call.insert_line or 0, call.insert_text or "")
        case "delete":
            return _delete(directory, path)
        case "rename":
            return _rename(directory, path, other)
        case _:
            assert_never(call.command)


def _path_fault(path: str) -> str:
    pieces = path.rstrip("/").split("/")
    if pieces[:2] != ["", "memories"] or any(piece in ("", ".", "..") for piece in pieces[1:]):
        return f"{path[:80]!r} is not a path under {ROOT}; give one such as {ROOT}/notes.md"
    if len(path) > PATH_CHARS or not path.isprintable():
        return f"the path has {len(path)} chars or unprintable ones; give at most {PATH_CHARS} plain ones"
    return ""


def _size_fault(before: Directory, after: Directory) -> str:
    if after.chars > TOTAL_CHARS and after.chars > before.chars:
        return f"the files would have {after.chars:,} characters, maximum is {TOTAL_CHARS:,}; shorten or delete some"
    if len(after.files) > max(FILES, len(before.files)):
        return f"there would be {len(after.files)} files, maximum is {FILES}; delete or merge some"
    return ""


def _no_file(directory: Directory, path: str) -> str:
    if directory.under(path) or path == ROOT:
        return f"{path} is a folder; name a file, or view it to see its files"
    listing = ", ".join(sorted(directory.files)[:5]) or "none yet, use create"
    return f"{path} does not exist; files: {listing}"


def _view(directory: Directory, path: str) -> _Change | str:
    files = directory.files
    if path in files:
        numbered = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(files[path].split("\n"), 1))
        return files, f"{path}, {len(files[path]):,} characters\n{numbered}"
    names = directory.under(path)
    if not names and path != ROOT:
        return _no_file(directory, path)
    head = f"{path}: {len(names)} files, {directory.chars:,} of {TOTAL_CHARS:,} characters used in all"
    return files, "\n".join([head, *(f"- {name} | {len(files[name]):,} chars" for name in names)])


def _create(directory: Directory, path: str, text: str) -> _Change | str:
    fault = _place_fault(directory, path)
    return fault or ({**directory.files, path: text}, f"created {path}, {len(text):,} characters")


def _place_fault(directory: Directory, path: str) -> str:
    """Return why no file can be created at this path."""
    if path in directory.files:
        return f"{path} exists; change it with str_replace or insert, or delete it first"
    if path == ROOT or directory.under(path):
        return f"{path} is a folder; name a file in it"
    parent_file = next((name for name in directory.files if path.startswith(f"{name}/")), "")
    return f"{parent_file} is a file, so nothing can be in it; choose another path" if parent_file else ""


def _replace_text(directory: Directory, path: str, old: str, new: str) -> _Change | str:
    if path not in directory.files:
        return _no_file(directory, path)
    count = directory.files[path].count(old) if old else 0
    if count != 1:
        fault = "is empty" if not old else f"occurs {count} times in {path}"
        return f"old_str {fault}; give text that occurs exactly once"
    return _rewrite(directory, path, directory.files[path].replace(old, new))


def _rewrite(directory: Directory, path: str, text: str) -> _Change:
    return {**directory.files, path: text}, f"changed {path}, now {len(text):,} characters"


def _insert(directory: Directory, path: str, line: int, text: str) -> _Change | str:
    if path not in directory.files:
        return _no_file(directory, path)
    lines = directory.files[path].splitlines(keepends=True)
    if not 0 <= line <= len(lines):
        return f"insert_line is {line}; give a number from 0 to {len(lines)}"
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += "\n"
    ended = text if text.endswith("\n") or line == len(lines) else text + "\n"
    return _rewrite(directory, path, "".join([*lines[:line], ended, *lines[line:]]))


def _delete(directory: Directory, path: str) -> _Change | str:
    if path == ROOT:
        return f"{ROOT} itself cannot be deleted; name a file or a folder in it"
    deleted = [path] if path in directory.files else directory.under(path)
    if not deleted:
        return _no_file(directory, path)
    remaining = {name: text for name, text in directory.files.items() if name not in deleted}
    return remaining, f"deleted {', '.join(deleted)}"


def _rename(directory: Directory, old: str, new: str) -> _Change | str:
    if old == ROOT:
        return f"{ROOT} itself cannot be renamed; name a file or a folder in it"
    moved = {old: new} if old in directory.files else {name: new + name[len(old) :] for name in directory.under(old)}
    if not moved:
        return _no_file(directory, old)
    if new.startswith(f"{old}/"):
        return f"{new} is in {old}; choose a path outside"
    fault = _place_fault(directory, new)
    if fault:
        return fault
    long = next((name for name in moved.values() if len(name) > PATH_CHARS), "")
    if long:
        return f"{long[:80]}… would have {len(long)} chars, maximum is {PATH_CHARS}; shorten it"
    return {moved.get(name, name): text for name, text in directory.files.items()}, f"renamed {old} to {new}"
