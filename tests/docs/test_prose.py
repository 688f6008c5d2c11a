"""The README and the docs use short sentences that are complete."""

import pytest

from scripts.prose import MAX_WORDS, long_sentences, lost_openings, pages
from tests.house.sources import name

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_sentence_has_more_than_thirty_words(path):
    assert long_sentences(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_paragraph_has_lost_the_beginning_of_its_sentence(path):
    assert lost_openings(path.read_text("utf-8")) == []


def test_a_lost_beginning_is_found():
    assert lost_openings("# Title\n\n of amounts, 0.9.\n") == ["of amounts, 0.9."]
    assert lost_openings("```sh\nls\n```\n\nfolds the trace.\n") == ["folds the trace."]
    for text in ("stackmem starts.\n", "`replay` starts.\n", "- item\n", "| cell |\n", "```text\nsmall\n```\n"):
        assert lost_openings(text) == [], text


def test_a_long_sentence_is_found_and_code_does_not_count():
    long = " ".join(["word"] * (MAX_WORDS + 1))
    for text in (
        long,
        f"- {long}",
        f"| cell | {long} |",
        f"Short.\n\n{long}.",
        f"A [{long}](page.md).",
        " ".join(["word;"] * 31),
    ):
        assert len(long_sentences(text)) == 1, text
    for text in (f"```sh\n{long}\n```", f"`{long}`", f"# {long}", f"<!-- {long} -->", " ".join(["word."] * 90)):
        assert long_sentences(text) == [], text


def test_the_pages_are_those_that_a_reader_finds():
    found = {name(path) for path in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/ui.md", "docs/programs/apl.md"} <= found
    assert not any("decisions" in one for one in found)
