"""The documents as they are found, searched and made into pages for a browser."""

import re
from pathlib import Path

import pytest

from stackmem.errors import UsageError
from stackmem.report import documents
from tests.house.sources import ROOT


def test_every_page_stands_in_one_group_and_the_index_lists_what_is_no_decision():
    listed = [name for names in documents.groups().values() for name in names]
    assert sorted(listed) == sorted(documents.documents())
    assert {"index", "cli", "programs/apl", "tutorials/work"} <= set(listed)
    assert [name for name in documents.groups()["More"] if not name.startswith("decisions/")] == []


def test_a_page_is_found_by_its_name_its_file_or_its_last_word():
    for called in ("programs/apl", "docs/programs/apl.md", "apl", "APL"):
        assert documents.find(called) == "programs/apl"
    assert documents.find("index") == "index"  # a whole name goes before the last word of another
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


def test_the_pages_lead_to_each_other_and_ask_nobody_for_anything(tmp_path):
    documents.write_site(tmp_path)
    pages = {path: path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert len(pages) == len(documents.documents())
    ids = {path: set(re.findall(r'<h\d id="([^"]*)"', text)) for path, text in pages.items()}
    dead = []
    for path, text in pages.items():
        for address in re.findall(r'(?:href|src)="([^"]*)"', text):
            if address.startswith(("https:", "http:", "mailto:")):
                continue
            target, _, anchor = address.partition("#")
            to = (path.parent / target).resolve() if target else path
            if not to.is_file() or (anchor and anchor not in ids[to]):
                dead.append((path.name, address))
    assert dead == []
    loaded = {address for text in pages.values() for address in re.findall(r'src="([^"]*)"', text)}
    assert loaded
    assert not any(":" in address for address in loaded)
    assert not any("<script" in text or "<link" in text or "@import" in text for text in pages.values())


def test_a_link_to_what_is_no_page_is_its_text_alone():
    page = documents.documents()["architecture"]
    assert "](../stackmem/run/loop.py)" in page.read_text("utf-8")
    assert not re.search(r'href="[^"]*loop\.py"', documents.html("architecture"))
    assert documents.folder() == Path(ROOT / "docs")
