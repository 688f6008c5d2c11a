"""Converts an HTML page to text with a little Markdown: headings, links, lists, code and tables.

The parser of the standard library never fails and never loads anything. Scripts, styles and hidden parts are left out.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object", "head"})
_BLOCKS = frozenset({
    "p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "form", "dl",
    "blockquote", "figure", "hr", "address", "details", "summary", "dt", "dd",
})  # fmt: skip
_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_SPACES = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_LINE_ENDS = re.compile(r"[ \t]+\n")


def page_text(html: str, address: str) -> tuple[str, str]:
    """Return the title and the text of a page. Relative links are resolved against its address."""
    reader = _PageReader(address)
    reader.feed(html)
    reader.close()
    text = _BLANK_LINES.sub("\n\n", _LINE_ENDS.sub("\n", "".join(reader.parts)))
    return _SPACES.sub(" ", "".join(reader.title)).strip(), text.strip()


class _PageReader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title: list[str] = []
        self._address = address
        self._skipped: list[str] = []  # open elements whose text is left out
        self._links: list[str] = []
        self._code = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self.title
        if tag in _SKIPPED:
            self._skipped.append(tag)
        elif self._skipped and tag == "body":  # the end tag of head may be left out
            self._skipped.clear()
        elif tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]}")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in ("br", "tr"):
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append("| " if not self.parts or self.parts[-1].endswith("\n") else " | ")
        elif tag == "pre":
            self._code += 1
            self.parts.append("\n\n```\n")
        elif tag == "code" and not self._code:
            self.parts.append("`")
        elif tag == "a":
            self._open_link(dict(attrs).get("href") or "")
        elif tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if tag in self._skipped:
            del self._skipped[self._skipped.index(tag) :]
        elif tag == "pre" and self._code:
            self._code -= 1
            self.parts.append("\n```\n\n")
        elif tag == "code" and not self._code:
            self.parts.append("`")
        elif tag == "a" and self._links:
            target = self._links.pop()
            self.parts.append(f"]({target})" if target else "")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self.parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._skipped:
            self.parts.append(data if self._code else _SPACES.sub(" ", data))

    def _open_link(self, target: str) -> None:
        try:
            url = urljoin(self._address, target.strip())
        except ValueError:
            url = ""
        url = url if target and url.startswith(("http://", "https://")) else ""
        self._links.append(url)
        self.parts.append("[" if url else "")
