"""``stackmem docs``."""

from __future__ import annotations

import os
import pydoc
import sys
import webbrowser
from io import StringIO

import typer

from stackmem.cli.options import argument, switch
from stackmem.cli.screen.text import readable
from stackmem.errors import UsageError
from stackmem.report import documents
from stackmem.settings.settings_files import user_folder

_HITS = 20


def command(
    words: list[str] = argument(
        "[PAGE|WORD...]", "A page, or PAGE#SECTION; any other words are searched for.", default=None
    ),
    list_pages: bool = switch("--list", "List the pages, in their groups."),
    text: bool = switch("--text", "Print the page, also where a browser could show it."),
) -> None:
    """Read or search the documents, offline: in the browser where there is one, else as text."""
    if list_pages:
        _list()
        return
    page, _, anchor = " ".join(words or ["index"]).partition("#")
    name = documents.find(page)
    if name is None:
        _search(words)
        return
    markdown = documents.read(name, anchor)
    if not sys.stdout.isatty():
        typer.echo(markdown, nl=False)
    elif text or not _shown_in_browser(name, anchor):
        _print(name, markdown)


def _list() -> None:
    width = max(map(len, documents.documents()))
    for group, names in documents.groups().items():
        typer.echo(f"{group}:")
        for name in names:
            typer.echo(f"  {name:<{width}}  {documents.title(name)}")
    typer.echo("\nstackmem docs PAGE shows a page, stackmem docs WORD searches them")


def _search(words: list[str]) -> None:
    hits = documents.search(words)
    if not hits:
        raise UsageError(f"no page and no section has {readable(' '.join(words))[:80]!r}; see stackmem docs --list")
    for hit in hits[:_HITS]:
        typer.echo(f"{hit.place}\n    {hit.line[:100]}")
    more = f"; {len(hits) - _HITS} more sections have these words" if len(hits) > _HITS else ""
    typer.echo(f"\nstackmem docs {hits[0].place} shows the first{more}")


def _shown_in_browser(name: str, anchor: str) -> bool:
    """Whether a browser with windows was there, and took the page; pages are made anew in the cache each time."""
    if sys.platform != "darwin" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        return False
    place = user_folder(os.environ, "XDG_CACHE_HOME", ".cache", "docs")
    if place is None:
        return False
    try:
        documents.write_site(place)
    except OSError as error:
        raise UsageError(f"{place} cannot be written ({error.strerror}); --text prints the page") from error
    page = place / f"{name}.html"
    typer.echo(f"opening {readable(str(page))}")
    return webbrowser.open(page.as_uri() + (f"#{anchor}" if anchor else ""))


def _print(name: str, markdown: str) -> None:
    """The page as a terminal shows it, through the person's pager, and the pages that it leads to."""
    from rich.console import Console
    from rich.markdown import Markdown

    shown = StringIO()
    console = Console(file=shown, force_terminal=True, width=min(Console().width, 120))
    console.print(Markdown(documents.without_addresses(markdown)))
    if more := documents.linked(name, markdown):
        console.print(f"\nLeads to: {', '.join(more)}", highlight=False)
    os.environ.setdefault("LESS", "FRX")  # colors, and no pager for what fits the screen
    pydoc.pager(shown.getvalue())
