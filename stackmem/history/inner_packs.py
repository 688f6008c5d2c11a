"""The packs of a copy's own repository: made of another one's objects, and each object hashed again.

Rule 1: in a layer commands find them on a mount of their own, read-only. Git touches the pack of an object that it is
    to write and that is there already, and the layer would answer each touch by a copy of the whole pack.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path

from msgspec import Struct

from stackmem.errors import WorkspaceError

from .git import ANSWER_SECONDS, HER_SECONDS, git, store_environment
from .origin import Origin
from .pack_cache import PackCache

LENT_AT = "/opt/stackmem/history"
"""Where commands find the objects that a repository borrows."""


class InnerGit(Struct, frozen=True):
    """The repository that is being made, asked with the objects of the other one in sight."""

    origin: Origin
    path: Path

    def ask(self, *arguments: str, stdin: bytes = b"", seconds: float = HER_SECONDS) -> bytes:
        return git(*arguments, cwd=self.path, environment=self.seeing(), stdin=stdin, seconds=seconds)

    def alone(self, *arguments: str, stdin: bytes = b"", seconds: float = HER_SECONDS) -> bytes:
        """Asked about the other one's work tree, without its objects."""
        at = store_environment(self.path) | {"GIT_WORK_TREE": os.fspath(self.origin.root)}
        return git(*arguments, cwd=self.origin.root, environment=at, stdin=stdin, seconds=seconds)

    def seeing(self) -> dict[str, str]:
        objects = os.fspath(self.origin.common / "objects").replace("\\", "\\\\").replace('"', '\\"')
        return store_environment(self.path) | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"'}


def packed_before(
    inner: InnerGit, made_from: str, cache: PackCache, objects: Collection[str], unseen: set[str]
) -> frozenset[str]:
    """The objects in the packs of an earlier run, which are here then; none where one of them is not to be seen now."""
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
        # It hashes each of them, and sees nothing else.
        inner.alone("index-pack", str(place / f"pack-{name}.pack"), seconds=ANSWER_SECONDS)
        left, there = set(names), 0
        for found in _names_in(inner, place / f"pack-{name}.idx"):
            left.discard(found)
            there += 1
        if left or there != len(names):
            raise WorkspaceError(f"an object of {inner.origin.root} is not what its name says; git fsck tells more")


def lend_packs(repository: Path, objects: Path) -> None:
    """Move the packs of a whole repository to a folder of objects; it borrows them from ``LENT_AT``."""
    (objects / "pack").mkdir(parents=True)
    for part in (repository / "objects" / "pack").iterdir():
        part.rename(objects / "pack" / part.name)
    (repository / "objects" / "info").mkdir(exist_ok=True)
    (repository / "objects" / "info" / "alternates").write_text(f"{LENT_AT}\n", "utf-8")
