"""Files from strangers are opened only if they are regular, without blocking, and read up to a limit."""

import io
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stackmem.foreign import files
from stackmem.foreign.files import (
    bounded_blocks,
    bounded_lines,
    descriptor_of_regular,
    digest_of_regular,
    open_regular,
    read_regular,
    read_regular_text,
    read_start,
)

LIMIT = 1_000
READERS: dict[str, Callable[[Path], object]] = {
    "open_regular": lambda path: open_regular(path).close(),
    "read_regular": read_regular,
    "read_regular_text": read_regular_text,
    "read_start": lambda path: read_start(path, LIMIT),
    "digest_of_regular": lambda path: digest_of_regular(path, LIMIT),
    "append": lambda path: os.close(descriptor_of_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)),
    "truncate": lambda path: open(path, "wb", opener=files.opener_of_regular).close(),
}


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


SPECIAL: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "socket": a_socket,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", SPECIAL)
def test_a_special_file_is_refused_without_being_opened(tmp_path, monkeypatch, reader, kind):
    monkeypatch.chdir(tmp_path)
    SPECIAL[kind](tmp_path / "odd")

    def opened(*_: object, **__: object) -> int:
        raise AssertionError("opening some devices has effects")

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(OSError, match=f"it is a {kind}, not a regular file"):
        READERS[reader](tmp_path / "odd")


@pytest.mark.parametrize("reader", READERS)
def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path, monkeypatch, reader):
    """The file may be replaced between ``os.stat`` and the open."""
    place, look = tmp_path / "file", os.stat
    place.write_bytes(b"x")

    def replaced(path, **more):
        status = look(path, **more)
        if path == place or path == str(place):
            place.unlink()
            os.mkfifo(place)
        return status

    monkeypatch.setattr(os, "stat", replaced)
    with pytest.raises(OSError, match=r"not a regular file|No such device"):
        READERS[reader](place)


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none")


def test_a_link_is_followed_unless_it_must_not_be(tmp_path):
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"text"
    with pytest.raises(OSError, match="Too many levels"):
        read_regular(tmp_path / "link", follow=False)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert read_start("file", 3, follow=False, dir_fd=folder) == b"tex"
    finally:
        os.close(folder)


@pytest.mark.parametrize("reader", ["read_regular", "digest_of_regular"])
def test_three_terabytes_of_nothing_are_refused_by_their_size(tmp_path, monkeypatch, reader):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3 << 40)

    def read(*_: object) -> bytes:
        raise AssertionError("a byte of it was read")

    monkeypatch.setattr(files, "_read", read)
    with pytest.raises(OSError, match=r"larger than (256 MiB|1,000 bytes), the limit"):
        READERS[reader](tmp_path / "sparse")


class Growing(io.BytesIO):
    """An endless open file that counts how much was read."""

    name, taken = "growing", 0

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def read(self, size=-1):
        assert size >= 0, "read without a limit"
        self.taken += size
        return b"\n" * size

    def readline(self, size=-1):
        assert size is not None
        assert size >= 0, "read a whole line without a limit"
        self.taken += size
        return b"x" * size


@pytest.fixture
def growing(tmp_path, monkeypatch) -> Growing:
    """Replace every opened file with one that reports a size of 5 bytes, like a file that grows or lies."""
    (tmp_path / "file").write_bytes(b"12345")
    with (tmp_path / "file").open("rb") as small:
        file = Growing(small.fileno())
        monkeypatch.setattr(files, "open_regular", lambda *_, **__: file)
        yield file


def test_a_file_with_a_false_size_is_read_up_to_the_limit(growing):
    with pytest.raises(OSError, match="larger than 3 MiB, the limit"):
        read_regular("file", 3 << 20)
    assert growing.taken <= (3 << 20) + 1
    with pytest.raises(OSError, match="larger than 3 MiB"):
        for _ in bounded_blocks(growing, 3 << 20):
            pass
    assert growing.taken <= (8 << 20) + 1


def test_a_line_without_end_is_read_up_to_the_limit(growing):
    with pytest.raises(OSError, match="line 1 is longer than 2 MiB"):
        list(bounded_lines(growing, 2 << 20))
    assert growing.taken == (2 << 20) + 1


def test_a_file_of_the_kernel_is_read_whatever_its_size_says():
    assert Path("/proc/self/limits").stat().st_size == 0
    assert b"Max open files" in read_regular("/proc/self/limits")
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular("/proc/self/limits", 10)


def test_files_with_correct_sizes_are_read_completely(tmp_path):
    (tmp_path / "file").write_bytes(b"a\r\n\xc3\xa4\rb")
    assert read_regular(tmp_path / "file", 7) == b"a\r\n\xc3\xa4\rb"
    assert read_regular_text(tmp_path / "file") == (tmp_path / "file").read_text("utf-8")
    with open_regular(tmp_path / "file") as file:
        assert list(bounded_lines(file, 4)) == [b"a\r\n", b"\xc3\xa4\rb"]
    with open_regular(tmp_path / "file") as file:
        assert b"".join(bounded_blocks(file, 7)) == b"a\r\n\xc3\xa4\rb"


def test_created_files_are_private_to_their_owner(tmp_path):
    with open(tmp_path / "new", "wb", opener=files.opener_of_regular) as file:
        file.write(b"x")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
