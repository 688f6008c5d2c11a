"""Documents can be found by name and by full-text search."""

import pytest

from stackmem.cli import documents
from stackmem.core.errors import UsageError


def test_every_page_stands_in_one_group_and_the_index_lists_what_is_no_decision():
    listed = [name for names in documents.groups().values() for name in names]
    assert sorted(listed) == sorted(documents.documents())
    assert {"index", "cli", "programs/apl", "tutorials/work"} <= set(listed)
    assert [name for name in documents.groups()["More"] if not name.startswith("decisions/")] == []


def test_a_page_is_found_by_its_name_its_file_or_its_last_word():
    for called in ("programs/apl", "docs/programs/apl.md", "apl", "APL"):
        assert documents.find(called) == "programs/apl"
    assert documents.find("index") == "index"  # a complete name ranks above another one's last word
    assert documents.find("nowhere") is None


def test_a_page_is_cut_at_its_headings_and_not_in_its_code():
    text = "# A `b` c\nOne.\n```sh\n# no heading\n```\n## Twice\nx\n## Twice\n````text\n```\n# none\n````\ny\n"
    assert [(one.anchor, one.heading) for one in documents.sections(text)] == [
        ("a-b-c", "A b c"), ("twice", "Twice"), ("twice-1", "Twice"),
    ]  # fmt: skip
    assert "".join(one.text for one in documents.sections(text)) == text


def test_a_section_is_read_alone_and_one_that_is_not_there_is_refused_by_those_that_are():
    assert documents.read("cli", "man").startswith("## man\n")
    with pytest.raises(UsageError, match=r"no section 'mna'.*solve"):
        documents.read("cli", "mna")


def test_a_search_finds_the_sections_with_all_the_words_and_those_named_so_first():
    hits = documents.search(["Stale", "chunk"])
    texts = [documents.read(*hit.place.split("#")).lower() for hit in hits]
    assert len(texts) > 3
    assert all("stale" in text and "chunk" in text for text in texts)
    first = documents.search(["credentials"])[0]
    assert first.place == "network#credentials"
    assert documents.search(["no-such-word-anywhere"]) == []
