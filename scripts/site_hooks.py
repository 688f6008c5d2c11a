"""Hooks for mkdocs, which builds the documents into a site for ``make docs``.

``docs/index.md`` is the only list of pages: the navigation is built from its headings and lists.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from stackmem.cli import documents

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_SHIM = "node_modules/iframe-worker/shim/index.js"
_HOW_TO_PAGES = {"extending.md": 3.0, "faq.md": 1.2, "tools.md": 3.0, "which-strategy.md": 2.5}
"""Boosts of pages that answer a question in words that many other pages repeat."""


def on_config(config: Any) -> Any:
    """Build the navigation: a tab for each part of the index, in it a section for each list of pages."""
    config.nav = [{"Home": "index.md"}, *({part: sections} for part, sections in _parts().items())]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the script that lets a browser search pages opened from the disk."""
    files.append(File.generated(config, "assets/iframe-worker.js", abs_src_path=str(ROOT / _SHIM)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rank the page in the search, and replace links to files that are not on the site with their text."""
    page.meta["search"] = {"boost": _search_boost(page.file.src_uri)}

    def page_link_or_text(link: re.Match[str]) -> str:
        target = os.path.normpath(Path("docs", page.file.src_uri).parent / link[2])
        return link[0] if target.startswith("docs/") else link[1]

    return _LINK.sub(page_link_or_text, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog, which the theme leaves unnamed for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def _search_boost(path: str) -> float:
    """Rank the home page, tutorials and how-to pages first, and pages for developers last.

    Pages for developers repeat the readers' words.
    """
    if path == "index.md" or path.startswith("tutorials/"):
        return 3.0
    if path in _HOW_TO_PAGES:
        return _HOW_TO_PAGES[path]
    *_, developers = _parts().values()
    listed = {name for section in developers for pages in section.values() for page in pages for name in page.values()}
    return 0.2 if path in listed else 1.0


@cache
def _parts() -> dict[str, list[dict[str, list[dict[str, str]]]]]:
    """The sections of pages by the ``##`` heading above them; unlisted pages are the decisions."""
    groups = dict(documents.groups())
    parts = dict[str, list[dict[str, list[dict[str, str]]]]]()
    part = ""
    for section in documents.sections(documents.documents()["index"].read_text("utf-8")):
        part = section.heading if section.text.startswith("## ") else part
        if section.heading in groups:
            parts.setdefault(part, []).append({section.heading: _pages(groups[section.heading])})
    parts[part].append({"All decisions": _pages(groups["More"])})
    return parts


def _pages(names: Sequence[str]) -> list[dict[str, str]]:
    return [{documents.title(name): f"{name}.md"} for name in names]
