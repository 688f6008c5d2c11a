"""The documents shipped with stackmem: lists, searches and reads them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stackmem.core.errors import UsageError

_FENCE = re.compile(r"^ *(```+)")
_HEADING = re.compile(r"^(#+) +(.+?)\s*$")
_LINKED = re.compile(r"\]\(([^)\s#]+\.md)[^)\s]*\)")
_ADDRESS = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)|<!--.*?-->", re.S)


class PageSection(NamedTuple):
    """A heading with the text below it, up to the next heading."""

    anchor: str  # its name in links
    heading: str
    text: str  # Markdown, including the heading


class DocumentHit(NamedTuple):
    """A section that contains all search words; ``place`` is ``PAGE#ANCHOR``, ``line`` the first line with a word."""

    place: str
    line: str


@cache
def folder() -> Path:
    """Return the folder of the documents: inside the package in a wheel, next to it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    packaged = package / "_docs"
    return packaged if packaged.is_dir() else package.parent / "docs"


@cache
def documents() -> dict[str, Path]:
    """Return every page by name, such as ``programs/apl``."""
    return {path.relative_to(folder()).with_suffix("").as_posix(): path for path in sorted(folder().rglob("*.md"))}


@cache
def groups() -> dict[str, list[str]]:
    """Return page names by the sections of ``docs/index.md``; unlisted pages come last."""
    pages = {"Start": ["index"]}
    for section in sections(documents()["index"].read_text("utf-8")):
        if listed := linked("index", section.text.partition("\n- ")[2]):
            pages[section.heading] = listed
    seen = {name for listed in pages.values() for name in listed}
    return pages | {"More": [name for name in documents() if name not in seen]}


@cache
def title(name: str) -> str:
    """Return the first heading of a page."""
    return next(iter(sections(documents()[name].read_text("utf-8"))), PageSection("", name, "")).heading


def sections(text: str) -> Iterator[PageSection]:
    """Split a page at its headings, ignoring those in code blocks."""
    fence, heading, lines, seen = "", "", list[str](), Counter[str]()
    for line in (*text.splitlines(), "# "):
        marked = _FENCE.match(line)
        if marked and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else marked[1]
        match = None if fence else _HEADING.match(line)
        if match or line == "# ":
            if heading:
                anchor = _anchor(heading)
                repeats = seen[anchor]
                seen[anchor] += 1
                yield PageSection(
                    anchor + (f"-{repeats}" if repeats else ""), plain(heading), "\n".join(lines).strip() + "\n"
                )
            heading, lines = (match[2] if match else ""), []
        lines.append(line)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def plain(markdown: str) -> str:
    """Remove marks and addresses from a line of Markdown."""
    return " ".join(re.sub(r"[`*|]", "", without_addresses(markdown)).split())


def without_addresses(markdown: str) -> str:
    """Replace links by their text, because a terminal cannot follow them."""
    return _ADDRESS.sub(r"\1", markdown)


def find(page: str) -> str | None:
    """Find a page by its name or its unique last part (``apl``); None without a match."""
    name = page.lower().removeprefix("docs/").removesuffix(".md")
    ends = [document for document in documents() if document.rpartition("/")[2] == name]
    return name if name in documents() else ends[0] if len(ends) == 1 else None


def read(name: str, anchor: str = "") -> str:
    """Return the Markdown of a page, or of one of its sections."""
    text = documents()[name].read_text("utf-8")
    if not anchor:
        return text
    texts = {section.anchor: section.text for section in sections(text)}
    if anchor not in texts:
        raise UsageError(f"no section {anchor[:80]!r} on the page {name}; its sections: {', '.join(texts)}")
    return texts[anchor]


def linked(name: str, markdown: str) -> list[str]:
    """Return the names of the pages that a text links to, in order."""
    names = {path: page for page, path in documents().items()}
    targets = [_resolved(documents()[name], target) for target in _LINKED.findall(markdown)]
    return list(dict.fromkeys(names[to] for to in targets if to in names and names[to] != name))


def _resolved(page: Path, target: str) -> Path:
    return Path(os.path.normpath(page.parent / target)) if target else page


def search(words: Sequence[str]) -> list[DocumentHit]:
    """Return the sections that contain every word; matches in headings and page names come first."""
    terms = [word.lower() for word in words]
    ranked = []
    for name, path in documents().items():
        for index, section in enumerate(sections(path.read_text("utf-8"))):
            text = section.text.lower()
            if not all(word in text for word in terms):
                continue
            title_matches = sum(word in f"{name} {section.heading}".lower() for word in terms)
            lines = [line for line in section.text.splitlines()[1:] if any(word in line.lower() for word in terms)]
            hit = DocumentHit(f"{name}#{section.anchor}", plain(lines[0] if lines else section.heading))
            late = name in ("experiments", "map") or name.startswith("decisions/")
            ranked.append((late, -title_matches, index > 0, -sum(map(text.count, terms)), hit))
    return [hit for *_, hit in sorted(ranked)]
