"""A commit of somebody's clone as files, and what a patch makes of it; the clone itself is only read.

Nothing that a repository may configure is run: files are taken as the objects they are, without filters or hooks,
what is missing is not fetched (a clone may say by which program), and what a patch makes is kept in an object store of
our own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path, PurePosixPath

from msgspec import Struct

from stackmem.errors import UsageError

_SECONDS = 300
_SAFE = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "safe.directory=*", "core.protectNTFS=false")


class CloneEntry(Struct, frozen=True):
    """A file of a tree: its git mode, the id of its content, its path."""

    mode: str
    id: str
    path: str


class Clone:
    """A local clone, with a store of our own for what patches make."""

    def __init__(self, place: Path, scratch: Path) -> None:
        """Raises ``UsageError`` where ``place`` is no repository, or git is missing."""
        self._program = shutil.which("git") or ""
        if not self._program:
            raise UsageError("git is not installed; install it to read a clone")
        self._place = place
        self._objects = scratch / "objects"
        self._objects.mkdir(parents=True)
        self._index = scratch / "index"
        self._own: Path | None = None
        self._own = Path(self._git("rev-parse", "--path-format=absolute", "--git-path", "objects").decode().strip())

    def files(self, commit: str) -> dict[str, CloneEntry]:
        """Every file of a commit by its path; submodules are left out.

        Raises:
            UsageError: The clone does not have it.
        """
        try:
            told = self._git("ls-tree", "-r", "-z", "--full-tree", f"{commit}^{{commit}}")
        except UsageError as error:
            raise UsageError(f"the clone {self._place} does not have the commit {commit}; fetch it there") from error
        return _entries(told, fields=3)

    def patched(self, commit: str, *patches: str) -> dict[str, CloneEntry]:
        """Every file of the commit once the patches are applied, one after the other.

        Raises:
            UsageError: One does not apply.
        """
        self._index.unlink(missing_ok=True)
        self._git("read-tree", f"{commit}^{{commit}}")
        for patch in filter(str.strip, patches):
            text = patch if patch.endswith("\n") else f"{patch}\n"
            self._git("apply", "--cached", "--whitespace=nowarn", "-", given=text.encode("utf-8", "surrogateescape"))
        told = self._git("ls-files", "-s", "-z")
        return _entries(told, fields=3, id_at=1)

    def write(self, entries: dict[str, CloneEntry], folder: Path) -> None:
        """Write the files; links last, so that none is written through."""
        contents = self._contents({entry.id for entry in entries.values()})
        for entry in sorted(entries.values(), key=lambda one: (one.mode == "120000", one.path)):
            path, content = folder / entry.path, contents[entry.id]
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.mode == "120000":
                path.symlink_to(os.fsdecode(content))
            else:
                path.write_bytes(content)
                path.chmod(0o755 if entry.mode == "100755" else 0o644)

    def _contents(self, ids: set[str]) -> dict[str, bytes]:
        """The content of each object: ``ID blob SIZE``, a line, the bytes, a line's end."""
        told = self._git("cat-file", "--batch", given="".join(f"{one}\n" for one in sorted(ids)).encode())
        found, at = {}, 0
        while at < len(told):
            end = told.index(b"\n", at)
            name, kind, *size = told[at:end].decode().split()
            if kind == "missing":
                raise UsageError(f"the clone {self._place} lacks the object {name}; fetch all of it there")
            if kind != "blob":
                raise UsageError(f"the object {name} of {self._place} is no file's content")
            length = int(size[0])
            found[name] = told[end + 1 : end + 1 + length]
            at = end + 2 + length
        return found

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        settings = [word for setting in _SAFE for word in ("-c", setting)]
        environment = {
            "PATH": os.defpath, "HOME": "/nonexistent", "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "none",
            "GIT_INDEX_FILE": str(self._index),
        }  # fmt: skip
        if self._own is not None:
            environment |= {
                "GIT_OBJECT_DIRECTORY": str(self._objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._own)
            }  # fmt: skip
        try:
            done = subprocess.run(
                [self._program, *settings, *arguments], cwd=self._place, env=environment, input=given,
                capture_output=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"git cannot read {self._place} ({error}); name a local clone by --repo") from error
        if done.returncode:
            told = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UsageError(
                f"git {arguments[0]} failed in {self._place}: {told[0][:300] if told else 'it says nothing'}"
            )
        return done.stdout


def _entries(told: bytes, fields: int, id_at: int = 2) -> dict[str, CloneEntry]:
    found = {}
    for line in filter(None, told.split(b"\0")):
        head, _, name = line.partition(b"\t")
        words = head.decode().split()
        path = os.fsdecode(name)
        parts = PurePosixPath(path).parts
        if ".." in parts or PurePosixPath(path).is_absolute() or any(part.lower() == ".git" for part in parts):
            raise UsageError(f"the repository holds a file named {path!r}, which leads out of it")
        if words[0] != "160000" and len(words) == fields:
            found[path] = CloneEntry(words[0], words[id_at], path)
    return found
