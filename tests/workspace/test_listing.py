import json
import os

import pytest

from stackmem.workspace.tree import remove_tree
from tests.growth import spent
from tests.workspace.people import for_everyone
from tests.workspace.scenes import on_each_ground, scene


@for_everyone
def test_a_directory_is_listed_two_levels_deep_with_kinds_and_sizes(place):
    at = scene(place)
    (at.ws / "d" / "sub" / "deep").mkdir(parents=True)
    (at.ws / "a.py").write_text("12345")
    (at.ws / "link").symlink_to("d\n")
    listed = "a.py  (5 bytes)\nd/\nd/file  (6 bytes)\nd/sub/\nlink  (link to d\\n, not followed)"
    assert at.list().text == listed
    assert at.list("d").text == "d/file  (6 bytes)\nd/sub/\nd/sub/deep/"
    assert at.list("d/sub/deep").text == "[empty directory]"


@for_everyone
def test_a_link_to_where_one_is_is_not_followed(place):
    at = scene(place)
    for name, target in {"here": ".", "up": "..", "d/above": ".."}.items():
        (at.ws / name).symlink_to(target)
    names = [line.split("  (")[0] for line in at.list().text.splitlines()]
    assert names == ["d/", "d/above", "d/file", "here", "up"]


@for_everyone
def test_a_directory_that_cannot_be_read_is_reported_and_the_rest_listed(place):
    at = scene(place)
    (at.ws / "shut").mkdir(0)
    (at.ws / "z").touch()
    shut = "shut/" if os.geteuid() == 0 else "shut/  (not readable: Permission denied)"
    assert at.list().text == f"d/\nd/file  (6 bytes)\n{shut}\nz  (0 bytes)"
    if os.geteuid() != 0:
        assert at.list("shut").text.startswith("no permission to list 'shut'; ")
    (at.ws / "shut").chmod(0o700)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """A directory of 100,000 files."""
    place = tmp_path_factory.mktemp("crowd")
    at = scene(place)
    fd = os.open(at.ws / "d", os.O_RDONLY)
    for number in range(100_000):
        os.mknod(f"{number:06}", dir_fd=fd)
    os.close(fd)
    yield at
    remove_tree(place)


def test_a_hundred_thousand_entries_are_capped_quickly_and_the_rest_is_called_unknown(crowd):
    crowd.list("d")
    lines = crowd.files.list("d", shown_bytes=10**6).text.splitlines()
    shown = min(spent(lambda: crowd.files.list("d", shown_bytes=10**6)) for _ in range(5))
    assert shown < min(spent(lambda: sorted(os.listdir(crowd.ws / "d"))) for _ in range(5))
    assert len(lines) == 1 + 1000
    assert lines[0].startswith("[1000 entries shown, how many more there are is unknown; ")


def test_one_large_directory_does_not_crowd_out_the_others(crowd):
    (crowd.ws / "e").mkdir(exist_ok=True)
    (crowd.ws / "e" / "seen").touch()
    lines = crowd.list().text.splitlines()
    assert lines[1] == "d/  (not all is listed)"
    assert lines[-1] == "e/seen  (0 bytes)"
    assert len(lines) < 300


@on_each_ground
@for_everyone
def test_a_tree_of_three_thousand_levels_is_listed_two_levels_deep(place, opener):
    at = scene(place, opener)
    fd = os.open(at.ws, os.O_PATH)
    for _ in range(3000):
        os.mkdir("x", dir_fd=fd)
        below = os.open("x", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    assert at.list().text.splitlines()[-2:] == ["x/", "x/x/"]
    assert at.list("x/" * 500).text == "x/" * 501 + "\n" + "x/" * 502
    assert "too long" in at.list("x/" * 2900).text


def test_long_and_hostile_names_do_not_exceed_the_size_and_are_always_valid_text(tmp_path):
    at = scene(tmp_path)
    for number in range(900):
        os.mknod(os.fsencode(at.ws) + b"/" + b"\xff" * 250 + str(number).encode())
    text = at.list().text
    assert len(text.encode()) <= 32 * 1024
    assert text.startswith("[")
    assert json.loads(json.dumps(text).encode()) == text
    for shown_bytes in (0, 10, 300, 3000):
        assert len(at.files.list(".", shown_bytes).text.encode()) <= shown_bytes


class Rules:
    """Ignores every path with this name in it, and everything below."""

    def __init__(self, *names: bytes):
        self.names = names

    def ignored(self, paths: list[bytes]) -> set[bytes]:
        return {path for path in paths if any(name in path.rstrip(b"/").split(b"/") for name in self.names)}

    def close(self) -> None:
        pass


def test_what_is_ignored_is_left_out_and_named_and_shown_where_it_is_asked_for(place):
    at = scene(place)
    for name in ("build/out", "d/x.log", "x.log"):
        (at.ws / name).parent.mkdir(exist_ok=True)
        (at.ws / name).write_text("1")
    at.files.rules = lambda: Rules(b"build", b"x.log")
    assert at.list().text == "d/\nd/file  (6 bytes)\n[left out, as .gitignore says: build/, x.log, d/x.log]"
    assert at.list("build").text == "build/out  (1 bytes)"
    at.files.rules = lambda: Rules(b"build", b"x.log", b"d")
    assert at.list().text == "[left out, as .gitignore says: build/, d/, x.log]"
