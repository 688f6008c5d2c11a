"""Builds pages: single HTML files that contain their scripts, styles and data, and load nothing else.

Everything in a trace is untrusted. It is embedded compressed, as base64, so that no text can close an element. The
content security policy lists the digests of the page's own scripts and styles and allows nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from msgspec import json

from stackmem.core.errors import TraceError, UsageError
from stackmem.review.kept.run_list import frame_runs, has_begun
from stackmem.run.run_folder import frame_parent, is_run

from .colors import color_script, color_styles
from .view import PageContent, read_runs

_MODULES = (
    "text", "store", "theme", "colors", "timeline", "layer", "flame", "lanes", "charts", "parts", "life", "losses",
    "inspector", "headline", "answer", "sizes", "field", "film", "estimate", "other", "promptdiff", "memory", "spent",
    "heads", "search", "main",
)  # fmt: skip
_STYLES = ("vendor/uPlot.min.css", "page.css", "memory.css")
_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./([a-z]+)\.js";$', re.M)
_EXPORT = re.compile(r"^export ((?:const|function|async function|class) (\w+))", re.M)

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>stackmem</title>
{more}<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript; everything it shows is inside it.</noscript>
{body}</body>
</html>
"""
_LICENSE = "<!--\nuPlot, which draws the charts:\n{license}-->\n"
_DATA = '<script type="application/octet-stream" id="held">{held}</script>\n'


def page(content: PageContent) -> bytes:
    """Build a complete page for a file."""
    return _run_page(gzip.compress(json.encode(content), 9, mtime=0), ("single",), "", connects=False)


def live_page(content: bytes, more: str) -> bytes:
    """Build a page that is connected to a server, which sends changes and runs commands.

    Args:
        content: A ``PageContent`` as JSON.
        more: Head elements that give the page the address of the server.
    """
    return _run_page(gzip.compress(content, 1), ("commands", "live"), more, connects=True)


def _run_page(packed: bytes, last: Sequence[str], more: str, *, connects: bool) -> bytes:
    data_html = _DATA.format(held=base64.b64encode(packed).decode())
    scripts = asset("vendor/uPlot.iife.min.js"), _program((*_MODULES, *last))
    license_text = _LICENSE.format(license=asset("vendor/uPlot.LICENSE"))
    return _document(_STYLES, scripts, data_html, license_text + more, connects=connects)


def index_page() -> bytes:
    """Build a page without data; it requests runs and benches from its server."""
    program = _program(("text", "theme", "colors", "commands", "home", "index"))
    return _document(("page.css", "index.css"), ("", program), "", "", connects=True)


def _document(styles: Sequence[str], scripts: tuple[str, str], data_html: str, more: str, *, connects: bool) -> bytes:
    """Build a page whose policy allows only its own style and two scripts: a plain one, then a module."""
    style = "".join(map(asset, styles)) + color_styles()
    plain, module = scripts
    connect = "connect-src 'self'; img-src data:; " if connects else "img-src data:; "
    more += '<link rel="icon" href="data:,">\n' if connects else ""
    policy = (
        f"default-src 'none'; script-src {script_digest(plain)} {script_digest(module)}; "
        f"style-src {script_digest(style)}; "
        f"{connect}base-uri 'none'; form-action 'none'"
    )
    first = f"<script>{plain}</script>\n" if plain else ""
    body = f'{data_html}{first}<script type="module">{module}</script>\n'
    return _PAGE.format(policy=policy, more=more, style=style, body=body).encode()


def _program(modules: Sequence[str]) -> str:
    """Join modules into one script, each in its own scope, because a page without a server cannot import modules."""
    return "".join(_scope(name, _source(name)) for name in modules)


def _scope(name: str, source: str) -> str:
    exported = ", ".join(match[2] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const \1 = from_\2;", source))
    return f"const from_{name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _source(name: str) -> str:
    source = asset(f"{name}.js")
    return color_script(source) if name == "colors" else source


def asset(name: str) -> str:
    """Return a style sheet or script of the pages."""
    return files("stackmem.review.report").joinpath("assets", name).read_text(encoding="utf-8")


def script_digest(text: str) -> str:
    """Return the digest of a script or a style sheet for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_page(folders: Sequence[Path], output: str | None) -> Path:
    """Write the page of one or more runs atomically, replacing an existing file; return its path.

    The page of a single run and those of its parallel frames link to each other, so all of them are written: each in
    its run's folder, or next to ``output`` with the run's name. ``output`` is the file. By default, it is ``view.html``
    in the first run's folder, whose name includes the second run; if that folder is read-only, the working directory.
    Raise UsageError if the page cannot be written, and TraceError if a trace is broken.
    """
    name = "view.html" if len(folders) == 1 else f"view-{folders[1].resolve().name}.html"
    path = _path_of(folders[0], name, output)
    content = read_runs(folders)
    # A Path raises if its name is too long, and the message of `write_whole` is better.
    if len(folders) == 1 and (os.path.isfile(path) or not os.path.exists(path)):  # noqa: PTH110, PTH113
        others = _related_pages(folders[0].resolve(), path, output)
        written = {folder for folder in others if _write_related(folder, {**others, folders[0].resolve(): path})}
        content.links = _links(path, {folder: others[folder] for folder in written})
    write_whole(path, page(content))
    return path


def _write_related(folder: Path, pages: Mapping[Path, Path]) -> bool:
    """Write the page of a related run. Return False if its trace is broken."""
    try:
        content = read_runs([folder])
    except TraceError:
        return False
    content.links = _links(pages[folder], pages)
    write_whole(pages[folder], page(content))
    return True


def _path_of(folder: Path, name: str, output: str | None) -> Path:
    if output is not None:
        return Path(os.path.expanduser(output))
    return folder / name if os.access(folder, os.W_OK) else Path(f"{folder.resolve().name}-{name}")


def _related_pages(run: Path, path: Path, output: str | None) -> dict[Path, Path]:
    """Return the parallel frames of a run, or for a frame its parent and the other frames, with the files of their
    pages. Runs without a first record have none.
    """
    parent = frame_parent(run.name)
    main = run.with_name(parent) if parent and is_run(run.with_name(parent)) else run
    others = [folder for folder in (main, *frame_runs(main)) if folder != run and has_begun(folder)]
    pattern = f"{path.stem}-%s{path.suffix}"
    return {
        folder: path.with_name(pattern % folder.name) if output is not None else _path_of(folder, "view.html", None)
        for folder in others
    }


def _links(page_file: Path, others: Mapping[Path, Path]) -> dict[str, str]:
    """Return the relative addresses of other pages by their runs."""
    here = page_file.resolve().parent
    return {
        run.name: quote(os.path.relpath(other.resolve(), here)) for run, other in others.items() if other != page_file
    }


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing one. Raise UsageError if the file cannot be written."""
    try:
        _replace(path, content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}); choose another file with -o") from error


def _replace(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # devices and pipes are written to, never replaced
        return
    fresh = path.parent / f".{path.name[:200]}.{os.getpid()}"
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise


def open_page(path: Path) -> None:
    """Open the page in the user's browser."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        raise UsageError(f"no browser could be started; open {path} yourself")
