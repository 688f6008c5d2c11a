"""Read what real models wrote for the origin of the playbooks, and print how much of it is read here.

    git clone https://github.com/playbooks-ai/playbooks copy
    python scripts/origin_replies.py copy

COPY needs its whole history: some commits contain the cache of the origin's tests, a database of replies. Only texts
are taken from it, each once. They are neither kept nor executed. A reply is by the seed's contract, or by a later one:
with ``yld?`` and ``yld for``, or as Python. ``docs/programs/origins.md`` contains the counts.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stackmem.languages.playbook.errors import PlaybookError
from stackmem.languages.playbook.reader import read_program
from stackmem.languages.playbook.reply import read_reply
from stackmem.languages.playbook.reply_items import ReplyItems, TextItem, Unreadable

_PROGRAM_FILE = re.compile(r"\.(?:pb|pbasm|playbooks?\.md)$")
_PROGRAM = re.compile(r"\A(?!.*`Step\[).*^# \w.*^## \w", re.M | re.S)
_HEADING = re.compile(r"^##+ \w", re.M)
_PYTHON = re.compile(r"^[ \t]*(?:await[ \t]+)?(?:self\.)?Step\(", re.M)
_ITEM = re.compile(r"`(?:Step|Var|Trigger|Return)\[")
_LATER = re.compile(r"yld\? (?:no|yes)|yld for")
_FENCE = re.compile(r"\A\s*```\w*\n(.*)\n```\s*\Z", re.S)


class AnyValue(dict[str, Any]):
    """Variables whose values are unknown, because the prompts are not part of the copy: each one is 1."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> int:
        return 1


def git(copy: str, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", copy, *arguments], capture_output=True, check=True).stdout


def files_of(copy: str, *paths: str) -> Iterator[dict[str, str]]:
    """Yield the files of each commit that changed one of the paths, by name, with the id of their content."""
    for commit in git(copy, "log", "--all", "--format=%H", "--", *paths).decode().split():
        rows = (line.split(None, 3) for line in git(copy, "ls-tree", "-r", commit).decode().splitlines())
        yield {name: blob for _, _, blob, name in rows}


def cached_texts(copy: str) -> list[str]:
    """Return the texts in every version of the caches, each once."""
    texts: dict[str, None] = {}
    seen: set[tuple[str, str | None]] = set()
    for files in files_of(copy, "*cache.db*"):
        for name, blob in files.items():
            log = files.get(f"{name}-wal")
            if name.endswith("/cache.db") and (blob, log) not in seen:
                seen.add((blob, log))
                texts |= dict.fromkeys(
                    _rows(git(copy, "cat-file", "blob", blob), log and git(copy, "cat-file", "blob", log))
                )
    return list(texts)


def _rows(database: bytes, log: bytes | str | None) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache.db")
        path.write_bytes(database)
        if isinstance(log, bytes):
            Path(folder, "cache.db-wal").write_bytes(log)
        found: list[str] = []
        try:
            found += [
                str(value) for (value,) in sqlite3.connect(path).execute("select value from Cache where mode = 1")
            ]
        except sqlite3.DatabaseError as error:
            print(f"a cache is damaged ({error}); its readable rows count", file=sys.stderr)
        return found


def program_files(copy: str) -> list[str]:
    """Return every program file of the history, each once."""
    blobs = {
        blob
        for files in files_of(copy, "*.pb", "*.pbasm", "*.playbook.md", "*.playbooks.md")
        for name, blob in files.items()
        if _PROGRAM_FILE.search(name)
    }
    return list(dict.fromkeys(git(copy, "cat-file", "blob", blob).decode("utf-8", "replace") for blob in sorted(blobs)))


def kind_of(text: str) -> str:
    """Return what a text is: a program, a reply by the contract of a time, or something else."""
    if _PYTHON.search(text) and not _ITEM.search(text) and "### Steps" not in text:
        return "python"
    if _PROGRAM.search(text):
        return "program"
    if _ITEM.search(text) and not _HEADING.search(text):
        return "later" if _LATER.search(text) else "seed"
    return "other"


def is_read(reply: ReplyItems) -> bool:
    """Return whether a reply has an item besides text and no unreadable one."""
    kinds = [type(item) for item in reply.items]
    return Unreadable not in kinds and any(kind is not TextItem for kind in kinds)


def loads(text: str) -> bool:
    fenced = _FENCE.match(text)
    try:
        read_program(fenced[1] if fenced else text)
    except PlaybookError:
        return False
    return True


def report(texts: list[str], files: list[str]) -> list[str]:
    """Return one line for each kind."""
    whole, read = Counter(map(kind_of, texts)), Counter[str]()
    changed = 0
    for text in texts:
        kind = kind_of(text)
        read[kind] += loads(text) if kind == "program" else is_read(read_reply(text, AnyValue()))
        changed += kind == "seed" and read_reply(text, AnyValue()) != read_reply(text)
    before = sum(is_read(read_reply(text)) for text in texts if kind_of(text) in ("later", "python"))
    return [
        f"program files: {sum(map(loads, files)):,} of {len(files):,} load",
        f"programs by models: {read['program']:,} of {whole['program']:,} load",
        f"replies by the seed's contract: {read['seed']:,} of {whole['seed']:,} are read, {changed} in a new way",
        f"replies by the later contract, back-ticked: {read['later']:,} of {whole['later']:,} are read",
        f"replies by the later contract, Python: {read['python']:,} of {whole['python']:,} are read",
        f"of these two, older runs read {before:,}; {whole['other']:,} other texts",
    ]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python scripts/origin_replies.py COPY", file=sys.stderr)
        return 2
    texts, files = cached_texts(arguments[0]), program_files(arguments[0])
    print("\n".join(report(texts, files)))
    return 0 if texts and files else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
