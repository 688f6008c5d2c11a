"""The directory of the memory tool: files that are nothing but state.

Rule 1: a command that cannot be done changes nothing and says what can.
Rule 2: folders are where files are; an empty one does not exist, but for ``/memories`` itself.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from .tools import Memory

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


class Directory(Struct, frozen=True):
    """Path to text; every path begins with ``/memories/``."""

    files: dict[str, str] = {}

    @property
    def chars(self) -> int:
        return sum(map(len, self.files.values()))

    def under(self, folder: str) -> list[str]:
        """The files in a folder and below, by name."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/"))


class Outcome(Struct, frozen=True):
    """What a command comes to; with a ``fault`` nothing has changed."""

    directory: Directory
    text: str = ""
    fault: str = ""


def carry_out(directory: Directory, call: Memory) -> Outcome:
    """The directory after the command, and what the model is told."""
    needs = _NEEDS[call.command]
    missing = [name for name in needs if getattr(call, name) is None]
    if missing:
        return Outcome(directory, fault=f"{call.command} needs {' and '.join(needs)}; {', '.join(missing)} is missing")
    paths = [getattr(call, name) for name in needs if name.endswith("path")]
    faults = [fault for fault in map(_path_fault, paths) if fault]
    if faults:
        return Outcome(directory, fault=faults[0])
    path = paths[0].rstrip("/")
    outcome = _done(directory, call, path, paths[-1].rstrip("/"))
    too_much = "" if outcome.fault else _too_much(directory, outcome.directory)
    return Outcome(directory, fault=too_much) if too_much else outcome


def _done(directory: Directory, call: Memory, path: str, other: str) -> Outcome:
    match call.command:
        case "view":
            return _view(directory, path)
        case "create":
            return _created(directory, path, call.file_text or "")
        case "str_replace":
            return _replaced(directory, path, call.old_str or "", call.new_str or "")
        case "insert":
            return _inserted(directory, path, call.insert_line or 0, call.insert_text or "")
        case "delete":
            return _deleted(directory, path)
        case "rename":
            return _renamed(directory, path, other)
        case _:
            assert_never(call.command)


def _path_fault(path: str) -> str:
    pieces = path.rstrip("/").split("/")
    if pieces[:2] != ["", "memories"] or any(piece in ("", ".", "..") for piece in pieces[1:]):
        return f"{path[:80]!r} is no path under {ROOT}; give one such as {ROOT}/notes.md"
    if len(path) > PATH_CHARS or not path.isprintable():
        return f"the path has {len(path)} chars or some that cannot be shown; give at most {PATH_CHARS} plain ones"
    return ""


def _too_much(before: Directory, after: Directory) -> str:
    if after.chars > TOTAL_CHARS and after.chars > before.chars:
        return f"the files would hold {after.chars:,} characters, maximum is {TOTAL_CHARS:,}; shorten or delete some"
    if len(after.files) > max(FILES, len(before.files)):
        return f"there would be {len(after.files)} files, maximum is {FILES}; delete or merge some"
    return ""


def _missing(directory: Directory, path: str) -> Outcome:
    if directory.under(path) or path == ROOT:
        return Outcome(directory, fault=f"{path} is a folder; name a file, or view it to see its files")
    known = ", ".join(sorted(directory.files)[:5]) or "none yet, create makes a first one"
    return Outcome(directory, fault=f"there is no {path}; files: {known}")


def _view(directory: Directory, path: str) -> Outcome:
    if path in directory.files:
        lines = directory.files[path].split("\n")
        numbered = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, 1))
        return Outcome(directory, f"{path}, {len(directory.files[path]):,} characters\n{numbered}")
    found = directory.under(path)
    if not found and path != ROOT:
        return _missing(directory, path)
    head = f"{path}: {len(found)} files, {directory.chars:,} of {TOTAL_CHARS:,} characters used in all"
    return Outcome(
        directory, "\n".join([head, *(f"- {name} | {len(directory.files[name]):,} chars" for name in found)])
    )


def _created(directory: Directory, path: str, text: str) -> Outcome:
    fault = _taken(directory, path)
    if fault:
        return Outcome(directory, fault=fault)
    return Outcome(Directory({**directory.files, path: text}), f"created {path}, {len(text):,} characters")


def _taken(directory: Directory, path: str) -> str:
    """Why no file can be made there."""
    if path in directory.files:
        return f"{path} exists; change it by str_replace or insert, or delete it first"
    if path == ROOT or directory.under(path):
        return f"{path} is a folder; name a file in it"
    above = next((name for name in directory.files if path.startswith(f"{name}/")), "")
    return f"{above} is a file, so nothing can be in it; choose another path" if above else ""


def _replaced(directory: Directory, path: str, old: str, new: str) -> Outcome:
    if path not in directory.files:
        return _missing(directory, path)
    count = directory.files[path].count(old) if old else 0
    if count != 1:
        told = "is empty" if not old else f"occurs {count} times in {path}"
        return Outcome(directory, fault=f"old_str {told}; give text that occurs exactly once")
    text = directory.files[path].replace(old, new)
    return Outcome(Directory({**directory.files, path: text}), f"changed {path}, now {len(text):,} characters")


def _inserted(directory: Directory, path: str, line: int, text: str) -> Outcome:
    if path not in directory.files:
        return _missing(directory, path)
    lines = directory.files[path].splitlines(keepends=True)
    if not 0 <= line <= len(lines):
        return Outcome(directory, fault=f"insert_line is {line}; give a number from 0 to {len(lines)}")
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += "\n"
    ended = text if text.endswith("\n") or line == len(lines) else text + "\n"
    changed = "".join([*lines[:line], ended, *lines[line:]])
    return Outcome(Directory({**directory.files, path: changed}), f"changed {path}, now {len(changed):,} characters")


def _deleted(directory: Directory, path: str) -> Outcome:
    gone = [path] if path in directory.files else directory.under(path)
    if path == ROOT:
        return Outcome(directory, fault=f"{ROOT} itself cannot be deleted; name a file or a folder in it")
    if not gone:
        return _missing(directory, path)
    left = {name: text for name, text in directory.files.items() if name not in gone}
    return Outcome(Directory(left), f"deleted {', '.join(gone)}")


def _renamed(directory: Directory, old: str, new: str) -> Outcome:
    moved = {old: new} if old in directory.files else {name: new + name[len(old) :] for name in directory.under(old)}
    if old == ROOT:
        return Outcome(directory, fault=f"{ROOT} itself cannot be renamed; name a file or a folder in it")
    if not moved:
        return _missing(directory, old)
    fault = _taken(directory, new) if not new.startswith(f"{old}/") else f"{new} is in {old}; choose a path outside"
    if fault:
        return Outcome(directory, fault=fault)
    long = next((name for name in moved.values() if len(name) > PATH_CHARS), "")
    if long:
        return Outcome(
            directory, fault=f"{long[:80]}… would have {len(long)} chars, maximum is {PATH_CHARS}; shorten it"
        )
    files = {moved.get(name, name): text for name, text in directory.files.items()}
    return Outcome(Directory(files), f"renamed {old} to {new}")
