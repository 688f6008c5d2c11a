"""A workspace and its surroundings for the hostile cases."""

import contextlib
import ctypes
import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from stackmem.foreign.beneath import Opener, open_by_kernel, open_by_walk, opener_for
from stackmem.history.layer import Overlay, make_upper
from stackmem.workspace.files import Files
from tests.conftest import CAMPAIGN

SECRET = "the secret"
SHOWN = 32 * 1024
RENAME_EXCHANGE = 2


def _has_openat2() -> bool:
    root = os.open("/", os.O_PATH)
    try:
        return opener_for(root) is open_by_kernel
    finally:
        os.close(root)


class OnLayer(Struct, frozen=True):
    """The workspace is a layer over a folder, and paths in it are resolved there."""

    opener: Opener


OPENERS = [
    pytest.param(
        open_by_kernel, id="kernel", marks=pytest.mark.skipif(not _has_openat2(), reason="openat2 is refused")
    ),
    pytest.param(open_by_walk, id="walk"),
]
each_opener = pytest.mark.parametrize("opener", OPENERS)
LAYERED = [pytest.param(OnLayer(open_by_kernel), id="on a layer", marks=OPENERS[0].marks)]
on_each_ground = pytest.mark.parametrize("opener", [*OPENERS, *LAYERED])
raced_on_each_ground = on_each_ground if CAMPAIGN else each_opener
"""A race takes seconds for each way."""


class Scene(Struct, frozen=True):
    """``ws`` is the workspace, visible as ``/workspace``; ``outside`` contains ``file`` with the secret."""

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
        """Check that the outside folder is unchanged."""
        return os.listdir(self.outside) == ["file"] and (self.outside / "file").read_text() == SECRET


def scene(place: Path, opener=None, inside="/workspace") -> Scene:
    if isinstance(opener, OnLayer):
        return _scene_on_layer(place, opener.opener, inside)
    ws, outside = place / "ws", place / "outside"
    ws.mkdir()
    outside.mkdir()
    (outside / "file").write_text(SECRET)
    (ws / "d").mkdir()
    (ws / "d" / "file").write_text("inside")
    return Scene(ws, outside, Files(ws, inside, opener))


def _scene_on_layer(place: Path, opener: Opener, inside: str) -> Scene:
    """The same, with ``d`` over a folder of that name; ``ws`` is a host path into the layer."""
    below, outside = place / "below", place / "outside"
    for folder in (below, outside):
        folder.mkdir()
    (outside / "file").write_text(SECRET)
    (below / "d").mkdir()
    (below / "d" / "file").write_text("what the run took away")
    make_upper(below, place)
    over = Overlay(below, place, ())
    files = Files(over.view.fd, inside, opener)
    weakref.finalize(files, over.close)
    ws = Path(f"/proc/self/fd/{over.view.fd}")
    (ws / "d" / "file").unlink()
    (ws / "d").rmdir()
    (ws / "d").mkdir()  # owned by the run, so that it can be renamed
    (ws / "d" / "file").write_text("inside")
    return Scene(ws, outside, files)


@contextlib.contextmanager
def flipping(one: Path, other: Path) -> Iterator[None]:
    """Exchange the two names in a child process as fast as possible."""
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
