"""``stackmem docs``."""

from __future__ import annotations

import os
import pydoc
import sys
from io import StringIO

import typer

from stackmem.cli import documents
from stackmem.cli.options import argument, switch
from stackmem.cli.screen.text import readable
from stackmem.core.errors import UsageError

_HITS = 20


def command(
    words: list[str] = argument("PAGE|WORD", "A page, PAGE#SECTION, or words to search for.", default=None),
    list_pages: bool = switch("--list", "List the pages in groups."),
) -> None:
    """Read or search the documents offline."""
    if list_pages:
        _list()
        return
    page, _, anchor = " ".join(words or ["index"]).partition("#")
    name = documents.find(page)
    if name is None:
        _search(words)
        return
    markdown = documents.read(name, anchor)
    if sys.stdout.isatty():
        _print(name, markdown)
    else:
        typer.echo(markdown, nl=False)


def _list() -> None:
    width = max(map(len, documents.documents()))
    for group, names in documents.groups().items():
        typer.echo(f"{group}:")
        for name in names:
            typer.echo(f"  {name:<{width}}  {documents.title(name)}")
    typer.echo("\nstackmem docs PAGE shows a page; stackmem docs WORD searches all pages")


def _search(words: list[str]) -> None:
    hits = documents.search(words)
    if not hits:
        raise UsageError(
            f"no page or section contains {readable(' '.join(words))[:80]!r}; stackmem docs --list lists all pages"
        )
    for hit in hits[:_HITS]:
        typer.echo(f"{hit.place}\n    {hit.line[:100]}")
    more = f"; {len(hits) - _HITS} more sections contain these words" if len(hits) > _HITS else ""
    typer.echo(f"\nstackmem docs {hits[0].place} shows the first{more}")


def _print(name: str, markdown: str) -> None:
    """Show the page in the user's pager, and list the pages it links to."""
    from rich.console import Console
    from rich.markdown import Markdown

    buffer = StringIO()
    console = Console(file=buffer, force_terminal=True, width=min(Console().width, 120))
    console.print(Markdown(documents.without_addresses(markdown)))
    if more := documents.linked(name, markdown):
        console.print(f"\nLeads to: {', '.join(more)}", highlight=False)
    os.environ.setdefault("LESS", "FRX")  # colors, and no pager if the page fits on the screen
    pydoc.pager(buffer.getvalue())
