"""The README and the docs are plain: few words between two stops, and none of the words that CONTRIBUTING lists."""

import pytest

from scripts.prose import MOST_WORDS, avoided, avoided_words, long_clauses, pages
from tests.house.sources import name

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_reader_keeps_more_than_thirty_words_in_mind(path):
    assert long_clauses(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "CONTRIBUTING.md"], ids=name)
def test_no_page_has_a_word_to_avoid(path):
    assert avoided_words(path.read_text("utf-8")) == []


def test_what_is_hard_to_read_is_seen():
    long = " ".join(["word"] * (MOST_WORDS + 1))
    for text in (long, f"- {long}", f"| cell | {long} |", f"Short.\n\n{long}.", f"A [{long}](page.md)."):
        assert len(long_clauses(text)) == 1, text
    for text in (f"```sh\n{long}\n```", f"`{long}`", f"# {long}", f"<!-- {long} -->", " ".join(["word;"] * 90)):
        assert long_clauses(text) == [], text
    assert avoided_words("We utilize it; COLOUR it.\n`whilst`") == ["colour: write color", "utilize: write use"]
    assert len(avoided()) > 15


def test_the_pages_are_those_that_a_reader_finds():
    found = {name(path) for path in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/ui.md", "docs/programs/apl.md"} <= found
    assert not any("decisions" in one for one in found)
