"""Measurements of the golden stories, stored as text so that any change shows."""

import pytest

from tests.golden.stories import STORIES

from .golden_pages import HERE, page


@pytest.mark.parametrize("name", STORIES)
def test_the_figures_of_a_story_are_those_that_are_kept(name):
    told = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    assert page(name) == told, "if that is intended, run python -m tests.review.measure.golden_pages"


def test_every_page_is_of_a_story():
    assert {path.stem for path in HERE.iterdir()} == set(STORIES)
