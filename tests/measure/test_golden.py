"""Figures of the golden stories, kept as text, so that a change of any of them is seen."""

import pytest

from tests.golden.stories import STORIES
from tests.measure.golden_pages import HERE, page


@pytest.mark.parametrize("name", STORIES)
def test_the_figures_of_a_story_are_those_that_are_kept(name):
    told = (HERE / f"{name}.txt").read_text(encoding="utf-8")
    assert page(name) == told, "if that is wanted: python -m tests.measure.golden_pages"


def test_every_page_is_of_a_story():
    assert {path.stem for path in HERE.iterdir()} == set(STORIES)
