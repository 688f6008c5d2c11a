"""Renders the model's Markdown for the terminal: prose, lists and tables that fit the width, and highlighted code.

The text is untrusted, so ``readable`` removes control characters first. Links show their address and are not hidden
behind a name. Code is never wrapped or indented, so that it can be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from io import StringIO

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from stackmem.cli.screen.text import readable

MAX_CHARS = 100_000
"""A longer text is shown as it is."""
_HIGHLIGHTED_CHARS = 20_000
_TAIL_CHARS = 800
_MAX_QUOTES = re.compile(r"^([ \t>*+-]{40})[ \t>*+-]+", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(```+|~~~+)[ \t]*([\w.+#-]{0,30})")
_BETWEEN_BLOCKS = re.compile(r"\n{2,}(?=[^\s])")
_THEME = Theme(
    {
        "markdown.code": "cyan", "markdown.h1": "bold underline", "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.link": "blue", "markdown.link_url": "underline blue", "markdown.block_quote": "italic",
        "markdown.item.bullet": "bold", "markdown.item.number": "bold", "markdown.hr": "dim",
        "markdown.table.border": "dim", "markdown.table.header": "bold",
    }
)  # fmt: skip
"""Colors that are readable on light and dark terminals; no background."""


def render_markdown(text: str, columns: int, *, light: bool = False) -> str:
    """Return the text with escape sequences for colors. It contains no others."""
    safe = readable(text.expandtabs(4))
    blocks = (_render(part, language, columns, light) for part, language in _parts(safe))
    return "\n".join(part for part in blocks if part).strip("\n")


def render_tail(text: str, columns: int, *, light: bool = False) -> str:
    """Return the last block of a text that is still streaming, rendered.

    The cost does not grow with the length of the text, and blocks that are complete are rendered once.
    """
    tail = text[text.find("\n", max(0, len(text) - _TAIL_CHARS)) + 1 :] if len(text) > _TAIL_CHARS else text
    before = text[: len(text) - len(tail)]
    is_open = (before.count("\n```") + before.startswith("```")) % 2 == 1
    safe = readable((f"```\n{tail}" if is_open else tail).expandtabs(4))
    blocks = (_block(block, language, columns, light) for part, language in _parts(safe)
             for block in (_BETWEEN_BLOCKS.split(part.strip("\n")) if language is None else [part]))  # fmt: skip
    return "\n\n".join(part.strip("\n") for part in blocks if part)


@lru_cache(maxsize=32)
def _block(block: str, language: str | None, columns: int, light: bool) -> str:
    return _render(block, language, columns, light)


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield prose with None, and code between fences with its language."""
    lines: list[str] = []
    fence, language = "", ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if match is None or (fence and not line.strip().startswith(fence)):
            lines.append(line)
        elif fence:
            yield "\n".join(lines), language
            lines, fence = [], ""
        else:
            yield "\n".join(lines), None
            lines, fence, language = [], match[1], match[2]
    yield "\n".join(lines), language if fence else None


def _render(part: str, language: str | None, columns: int, light: bool) -> str:
    if language is not None:
        first, last = (_printed(Text(fence, "dim"), columns) for fence in (f"```{language}", "```"))
        return f"{first}\n{_code(part, language, columns, light)}\n{last}"
    if not part.strip():
        return ""
    prose = _MAX_QUOTES.sub(r"\1", part).replace("\n", "  \n")  # a line of the model stays a line
    return _printed(Markdown(prose, hyperlinks=False), columns)


def _code(code: str, language: str, columns: int, light: bool) -> str:
    if len(code) > _HIGHLIGHTED_CHARS or not language:
        return code
    theme = "ansi_light" if light else "ansi_dark"
    highlighted = Syntax(code, language, theme=theme, background_color="default").highlight(code)
    return _printed(highlighted, columns, wraps=False).rstrip("\n")


def _printed(renderable: RenderableType, columns: int, *, wraps: bool = True) -> str:
    file = StringIO()
    console = Console(
        file=file, force_terminal=True, width=max(20, columns), color_system="standard", legacy_windows=False,
        theme=_THEME, highlight=False, markup=False, emoji=False, no_color=False,
    )  # fmt: skip
    console.print(renderable, soft_wrap=not wraps)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))
