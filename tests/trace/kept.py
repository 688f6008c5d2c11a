"""Builders of stored runs: a folder with a trace and a file history, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from stackmem.core.facts import Event
from stackmem.history.objects import EXECUTABLE, FILE, LINK, Node, ObjectStore
from stackmem.trace.store import TraceWriter


def keep(folder: Path, events: Iterable[Event]) -> Path:
    """Create a run folder with these events as its trace, one second apart."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = iter(range(1_000_000))
    writer = TraceWriter(folder / "trace.jsonl", now=lambda: float(next(seconds)))
    for event in events:
        writer.append(event)
    writer.close()
    return folder


def tree(folder: Path, files: Mapping[str, str | bytes]) -> str:
    """Return the id of a tree with these files in a run's history; ``x!`` is executable, ``x@`` is a link."""
    store = ObjectStore(folder / "history.git")
    nodes = []
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else content.encode()
        mode = {"!": EXECUTABLE, "@": LINK}.get(name[-1], FILE)
        nodes.append((os.fsencode(name.rstrip("!@")), Node(mode, store.add("blob", raw))))
    return store.add_folders(nodes)
