"""The site of `make docs`: complete, strict, searchable offline, and without external requests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from stackmem.cli import documents
from tests.house.sources import ROOT

from .axe import violations

# What readers type into the search, with the page and the heading that answer it.
ANSWERS = {
    "install": ("index.html", "#install"),
    "API key": ("index.html", "#set-an-api-key"),
    "cost": ("tutorials/work.html", "#see-what-a-run-costs"),
    "why did it fail": ("faq.html", "#why-did-my-run-fail"),
    "stale": ("faq.html", "#what-does-stale-mean"),
    "resume": ("resume.html", ""),
    "local model": ("local-models.html", ""),
    "which strategy": ("which-strategy.html", ""),
    "compare two strategies": ("tutorials/compare.html", "#run-a-first-bench"),
    "record another agent": ("gateway.html", ""),
    "write a tool": ("tools.html", ""),
    "add a strategy": ("extending.html", "#a-strategy"),
}


def build(config: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "-f", str(config), "--site-dir", str(into)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("link", ["[gone](gone.md)", "[gone](#gone)", "[gone](other.md#gone)"])
@pytest.mark.campaign
def test_a_link_or_an_anchor_that_leads_nowhere_ends_the_build(tmp_path, link):
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "other.md").write_text("# Other\n\n## There\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT}/mkdocs.yml\ndocs_dir: docs\nhooks: []\nplugins: []\n")
    (pages / "index.md").write_text("# Index\n\n[there](other.md#there)\n")
    assert build(config, tmp_path / "whole").returncode == 0
    (pages / "index.md").write_text(f"# Index\n\n{link}\n")
    failed = build(config, tmp_path / "site")
    assert failed.returncode != 0
    assert "gone" in failed.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    into = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", into)
    assert built.returncode == 0, built.stderr[-3_000:]
    return into


@pytest.mark.campaign
def test_every_page_is_built_and_loads_nothing_from_elsewhere(site):
    pages = {path.relative_to(site).with_suffix("").as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert set(documents.documents()) <= set(pages)
    loads = re.compile(r'<(?:script|img|iframe)[^>]*src="([^"]*)"|<link[^>]*href="([^"]*)"|@import|url\(https?:')
    asked = {found[1] or found[2] or found[0] for text in pages.values() for found in loads.finditer(text)}
    assert any("iframe-worker" in one for one in asked)
    assert [one for one in asked if "//" in one or one.startswith("@")] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(['\"]?https?:", styles)


@pytest.mark.campaign
def test_it_is_found_by_words_from_the_disk(site, browser: Browser):
    page = browser.new_context(viewport={"width": 1360, "height": 900}).new_page()
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").fill("credentials")
    first = page.locator(".md-search-result__link").first
    expect(first).to_be_visible()
    first.click()
    expect(page.locator("h1")).to_contain_text("Listed hosts")
    assert page.get_by_role("link", name="Write your own tool", exact=True).count() > 0
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


@pytest.mark.campaign
def test_a_search_finds_the_page_that_answers_it_first(site, browser: Browser):
    page = browser.new_context(viewport={"width": 1360, "height": 900}).new_page()
    hits = {}
    for words in ANSWERS:
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").fill(words)
        first = page.locator(".md-search-result__item").first  # a page with its headings, the best page first
        expect(first.locator(".md-search-result__link").first).to_be_visible()
        links = [link.get_attribute("href") or "" for link in first.locator(".md-search-result__link").all()]
        hits[words] = [re.sub(r"^.*/site[^/]*/|[?]h=[^#]*", "", link) for link in links]
    missed = {words: hits[words] for words, (target, heading) in ANSWERS.items()
              if not {target, target + heading} <= set(hits[words])}  # fmt: skip
    assert missed == {}


def pages_for_readers() -> list[str]:
    """Return the pages that the index links to, except those in its part for developers."""
    readers, _, developers = (ROOT / "docs" / "index.md").read_text("utf-8").partition("\n## For developers\n")
    excluded = documents.linked("index", developers)
    return ["index", *(name for name in documents.linked("index", readers) if name not in excluded)]


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", pages_for_readers())
def test_no_page_for_readers_breaks_a_rule_of_accessibility(site, browser: Browser, name, scheme):
    page = browser.new_context(viewport={"width": 1360, "height": 900}, color_scheme=scheme).new_page()
    page.goto((site / f"{name}.html").as_uri())
    found = violations(page)
    page.close()
    assert found == []
