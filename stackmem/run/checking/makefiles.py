"""Determines what make would run and read, and which files a makefile includes."""

from __future__ import annotations

import fnmatch
import re

from msgspec import Struct

MAKEFILES = r"(gnu)?makefile|[^/]+\.(mk|mak|make)"
"""Pattern for names of makefiles."""


class DryRun(Struct, frozen=True):
    """Parsed output of ``make -n -p``."""

    recipe: str  # the commands that make would run
    makefiles: tuple[str, ...]  # the files that make read
    targets: tuple[str, ...]  # targets that count as up to date if a file of that name exists
    own_python: bool = False  # the makefiles set Python's import path for all recipes


def read_dry_run(printed: str) -> DryRun:
    recipe, _, database = printed.partition("\n# Make data base")
    if printed.startswith("# Make data base"):
        recipe, database = "", printed
    files = " ".join(re.findall(r"(?m)^MAKEFILE_LIST := (.*)$", database)).split()
    # After the files section, make prints built-in recipes; only real targets start with a head line.
    targets = []
    for block in database.partition("\n# Files")[2].split("\n\n"):
        head = re.match(r"(?:#[^\n]*\n)*([^#\s:=.%][^:=\n]*?)\s*::?(?!=)", block.lstrip("\n"))
        if head and "# Not a target:" not in block and "#  Phony target" not in block:
            targets.append(head[1])
    sets_path = re.search(r"(?m)^# makefile[^\n]*\n([^\n:#]*: )?PYTHONPATH\b", database)
    return DryRun(recipe, tuple(files), tuple(targets), bool(sets_path))


def included(makefile: bytes) -> list[re.Pattern[bytes]]:
    """Return patterns for the paths that a makefile includes. A variable in a path matches anything."""
    text = makefile.replace(b"\\\n", b" ")
    patterns = []
    for line in re.findall(rb"(?m)^[ ]*(?:-|s)?include[ \t]+(.+?)[ \t]*(?:#.*)?$", text):
        plain = re.sub(rb"\$\(wildcard ([^()]*)\)", rb"\1", line)
        plain = re.sub(rb"\$\([^()]*\([^()]*\)[^()]*\)|\$\([^()]*\)|\$\{[^{}]*\}|\$\w", b"*", plain)
        for word in plain.split():
            stripped = word.removeprefix(b"./").removeprefix(b"*/")
            if not re.search(rb"\w", stripped):
                patterns.append(re.compile(rb".*\.(d|inc|conf|config|env)"))
                continue
            # escape brackets, so that the pattern matches in bounded time
            body = fnmatch.translate(stripped.decode("latin-1").replace("[", "[[]"))
            patterns.append(re.compile(rb"(.*/)?" + body.encode("latin-1")))
    return patterns
