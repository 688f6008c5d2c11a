"""Reading a file: ranges, sizes, encodings, and endless files."""

import os
import resource
import threading
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.clip import visible
from stackmem.workspace.files import Files
from stackmem.workspace.lines import SCANNED_BYTES, scan, shown_lines
from stackmem.workspace.outcome import ToolOutcome
from tests.growth import stays_linear
from tests.workspace.scenes import scene

GIB = 1024**3


@pytest.fixture
def at(tmp_path):
    return scene(tmp_path)


def numbered(count):
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_a_small_file_is_shown_as_it_is(at):
    for text in ("one\ntwo\n", "no newline at the end", "\n", "é\t😀\n\n"):
        (at.ws / "f").write_text(text)
        assert at.read("f") == ToolOutcome(text)


def test_an_empty_file_says_so(at):
    (at.ws / "f").touch()
    assert at.read("f") == at.read("f", 1, 10) == ToolOutcome("[empty file]")


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        (2, 3, "[lines 2-3 of 5]\nline 2\nline 3\n"),
        (None, 1, "[lines 1-1 of 5]\nline 1\n"),
        (4, None, "[lines 4-5 of 5]\nline 4\nline 5\n"),
        (5, 10**30, "[lines 5-5 of 5]\nline 5\n"),
        (1, 5, "[lines 1-5 of 5]\n" + numbered(5)),
    ],
)
def test_a_range_says_which_lines_of_how_many(at, start, end, shown):
    (at.ws / "f").write_text(numbered(5))
    assert at.read("f", start, end) == ToolOutcome(shown)


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (0, None, "start_line is 0; lines count from 1"),
        (-3, 2, "start_line is -3; lines count from 1"),
        (4, 3, "end_line 3 is before line 4, the first one asked for; swap or raise it"),
        (None, 0, "end_line 0 is before line 1, the first one asked for; swap or raise it"),
        (6, None, "start_line 6 does not exist: 'f' has 5 lines; leave start_line out to read from line 1"),
        (
            10**30,
            None,
            f"start_line {10**30} does not exist: 'f' has 5 lines; leave start_line out to read from line 1",
        ),
    ],
)
def test_a_range_that_cannot_be_is_refused(at, start, end, reason):
    (at.ws / "f").write_text(numbered(5))
    assert at.read("f", start, end) == ToolOutcome(reason, failed=True)


@given(
    st.lists(st.sampled_from(["", "a", "é😀", "long " * 30, "x\ry", "\x1b[1m", "caf\xe9"]), min_size=1, max_size=40),
    st.integers(1, 12),
    st.integers(500, 2000),
)
def test_reading_on_as_told_comes_to_every_line_once_and_never_over_the_size(lines, step, shown_bytes):
    text = "\n".join(lines) + "\n"
    fd = os.memfd_create("lines")
    os.write(fd, text.encode())
    start, seen = 1, ""
    while True:
        os.lseek(fd, 0, os.SEEK_SET)
        span = scan(partial(os.read, fd), start, None, 2 * shown_bytes)
        shown = shown_lines(span, start, ranged=True, shown_bytes=shown_bytes)
        assert len(shown.encode()) <= shown_bytes
        header, body = shown.split("\n", 1)
        seen += body
        if "read on with start_line=" not in header:
            break
        start = int(header.split("start_line=")[1].split(";")[0].rstrip("]"))
    os.close(fd)
    assert seen == visible(text)


def test_a_clipped_read_says_how_to_read_on(at):
    (at.ws / "f").write_text(numbered(1000))
    shown = at.read("f", shown_bytes=2000).text
    header, body = shown.split("\n", 1)
    last = body.splitlines()[-1].removeprefix("line ")
    assert header == f"[lines 1-{last} of 1000; read on with start_line={int(last) + 1}]"
    assert body == numbered(int(last))
    assert len(shown.encode()) <= 2000
    assert int(last) > 100


def test_a_line_that_is_too_long_is_begun_and_the_next_one_is_named(at):
    (at.ws / "f").write_text("short\n" + "é" * 10_000_000 + "\nlast\n")
    shown = at.read("f", 2, None, 1000).text
    assert shown.startswith("[line 2 of 3 is too long: this is its beginning; run_command can cut out a part of it; ")
    assert shown.split("\n")[0].endswith("read on with start_line=3]")
    assert shown.endswith("ééé")
    assert len(shown.encode()) <= 1000
    assert at.read("f", 3, None, 1000).text == "[lines 3-3 of 3]\nlast\n"


def test_a_secret_is_taken_out_of_a_long_line_before_the_line_is_cut(at):
    (at.ws / "f").write_text("x" * 590 + "sk-0123456789" + "y" * 10_000)
    files = Files(at.ws, "/workspace", scrub=lambda text: text.replace("sk-0123456789", "[secret KEY]"))
    assert "sk-0123" in at.read("f", shown_bytes=1000).text  # at the cut
    assert "sk-" not in files.read("f", None, None, 1000).text


