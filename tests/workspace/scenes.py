"""A workspace and what lies around it, as the hostile cases need them."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from stackmem.workspace.beneath import open_by_kernel, open_by_walk, opener_for
from stackmem.workspace.files import Files

SECRET = "the secret"
SHOWN = 32 * 1024
RENAME_EXCHANGE = 2


def _has_openat2() -> bool:
    root = os.open("/", os.O_PATH)
    try:
        return opener_for(root) is open_by_kernel
    finally:
        os.close(root)


OPENERS = [
    pytest.param(
        open_by_kernel, id="kernel", marks=pytest.mark.skipif(not _has_openat2(), reason="openat2 is refused")
    ),
    pytest.param(open_by_walk, id="walk"),
]
each_opener = pytest.mark.parametrize("opener", OPENERS)


class Scene(Struct, frozen=True):
    """``ws`` is the workspace, known as ``/workspace``; ``outside`` holds ``file`` with the secret."""

    ws: Path
    outside: Path
    files: Files

    def read(self, path, start_line=None, end_line=None, shown_bytes=SHOWN):
        return self.files.read(path, start_line, end_line, shown_bytes)

    def write(self, path, content="new"):
        return self.files.write(path, content)

    def list(self, path="."):
        return self.files.list(path)

    def digest(self, path):
        return self.files.digest(path)

    def untouched(self) -> bool:
        """Outside is as it was made."""
        return os.listdir(self.outside) == ["file"] and (self.outside / "file").read_text() == SECRET


def scene(place: Path, opener=None, inside="/workspace") -> Scene:
    ws, outside = place / "ws", place / "outside"
    ws.mkdir()
    outside.mkdir()
    (outside / "file").write_text(SECRET)
    (ws / "d").mkdir()
    (ws / "d" / "file").write_text("inside")
    return Scene(ws, outside, Files(ws, inside, opener))


@contextlib.contextmanager
def flipping(one: Path, other: Path) -> Iterator[None]:
    """Meanwhile a child exchanges the two names as fast as it can."""
    exchange = ctypes.CDLL(None).renameat2
    names = os.fsencode(one), os.fsencode(other)
    child = os.fork()
    if child == 0:
        while True:
            exchange(-100, names[0], -100, names[1], RENAME_EXCHANGE)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
