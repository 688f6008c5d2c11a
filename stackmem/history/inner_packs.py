"""Packs for a copy's repository, built from the user's repository with every object hashed again.

Rule 1: In an overlay, the packs are on a separate read-only mount. When git writes an object that already exists, it
    touches the pack, and each touch would make the overlay copy the whole pack.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError

from .git import ANSWER_SECONDS, USER_GIT_SECONDS, git, store_environment
from .origin import Origin
from .pack_cache import PackCache

LENT_AT = "/opt/stackmem/history"
"""Mount point of the objects that a repository borrows."""


class InnerGit(Struct, frozen=True):
    """The repository being created, with access to the objects of the user's repository."""

    origin: Origin
    path: Path

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = USER_GIT_SECONDS) -> bytes:
        return git(*arguments, cwd=self.path, environment=self.seeing(), stdin=stdin, seconds=seconds)

    def alone(self, *arguments: str, stdin: bytes = b"", seconds: float = USER_GIT_SECONDS) -> bytes:
        """Query the user's work tree without access to its objects."""
        at = store_environment(self.path) | {"GIT_WORK_TREE": os.fspath(self.origin.root)}
        return git(*arguments, cwd=self.origin.root, environment=at, stdin=stdin, seconds=seconds)

    def seeing(self) -> dict[str, str]:
        objects = os.fspath(self.origin.common / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return store_environment(self.path) | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'}


def packed_before(
    inner: InnerGit, made_from: str, cache: PackCache, objects: Collection[str], unseen: set[str]
) -> frozenset[str]:
    """Copy the packs of an earlier run and return their objects; none if one must not be visible now."""
    packs = inner.path / "objects" / "pack"
    if not cache.take_like(made_from, packs):
        return frozenset()
    there = frozenset(name for index in packs.glob("*.idx") for name in _names_in(inner, index))
    if there.issubset(objects) and there.isdisjoint(unseen):
        return there
    for part in packs.iterdir():
        part.unlink()
    return frozenset()


def _names_in(inner: InnerGit, index: Path) -> Iterator[str]:
    return (line.split()[1].decode() for line in BytesIO(inner.alone("show-index", stdin=index.read_bytes())))


def pack(inner: InnerGit, names: list[str]) -> None:
    """Pack these objects."""
    place = inner.path / "objects" / "pack"
    arguments = ("pack-objects", "-q", "--non-empty", "--window=0", "--delta-base-offset", "--compression=1")
    wanted = "\n".join(names).encode() + b"\n"
    made = inner.ask(*arguments, str(place / "pack"), stdin=wanted, seconds=ANSWER_SECONDS)
    del wanted
    for name in made.decode().split():
        for suffix in ("idx", "rev"):
            (place / f"pack-{name}.{suffix}").unlink(missing_ok=True)
        # index-pack hashes every object, and has no access to other objects.
        inner.alone("index-pack", str(place / f"pack-{name}.pack"), seconds=ANSWER_SECONDS)
        left, there = set(names), 0
        for found in _names_in(inner, place / f"pack-{name}.idx"):
            left.discard(found)
            there += 1
        if left or there != len(names):
            raise WorkspaceError(f"an object of {inner.origin.root} is damaged; run git fsck there for details")


def lend_packs(repository: Path, objects: Path) -> None:
    """Move the packs of a complete repository to a folder that it then borrows at ``LENT_AT``."""
    (objects / "pack").mkdir(parents=True)
    for part in (repository / "objects" / "pack").iterdir():
        part.rename(objects / "pack" / part.name)
    (repository / "objects" / "info").mkdir(exist_ok=True)
    (repository / "objects" / "info" / "alternates").write_text(f"{LENT_AT}\n", "utf-8")
