"""What mkdocs asks as ``make docs`` builds the site.

The navigation is made of the lists of ``docs/index.md``, so that pages are listed in one place.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from stackmem.report import documents

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
_SHIM = "node_modules/iframe-worker/shim/index.js"


def on_config(config: Any) -> Any:
    """Groups as sections; a page is called by its first heading."""
    config.nav = [
        {group: [{documents.title(name): f"{name}.md"} for name in names]}
        for group, names in documents.groups().items()
    ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Bring the script along with which a browser searches pages that it opened from the disk."""
    files.append(File.generated(config, "assets/iframe-worker.js", abs_src_path=str(ROOT / _SHIM)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A link to a file of the repository that is no page stands as its text alone."""

    def kept(found: re.Match[str]) -> str:
        target = os.path.normpath(Path("docs", page.file.src_uri).parent / found[2])
        return found[0] if target.startswith("docs/") else found[1]

    return _LINK.sub(kept, markdown)
