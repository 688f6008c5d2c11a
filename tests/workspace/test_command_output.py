"""Output is in order, valid, within its size limit, and uses bounded memory."""

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.capture import Capture
from stackmem.workspace.clip import clean
from stackmem.workspace.command import CommandEnd
from stackmem.workspace.shown import shown_output
from tests.workspace.sandboxes import ALL, BUBBLEWRAP, hostile, py, sh


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@hostile(*ALL)
def test_a_flood_is_stopped_with_its_head_and_tail_kept_in_bounded_memory(place, level, opened):
    with opened(place, level, output_mib=32) as workspace:
        sh(workspace, "true")
        before = _resident_bytes()
        done = sh(workspace, "echo first; yes middle", shown_bytes=2000)
        assert _resident_bytes() - before < 10 << 20
    assert done.reason == "output"
    assert done.text.startswith("first\nmiddle\n")
    assert "bytes omitted of" in done.text
    assert done.text.endswith("\n[killed: it printed too much, send long output to a file; "
                              "everything it started was killed]")  # fmt: skip
    assert len(done.text.encode()) <= 2000


@hostile(*BUBBLEWRAP)
def test_two_hundred_megabytes_on_one_line_are_shown_in_two_kilobytes(place, level, opened):
    with opened(place, level, output_mib=256) as workspace:
        before = _resident_bytes()
        done = sh(workspace, "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo end", shown_bytes=2000)
        assert _resident_bytes() - before < 10 << 20
    assert done.exit_code == 0
    assert len(done.text.encode()) <= 2000
    assert "of 200000005 ..." in done.text
    assert done.text.endswith("xxx\nend\n[exit 0]")


@hostile(*ALL)
def test_zeros_do_not_grow_past_what_is_shown(place, level, opened):
    with opened(place, level) as workspace:
        done = sh(workspace, "head -c 5000000 /dev/zero", shown_bytes=1000)
    assert len(done.text.encode()) <= 1000
    assert "\0" not in done.text


@hostile(*ALL)
def test_output_and_errors_keep_their_order(place, level, opened):
    program = "import sys\nfor i in range(50):\n    print(i, file=(sys.stdout, sys.stderr)[i % 2])"
    with opened(place, level) as workspace:
        assert py(workspace, program).text == "".join(f"{i}\n" for i in range(50)) + "[exit 0]"


@hostile(*ALL)
def test_terminal_sequences_and_broken_bytes_come_out_as_plain_text(place, level, opened):
    raw = (
        rb"\033[31mred\033[0m \033]0;title\007\033]8;;http://x\033\\link\033]52;c;AAAA\007 \377\376 \355\240\200 "
        rb"\342\200\256bidi \000nul 10%%\r20%%\n"
    )
    with opened(place, level) as workspace:
        done = sh(workspace, f"printf '{raw.decode()}'; exit 7")
    assert done.exit_code == 7
    assert not set(done.text) & {"\x1b", "\x07", "\0", "\r", "\u202e"}
    assert not any(0xD800 <= ord(character) <= 0xDFFF for character in done.text)
    assert done.text.endswith("20%\n[exit 7]")


@hostile(*ALL)
def test_the_shown_size_holds_for_every_size(place, level, opened):
    with opened(place, level) as workspace:
        for size in (0, 1, 7, 8, 9, 40, 200):
            assert len(sh(workspace, "seq 1000", shown_bytes=size).text.encode()) <= size


@hostile(*BUBBLEWRAP)
def test_a_secret_is_taken_out_before_the_cut_could_halve_it(place, level, opened):
    with opened(place, level, scrub=lambda text: text.replace("s3cr3t-value", "[secret X]")) as workspace:
        (workspace.root / ".env").write_text("s3cr3t-value")
        for size in range(40, 90, 4):
            text = sh(workspace, "cat .env; echo; cat .env .env .env .env .env; echo", shown_bytes=size).text
            assert "s3cr" not in text
            assert "alue" not in text


@given(st.lists(st.binary(min_size=1, max_size=100_000), max_size=12), st.integers(1, 7))
def test_a_capture_keeps_head_and_tail_of_whatever_it_is_fed(pieces, copies):
    capture = Capture()
    for piece in pieces * copies:
        capture.take(piece)
    whole = b"".join(pieces * copies)
    head, tail = capture.parts()
    assert capture.total == len(whole)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert tail or head == whole
    assert len(head) + len(tail) <= (64 + 256 + 128) << 10


@given(st.binary(max_size=3000), st.integers(1, 400), st.integers(0, 4000))
def test_output_is_valid_and_never_too_long(piece, copies, shown_bytes):
    capture = Capture()
    for _ in range(copies):
        capture.take(piece)
    text = shown_output(CommandEnd(capture, 0, ""), 30, shown_bytes, clean)
    assert len(text.encode("utf-8")) <= shown_bytes


def test_a_character_across_the_edges_of_the_capture_is_dropped_and_not_broken():
    for shift in range(3):
        capture = Capture()
        whole = b"x" * shift + "€".encode() * 400_000
        for start in range(0, len(whole), 1 << 16):
            capture.take(whole[start : start + (1 << 16)])
        head, tail = (part.decode("utf-8") for part in capture.parts())
        assert set(head) <= {"x", "€"}
        assert set(tail) == {"€"}
