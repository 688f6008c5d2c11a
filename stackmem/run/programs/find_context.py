"""Ranks the heap's chunks and the workspace's text files by what a program looks for, with SQLite's FTS5."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from typing import Any

from stackmem.core.program_facts import ToolAnswered
from stackmem.errors import WorkspaceError
from stackmem.workspace.refusals import ToolRefused

from .bench import Bench

FILE_BYTES = 200 * 1024
"""A longer file is none that is looked into."""
MOST_FILES = 20_000
MOST_QUERY_WORDS = 64
_WORD = re.compile(r"\w+")


def find_context(arguments: dict[str, Any], bench: Bench) -> ToolAnswered:
    """The answer to a program's ``find_context``: a list of names, best first, equal ones by name.

    Args:
        arguments: ``query``; ``strategy`` is ``content`` (what a text says) or ``metadata`` (names and descriptions);
            ``chunks`` with ``name``, ``description`` and ``content``; ``most`` names are given.

    """
    words = list(dict.fromkeys(_WORD.findall(str(arguments.get("query") or "").lower())))[:MOST_QUERY_WORDS]
    if not words:
        return ToolAnswered([])
    by_content = arguments.get("strategy") != "metadata"
    rows = [
        (f"heap:{chunk['name']}", chunk["content"] if by_content else f"{chunk['name']} {chunk['description']}")
        for chunk in arguments.get("chunks") or ()
    ]
    for path in _paths(bench):
        text = _text(path, bench) if by_content else path
        if text is not None:
            rows.append((path, text))
    most = int(arguments.get("most") or 10)
    return ToolAnswered([bench.scrub(name) for name in _ranked(rows, words)[:most]])


def _ranked(rows: list[tuple[str, str]], words: list[str]) -> list[str]:
    """Names of the rows that hold one of the words; rarer words and shorter texts count for more."""
    with closing(sqlite3.connect(":memory:")) as store:
        store.execute("CREATE VIRTUAL TABLE text USING fts5(name UNINDEXED, body)")
        split = [(name, " ".join(_WORD.findall(re.sub(r"[_/.-]", " ", body)))) for name, body in rows]
        store.executemany("INSERT INTO text VALUES (?, ?)", split)
        wanted = " OR ".join(f'"{word}"' for word in words)
        found = store.execute("SELECT name, bm25(text) FROM text WHERE text MATCH ?", (wanted,)).fetchall()
    return [name for name, _ in sorted(found, key=lambda row: (round(row[1], 9), row[0]))]


def _paths(bench: Bench) -> list[str]:
    """The workspace's files, sorted, without what ``.gitignore`` leaves out."""
    found: list[str] = []
    level = ["."]
    rules = bench.rules()
    try:
        while level and len(found) < MOST_FILES:
            inside = [each for folder in level for each in _inside(folder, bench)]
            skipped = rules.ignored([os.fsencode(each.rstrip("/")) for each in inside])
            kept = [each for each in inside if os.fsencode(each.rstrip("/")) not in skipped]
            level = [each.rstrip("/") for each in kept if each.endswith("/")]
            found += [each for each in kept if not each.endswith("/")]
    except TimeoutError as error:
        raise WorkspaceError(f"{error}; see what .gitignore says") from error
    finally:
        rules.close()
    return sorted(found)[:MOST_FILES]


def _inside(folder: str, bench: Bench) -> list[str]:
    try:
        names = bench.workspace.files.names(folder)
    except ToolRefused:
        return []
    own = (".git/", ".git", ".stackmem/")
    return [name if folder == "." else f"{folder}/{name}" for name in names if name not in own]


def _text(path: str, bench: Bench) -> str | None:
    """None where it is no text, too long, or cannot be read."""
    try:
        raw = bench.workspace.files.read_whole(path, FILE_BYTES)
        return None if len(raw) > FILE_BYTES or b"\0" in raw else raw.decode()
    except (ToolRefused, UnicodeDecodeError):
        return None
