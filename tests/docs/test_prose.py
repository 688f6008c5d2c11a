"""The README, the docs and the program's texts use short sentences, and no word that CONTRIBUTING lists."""

import re

import pytest

from scripts.prose import MOST_WORDS, avoided, avoided_words, long_sentences, lost_openings, pages
from tests.house.sources import ROOT, modules, name

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


@pytest.mark.parametrize("path", [path for path in PAGES if path.name != "CONTRIBUTING.md"], ids=name)
def test_no_page_has_a_word_to_avoid(path):
    assert avoided_words(path.read_text("utf-8")) == []


def said(source: str) -> str:
    """Return the texts of a program, one paragraph each; of longer ones the first line."""
    return "\n\n".join(map("".join, re.findall(r'"""([^"\n]*)|"([^"\n]*)"', source)))


def test_no_message_has_a_word_to_avoid():
    spoken = [*modules(), *(ROOT / "scripts").glob("*.sh")]
    assert len(spoken) > 400
    listed = re.compile("|".join(map(re.escape, avoided())), re.I)
    held = {name(path): text for path in spoken if listed.search(text := path.read_text("utf-8"))}
    found = {path: avoided_words(said(text)) for path, text in held.items()}
    assert {path: words for path, words in found.items() if words} == {}
    assert avoided_words(said('fail(f"{path} is grey", 2)  # whilst')) == ["grey: write gray"]


def test_what_is_hard_to_read_is_seen():
    long = " ".join(["word"] * (MOST_WORDS + 1))
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
    assert avoided_words("We utilize it; COLOUR it.\n`whilst`") == ["colour: write color", "utilize: write use"]
    assert len(avoided()) > 15


def test_the_pages_are_those_that_a_reader_finds():
    found = {name(path) for path in PAGES}
    assert {"README.md", "CONTRIBUTING.md", "docs/ui.md", "docs/programs/apl.md"} <= found
    assert not any("decisions" in one for one in found)