@pytest.mark.parametrize("shown_bytes", [0, 1, 50, 200])
def test_a_tiny_space_is_not_exceeded(at, shown_bytes):
    (at.ws / "f").write_text(numbered(1000))
    (at.ws / "empty").touch()
    for path in ("f", "empty"):
        assert len(at.read(path, shown_bytes=shown_bytes).text.encode()) <= shown_bytes


@pytest.mark.parametrize(
    "raw",
    [
        b"\0",
        b"text\0text",
        bytes(range(256)),
        "UTF-16 text".encode("utf-16"),
        b"\xff\xfe\xfd" * 20,
        b"\x89PNG\r\n\x1a\n\0\0",
    ],
)
def test_a_binary_file_is_described_by_its_size(at, raw):
    (at.ws / "f").write_bytes(raw)
    assert at.read("f") == ToolOutcome(
        f"binary, {len(raw)} bytes: 'f' is not UTF-8 text; look at it with run_command", failed=True
    )


def test_a_nul_far_behind_the_beginning_makes_only_its_own_lines_binary(at):
    (at.ws / "f").write_bytes(b"text\n" * 10_000 + b"\0\n")
    assert at.read("f", 1, 2).text == "[lines 1-2 of 10001]\ntext\ntext\n"
    assert at.read("f", 10_001).text.startswith("binary, 50002 bytes")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"one\r\ntwo\r\n", "[lines 1-2 of 2; lines end in CRLF]\none\ntwo\n"),
        (b"one\r\ntwo\n", "[lines 1-2 of 2; control characters are shown escaped]\none\\r\ntwo\n"),
        (b"safe\revil\n", "[lines 1-1 of 1; control characters are shown escaped]\nsafe\\revil\n"),
        (b"a\x1b[31mb\n", "[lines 1-1 of 1; control characters are shown escaped]\na\\x1b[31mb\n"),
        (
            "if x:\u202e\u2028\n".encode(),
            "[lines 1-1 of 1; control characters are shown escaped]\nif x:\\u202e\\u2028\n",
        ),
        (b"caf\xe9 noir\n", "[lines 1-1 of 1; bytes that are not UTF-8 appear as U+FFFD]\ncaf\ufffd noir\n"),
        ("it is \ufffd\n".encode(), "it is \ufffd\n"),
        (b"a\x0bb\x0cc\n", "[lines 1-1 of 1; control characters are shown escaped]\na\\x0bb\\x0cc\n"),
    ],
)
def test_what_is_not_shown_as_it_stands_in_the_file_is_said(at, raw, shown):
    (at.ws / "f").write_bytes(raw)
    assert at.read("f").text == shown


def test_a_sparse_file_of_a_terabyte_costs_neither_time_nor_memory(at):
    with (at.ws / "sparse").open("wb") as file:
        file.truncate(1024 * GIB)
    with (at.ws / "text").open("wb") as file:
        file.write(b"text\n" * 100_000)
        file.truncate(1024 * GIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert at.read("sparse").text.startswith(f"binary, {1024 * GIB} bytes")
    assert at.read("text", 1, 1).text == "[lines 1-1 of more than 100001]\ntext\n"
    refusal = at.read("text", 200_000).text
    assert refusal.startswith("start_line 200000 does not exist: 'text' is too long to search after line 100001; ")
    assert at.digest("sparse") == "unknown"  # reading a terabyte takes longer than a test may
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024  # KiB


def test_a_file_that_grows_while_it_is_read_is_read_to_a_bound(at):
    stop = threading.Event()
    grown = at.ws / "grows"
    grown.write_text("line\n")

    def grow():
        with grown.open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 400 * 1024**2:
                file.write(b"line\n" * 50_000)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(20):
            assert "line\n" in at.read("grows", shown_bytes=1000).text
    finally:
        stop.set()
        writer.join()


def test_content_without_an_end_whose_size_is_said_to_be_0_is_read_to_a_bound():
    fd = os.open("/dev/zero", os.O_RDONLY)  # a granted file like those of /proc; NULs end the scan immediately
    assert scan(partial(os.read, fd), 1, None, 1000).binary
    os.close(fd)
    reader, writer = os.pipe()

    def feed():
        written = 0
        try:
            while True:
                written += os.write(writer, b"line\n" * 10_000)
        except BrokenPipeError:
            fed.append(written)

    fed = []
    thread = threading.Thread(target=feed)
    thread.start()
    span = scan(partial(os.read, reader), 1, None, 1000)
    os.close(reader)
    thread.join()
    os.close(writer)
    assert (len(span.raw), span.more, span.counted) == (1000, True, False)
    assert SCANNED_BYTES <= span.read_bytes <= fed[0] < SCANNED_BYTES + 1024**2


def test_a_file_of_many_short_lines_is_searched_quickly(at):
    for size in (5_000_000, 20_000_000):
        (at.ws / f"f{size}").write_bytes(b"\n" * size)
    assert at.read("f20000000", 19_999_999).text == "[lines 19999999-20000000 of 20000000]\n\n\n"
    assert stays_linear(lambda size: at.read(f"f{size}", size - 1), 20_000_000)
