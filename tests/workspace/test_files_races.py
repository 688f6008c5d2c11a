"""A command that changes the tree while the file tools use it.

Each race runs for its count or seconds, and then until the attacker was seen on both sides: an attacker that never
interfered proves nothing.
"""

import errno
import itertools
import os
import signal
import time
from pathlib import Path

from tests.conftest import CAMPAIGN
from tests.workspace.people import for_everyone
from tests.workspace.scenes import SECRET, flipping, raced_on_each_ground, scene

READS, WRITES, SECONDS = (40_000, 10_000, 3.0) if CAMPAIGN else (6_000, 1_500, 3.0)
LAST = 100.0  # seconds, for an attacker that a busy machine delays


def rounds(count, until=lambda: True):
    begun = time.monotonic()
    for number in itertools.count():
        spent = time.monotonic() - begun
        if (number >= count or spent > SECONDS) and (until() or spent > LAST):
            return
        yield number


def tally(attempt, count, until=lambda _: True):
    """Count each answer; the secret must never appear."""
    seen = {}
    for number in rounds(count, lambda: until(seen)):
        outcome = attempt(number)
        key = "failed" if outcome.failed else outcome.text
        seen[key] = seen.get(key, 0) + 1
    return seen


def a_thousand_of_both(seen):
    return len(seen) > 1 and sum(seen.values()) > 1000


def check_then_open(root, path, flags):
    """The approach that stackmem does not use: check where the path leads, then open it."""
    base = os.fsencode(Path(f"/proc/self/fd/{root}").readlink())
    full = base + b"/" + path
    if os.path.commonpath([os.path.realpath(full), base]) != base:
        raise OSError(errno.EXDEV, "outside")
    return os.open(full, flags)


@for_everyone
def test_the_attack_succeeds_against_a_resolver_that_looks_before_it_opens(place):
    at = scene(place, check_then_open)
    (at.ws / "rel").symlink_to("../outside")
    end = time.monotonic() + 30
    with flipping(at.ws / "d", at.ws / "rel"):
        while at.read("d/file").text != SECRET:
            assert time.monotonic() < end, "the attacker never interfered, so the tests below are inconclusive"


@raced_on_each_ground
@for_everyone
def test_a_directory_that_turns_into_a_link_lets_no_read_outside(place, opener):
    at = scene(place, opener)
    (at.ws / "link").symlink_to(at.outside)
    (at.ws / "rel").symlink_to("../outside")
    with flipping(at.ws / "d", at.ws / "rel"):
        seen = tally(lambda _: at.read("d/file"), READS, a_thousand_of_both)
    assert set(seen) == {"inside", "failed"}
    assert sum(seen.values()) > 1000


@raced_on_each_ground
@for_everyone
def test_a_file_that_turns_into_a_link_lets_no_read_outside(place, opener):
    at = scene(place, opener)
    (at.ws / "d" / "link").symlink_to("../../outside/file")
    with flipping(at.ws / "d" / "file", at.ws / "d" / "link"):
        seen = tally(lambda _: at.read("d/file"), READS, a_thousand_of_both)
    assert set(seen) == {"inside", "failed"}
    assert sum(seen.values()) > 1000


@raced_on_each_ground
@for_everyone
def test_a_directory_that_is_moved_under_a_path_that_climbs_lets_nothing_outside(place, opener):
    at = scene(place, opener)
    (at.ws / "a" / "b").mkdir(parents=True)
    (at.ws / "a" / "b" / "c").mkdir()
    (at.ws / "other").mkdir()
    with flipping(at.ws / "a" / "b", at.ws / "other"):
        seen = tally(lambda _: at.read("a/b/c/../../../d/file"), READS // 4, lambda seen: "inside" in seen)
        leaked = tally(lambda _: at.read("a/b/c/../../../../outside/file"), READS // 4)
    assert "inside" in seen
    assert set(leaked) == {"failed"}


@raced_on_each_ground
@for_everyone
def test_no_write_goes_outside_while_its_directory_turns_into_a_link(place, opener):
    at = scene(place, opener)
    (at.ws / "rel").symlink_to("../outside")
    with flipping(at.ws / "d", at.ws / "rel"):
        failed = set()
        for number in rounds(WRITES, lambda: len(failed) == 2):
            failed.add(at.write("d/file", f"round {number}").failed)
    assert failed == {True, False}
    assert at.untouched()
    assert sorted(os.listdir(at.ws)) == ["d", "rel"]
    real = at.ws / ("rel" if (at.ws / "d").is_symlink() else "d")
    assert os.listdir(real) == ["file"]


@raced_on_each_ground
@for_everyone
def test_no_write_goes_outside_while_the_file_turns_into_a_link(place, opener):
    at = scene(place, opener)
    (at.ws / "d" / "link").symlink_to("../../outside/file")
    with flipping(at.ws / "d" / "file", at.ws / "d" / "link"):
        tally(lambda number: at.write("d/file", f"round {number}"), WRITES)
    assert at.untouched()
    assert sorted(os.listdir(at.ws / "d")) == ["file", "link"]


@for_everyone
def test_digests_and_listings_never_cover_outside_files(place):
    at = scene(place)
    secret = at.ws / "copy"
    secret.write_text(SECRET)
    forbidden = at.digest("copy")
    (at.ws / "rel").symlink_to("../outside")
    with flipping(at.ws / "d", at.ws / "rel"):
        digests = set()
        for _ in rounds(READS // 4, lambda: "outside" in digests):
            digests.add(at.digest("d/file"))
        sizes = {line for _ in rounds(READS // 40) for line in at.list().text.splitlines() if line.startswith("d/file")}
    assert forbidden not in digests
    assert "outside" in digests
    assert sizes <= {"d/file  (6 bytes)"}


@for_everyone
def test_a_file_is_old_or_new_but_never_half_when_its_writer_is_killed(place):
    at = scene(place)
    contents = {"a" * 1_000_000, "b" * 1_000_000}
    for _ in range(10):
        at.write("d/file", min(contents))
        child = os.fork()
        if child == 0:
            while True:
                for content in contents:
                    at.write("d/file", content)
        time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert (at.ws / "d" / "file").read_text() in contents
