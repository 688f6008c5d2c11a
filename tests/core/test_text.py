"""Tests for cutting and comparing text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackmem.core.text import clip_bytes, clip_chars, edit_distance, mark_cut, tail


@given(st.text(max_size=400), st.integers(0, 300))
def test_a_cut_text_never_exceeds_its_limit(text, most):
    assert len(clip_chars(text, most)) <= most
    assert len(mark_cut(text, most)) <= most
    assert len(clip_bytes(text, most).encode()) <= most


@given(st.text(max_size=400))
def test_a_text_that_just_fits_is_not_cut(text):
    assert clip_chars(text, len(text)) == mark_cut(text, len(text)) == clip_bytes(text, len(text.encode())) == text


@given(st.text(max_size=400), st.integers(60, 300))
def test_a_clip_keeps_head_and_tail_and_counts_what_it_left_out(text, most):
    for clip, size in ((clip_chars, len(text)), (clip_bytes, len(text.encode()))):
        clipped = clip(text, most)
        if size <= most:
            assert clipped == text
            continue
        head, mark, end = clipped.partition("\n[... ")[0], "left out ...]\n", clipped.rpartition("left out ...]\n")[2]
        assert mark in clipped
        assert text.startswith(head)
        assert text.endswith(end)
        assert f"[... {len(text) - len(head) - len(end):,} of {len(text):,} characters" in clipped


def test_of_what_a_clip_keeps_two_thirds_are_the_head():
    for clip in (clip_chars, clip_bytes):
        head, mark, end = clip("a" * 1_000 + "b" * 1_000, 400).partition(
            "\n[... 1,646 of 2,000 characters left out ...]\n"
        )
        assert mark
        assert (len(head), len(end), set(head), set(end)) == (236, 118, {"a"}, {"b"})


def test_the_tail_is_bounded_in_lines_and_characters():
    assert tail("a\nb\nc\n", 2, 100) == "b\nc"
    assert tail("abcdef", 10, 3) == "def"
    assert tail("", 10, 3) == ""


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("spec", "spec", 0), ("spec", "spce", 2), ("spec", "spe", 1), ("", "ab", 2), ("abc", "xyz", 3), ("a", "abcd", 3)],
)
def test_the_edit_distance_is_levenshteins_up_to_a_bound(one, other, distance):
    assert edit_distance(one, other, 2) == distance
    assert edit_distance(other, one, 2) == distance


@given(st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_the_bounded_distance_agrees_with_the_unbounded_one(one, other):
    assert min(edit_distance(one, other, 9), 3) == edit_distance(one, other, 2)
