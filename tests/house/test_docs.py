"""The docs match the program: commands and flags exist and are documented, examples run, links resolve."""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.forked import run_forked
from tests.house.sources import ROOT, files, name

DOCS = [path for path in files("*.md") if path.relative_to(ROOT).parts[0] not in ("tasks", "stackmem", "tests")]
# A decision records past reasoning, the changelog past changes: their examples need not run or parse today.
CURRENT = [path for path in DOCS if "decisions" not in path.parts and path.name != "CHANGELOG.md"]
FENCE = re.compile(r"^(?P<mark>```+)(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=mark)\s*$", re.M | re.S)
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    return [found["body"] for found in FENCE.finditer(read(path)) if found["language"].strip() == language]


@cache
def commands() -> dict[str, frozenset[str]]:
    """Return each command, spelled as after `stackmem` (`tasks check`), with its long flags; "" has the global ones."""
    import typer

    from stackmem.cli.app import app

    def walk(command, path: tuple[str, ...]) -> Iterator[tuple[str, frozenset[str]]]:
        flags = [flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--")]
        shown = not getattr(command, "hidden", False)
        if shown:
            yield " ".join(path), frozenset(flags) - {"--install-completion", "--show-completion"}
        for word, below in getattr(command, "commands", {}).items():
            yield from walk(below, (*path, word))

    return dict(walk(typer.main.get_command(app), ()))


def test_every_command_and_flag_is_in_the_docs():
    text = "\n".join(read(path) for path in CURRENT)
    lacking = []
    for command, flags in commands().items():
        if not re.search(rf"stackmem {command}\b", text):
            lacking.append(f"stackmem {command}")
        known = set(FLAG.findall(text))
        lacking += [" ".join(("stackmem", *command.split(), flag)) for flag in sorted(flags - known)]
    assert not lacking, "no page mentions " + ", ".join(lacking)


def shell_lines(path: Path) -> list[str]:
    """Return the `stackmem …` commands of the shell blocks, with comments and continuations resolved."""
    shell = [body for kind in ("console", "sh", "bash", "shell") for body in blocks(path, kind)]
    lines = "\n".join(shell).replace("\\\n", " ").splitlines()
    bare = [line.removeprefix("$ ").split(" #")[0].strip() for line in lines]
    return [line for line in bare if line.startswith("stackmem ")]


def unknown_words(line: str) -> list[str]:
    """Return the parts of a documented command line that the program does not know: the command, or its flags."""
    words = line.split()[1:]
    candidates = [command for command in commands() if command and words[: len(command.split())] == command.split()]
    command = max(candidates, key=len, default="")
    if not command and words and not words[0].startswith("-"):
        return [words[0]]
    return [flag for flag in FLAG.findall(line) if flag not in commands()[command] | {"--help"}]


def test_the_docs_name_only_commands_and_flags_that_exist():
    lines = [(name(path), line) for path in CURRENT for line in shell_lines(path)]
    assert len(lines) > 100
    assert {place: words for place in lines if (words := unknown_words(place[1]))} == {}


def test_a_command_or_flag_that_is_not_there_is_seen():
    assert unknown_words("stackmem dissolve tasks/calculator") == ["dissolve"]
    assert unknown_words("stackmem solve tasks/calculator --modle demo") == ["--modle"]
    assert unknown_words("stackmem solve tasks/calculator --model demo") == []


def run_python(code: str, folder: Path) -> None:
    """Run an example as a reader would: in a private folder with the tasks next to it."""
    (folder / "tasks").symlink_to(ROOT / "tasks")
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = run_forked([sys.executable, "-c", code], environ, folder, timeout=550)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", [path for path in CURRENT if blocks(path, "python")], ids=name)
def test_the_python_of_a_page_runs_from_top_to_bottom(path, tmp_path):
    run_python("\n".join(blocks(path, "python")), tmp_path)


@pytest.mark.parametrize("path", files("*.py", ROOT / "docs"), ids=name)
def test_an_example_runs(path, tmp_path):
    run_python(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", tmp_path)


def anchors(path: Path) -> set[str]:
    """Return the valid `#…` anchors of a page: its headings, spelled as the usual renderers do."""
    headings = re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", read(path)), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path: Path) -> list[str]:
    dead = []
    for found in LINK.finditer(re.sub(r"`[^`\n]*`", "", FENCE.sub("", read(path)))):
        target, _, anchor = found["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        to = path if not target else path.parent / target
        if target.startswith("/") or not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            dead.append(found["target"])
    return dead


def test_every_relative_link_leads_somewhere():
    assert {name(path): dead for path in DOCS if (dead := dead_links(path))} == {}


def test_a_dead_link_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A heading, really\n[a](page.md) [b](#a-heading-really) [c](gone.md) [d](#gone) `[e](code.md)`\n")
    assert dead_links(page) == ["gone.md", "#gone"]
