"""Packs for a copy's repository, built from the user's repository with every object hashed again.

Rule 1: The pack is built first. Then one reading checks the digests of its objects and searches its files for secrets,
    so that what is checked is what the run gets.
Rule 2: In an overlay, the packs are on a separate read-only mount. When git writes an object that already exists, it
    touches the pack, and each touch would make the overlay copy the whole pack.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from io import BytesIO
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import WorkspaceError

from .git import ANSWER_SECONDS, USER_GIT_SECONDS, git, git_stream, store_environment
from .origin import Origin
from .pack_cache import PackCache

# maximum size of one blob; blobs that cannot be searched for secrets are excluded
_MAX_SEARCHED_BYTES = 64 * 1024 * 1024
_BATCH_BYTES = 1024 * 1024
_SHA256_DIGITS = 64

LENT_AT = "/opt/stackmem/history"
"""Mount point of the objects that a repository borrows."""


class InnerGit(Struct, frozen=True):
    """The repository being created, with access to the objects of the user's repository."""

    origin: Origin
    path: Path
    partial: bool = False  # whether it is an addition to a repository that has the other objects

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = USER_GIT_SECONDS) -> bytes:
        return git(*arguments, cwd=self.path, environment=self.seeing(), stdin=stdin, seconds=seconds)

    def alone(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Query the user's work tree, without access to its objects unless these are the other ones."""
        environment = self.seeing() if self.partial else store_environment(self.path)
        at = environment | {"GIT_WORK_TREE": os.fspath(self.origin.root)}
        return git(*arguments, cwd=self.origin.root, environment=at, stdin=stdin, seconds=USER_GIT_SECONDS)

    def seeing(self) -> dict[str, str]:
        objects = os.fspath(self.origin.common / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return store_environment(self.path) | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'}


def packed_before(
    inner: InnerGit, made_from: str, cache: PackCache, objects: Collection[str], excluded: set[str]
) -> frozenset[str]:
    """Copy the packs of an earlier run and return their objects; none if one must not be visible now."""
    packs = inner.path / "objects" / "pack"
    if not cache.take_like(made_from, packs):
        return frozenset()
    there = frozenset(name for index in packs.glob("*.idx") for name in _names_in(inner, index))
    if there.issubset(objects) and there.isdisjoint(excluded):
        return there
    for part in packs.iterdir():
        part.unlink()
    return frozenset()


def _names_in(inner: InnerGit, index: Path) -> Iterator[str]:
    return (line.split()[1].decode() for line in BytesIO(inner.alone("show-index", stdin=index.read_bytes())))


def pack(inner: InnerGit, names: list[str]) -> list[Path]:
    """Pack these objects of the user's repository and return the files. ``read_packed`` must check their content.

    Raise WorkspaceError if the packs do not contain exactly these objects.
    """
    return _packed(inner, names, inner.seeing())


def pack_again(inner: InnerGit, names: list[str], old: list[Path]) -> None:
    """Replace a pack by one with only these of its objects."""
    new_packs = _packed(inner, names, store_environment(inner.path))
    for path in old:
        if path not in new_packs:
            path.unlink()


def _packed(inner: InnerGit, names: list[str], environment: dict[str, str]) -> list[Path]:
    folder = inner.path / "objects" / "pack"
    arguments = ("pack-objects", "-q", "--non-empty", "--window=0", "--delta-base-offset", "--compression=1")
    output = git(
        *arguments, str(folder / "pack"), cwd=inner.path, environment=environment,
        stdin="\n".join(names).encode() + b"\n", seconds=ANSWER_SECONDS,
    )  # fmt: skip
    packs = output.decode().split()
    missing, there = set(names), 0
    for object_id in (each for name in packs for each in _names_in(inner, folder / f"pack-{name}.idx")):
        missing.discard(object_id)
        there += 1
    if missing or there != len(names):
        raise _damaged(inner)
    return [path for name in packs for path in folder.glob(f"pack-{name}.*")]


def read_packed(inner: InnerGit, names: list[str], holds_secret: Callable[[bytes], bool]) -> set[str]:
    """Read these objects from the repository's own packs. Returns the blobs with a secret or too large to search.

    Raises ``WorkspaceError`` if the content of an object does not match its name, which is its digest.
    """
    result: set[str] = set()
    batch: list[tuple[str, bytes]] = []
    room = _BATCH_BYTES
    digest_of = hashlib.sha256 if len(inner.origin.head) == _SHA256_DIGITS else hashlib.sha1

    def search() -> None:
        # search small files in batches, because most contain no secret
        if holds_secret(b"\0".join(content for _, content in batch)):
            result.update(name for name, content in batch if holds_secret(content))
        batch.clear()

    environment = store_environment(inner.path)
    stdin = "\n".join(names).encode()
    try:
        with git_stream(
            "cat-file", "--batch", "--buffer", cwd=inner.path, environment=environment, stdin=stdin
        ) as answers:
            while line := answers.readline():
                name, kind, *rest = line.decode().split()
                if not rest:
                    raise _damaged(inner)
                remaining = int(rest[0])
                digest = digest_of(f"{kind} {remaining}\0".encode(), usedforsecurity=False)
                large = remaining > _MAX_SEARCHED_BYTES
                while large and remaining:
                    part = answers.read(min(_BATCH_BYTES, remaining))
                    digest.update(part)
                    remaining -= len(part)
                content = answers.read(remaining + 1)[:-1]
                digest.update(content)
                if digest.hexdigest() != name:
                    raise _damaged(inner)
                if kind != "blob":
                    continue
                if large:
                    result.add(name)
                    continue
                batch.append((name, content))
                room -= len(content)
                if room < 0:
                    search()
                    room = _BATCH_BYTES
            search()
    except WorkspaceError as error:
        raise _damaged(inner) from error
    return result


def blobs_among(inner: InnerGit, names: Collection[str]) -> set[str]:
    """Return those of these objects that are blobs."""
    if not names:
        return set()
    listed = inner.ask("cat-file", "--batch-check", stdin="\n".join(names).encode() + b"\n", seconds=ANSWER_SECONDS)
    parts = (line.decode().split() for line in listed.splitlines())
    return {name for name, kind, *_ in parts if kind == "blob"}


def _damaged(inner: InnerGit) -> WorkspaceError:
    return WorkspaceError(f"an object of {inner.origin.root} is damaged; run git fsck there for details")


def lend_packs(repository: Path, objects: Path) -> None:
    """Move the packs of a complete repository to a folder that it then borrows at ``LENT_AT``.

    Raise OSError if the packs cannot be moved.
    """
    (objects / "pack").mkdir(parents=True)
    for part in (repository / "objects" / "pack").iterdir():
        part.rename(objects / "pack" / part.name)
    (repository / "objects" / "info").mkdir(exist_ok=True)
    (repository / "objects" / "info" / "alternates").write_text(f"{LENT_AT}\n", "utf-8")
