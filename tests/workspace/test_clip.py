import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.workspace.clip import clean, clip, cut, meant_name, shown_name, visible

HOSTILE = st.lists(
    st.sampled_from(["\x1b", "[", "]", "31m", "P", "0;", "\x07", "\x1b\\", "\r", "\n", "\t", "\x9b", "\x9d", "\x9c",
                     "\0", "\u202e", "\u200b", "é", "😀", "\ud800", "a", "\\", "x1b"]),
).map("".join)  # fmt: skip


def controls(text):
    return [
        one for one in text if (ord(one) < 32 and one not in "\n\t") or 127 <= ord(one) < 160 or one in "\u202e\u200b"
    ]


@given(st.binary() | HOSTILE.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_cleaned_text_can_be_encoded_has_no_control_and_stays_as_it_is_when_cleaned_again(raw):
    text = clean(raw)
    assert controls(text) == []
    assert clean(text.encode()) == text


@given(st.text(alphabet=st.characters(), max_size=300) | HOSTILE, st.integers(-5, 200))
def test_a_clipped_text_is_never_over_its_size_and_stays_as_it_is_when_clipped_again(text, max_bytes):
    clipped = clip(text, max_bytes)
    assert len(clipped.encode()) <= max(0, max_bytes)
    assert clip(clipped, max_bytes) == clipped


@given(st.text(alphabet="aé😀", min_size=101, max_size=400), st.integers(60, 100))
def test_a_clipped_text_counts_what_it_leaves_out_between_head_and_tail(text, max_bytes):
    clipped = clip(text, max_bytes)
    head, middle, tail = clipped.split("\n")
    total = len(text.encode())
    kept = len(head.encode()) + len(tail.encode())
    assert middle == f"[... {total - kept} bytes omitted of {total} ...]"
    assert text.startswith(head)
    assert text.endswith(tail)


def test_a_text_that_fits_is_not_clipped():
    assert clip("é" * 50, 100) == "é" * 50
    assert clip("", 0) == ""


def test_half_a_character_does_not_survive_a_cut():
    assert cut("aé", 2) == "a"
    assert cut("😀", 3) == ""
    assert cut("abc", -1) == ""


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x", "x"),
        (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]52;c;c2VjcmV0\x07", ""),
        (b"\x1bPq#0;2;0\x1b\\after", "after"),
        (b"\x1b(B\x1b[m\x1b7\x1bc.", "."),
        ("\x9b31mred\x9d0;t\x9c.".encode(), "red."),
        (b"\x1b[31", r"\x1b[31"),
        (b"\x1b]never ends\nnext", "\\x1b]never ends\nnext"),
        (b"\x1b\x1b[31m[31mx", r"\x1b[31mx"),
        (b"a\0b\x08\x7f", r"a\x00b\x08\x7f"),
        ("a\u202eb\u200bc\ufeff\u0085\U000e0041".encode(), r"a\u202eb\u200bc\ufeff\u0085\U000e0041"),
        (b" 10%\r 50%\r100%\ndone", "100%\ndone"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"100%\r", "100%"),
        (b"\r\r", ""),
        (b"caf\xe9 \xf0\x9f\x98", "caf\ufffd \ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"tab\there\n", "tab\there\n"),
    ],
)
def test_what_a_terminal_would_obey_is_stripped_or_shown(raw, shown):
    assert clean(raw) == shown


def test_a_file_s_text_is_shown_with_nothing_taken_away():
    assert visible("a\rb\x1b[31m\n\t\\") == "a\\rb\\x1b[31m\n\t\\"


@pytest.mark.parametrize(
    ("start", "repeated", "times"),
    [
        (b"", b"\x1b[", 500_000),
        (b"", b"\x1b]", 500_000),
        (b"", b"\x1bP", 500_000),
        (b"", b"\x1b ", 500_000),
        (b"\x1b[", b"1", 1_000_000),
        (b"\x1b[ ", b" ", 1_000_000),
        (b"", b"\r", 1_000_000),
    ],
)
def test_hostile_output_is_cleaned_in_time_that_grows_with_its_size_only(start, repeated, times):
    text = clean(start + repeated * times)  # half a second; a quadratic pattern takes hours, more than the time limit
    assert clean(text.encode()) == text


def test_a_name_is_shown_on_one_line():
    assert shown_name(b"a\nb\x1b\xff\t\\") == r"a\nb\x1b\xff\t\\"
    assert shown_name("\u202etxt.exe\x85") == r"\u202etxt.exe\u0085"
    assert shown_name("plain é 😀-rf") == "plain é 😀-rf"


@given(st.text("ax0\\n\n\x1b").map(str.encode) | st.binary().map(lambda raw: raw.replace(b"\0", b"")))
def test_each_name_is_shown_differently_and_found_again(name):
    shown = shown_name(name)
    assert controls(shown) == []
    assert "\n" not in shown
    assert json.loads(json.dumps(shown).encode()) == shown
    assert (meant_name(shown) or shown.encode()) == name


@given(HOSTILE)
def test_any_text_can_be_shown_as_a_name(text):
    shown_name(text).encode()


@pytest.mark.parametrize(
    "spelling",
    [r"\x2e\x2e", r"a\x2fb", r"\ud800", r"\udc80", r"\UFFFFFFFF", r"\U00110000", r"\q", r"a\x00b", "\\", "plain"],
)
def test_a_spelling_that_no_listing_shows_means_no_other_name(spelling):
    assert meant_name(spelling) is None
