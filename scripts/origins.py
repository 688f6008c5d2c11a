"""Load and lint the public example programs of the system that a language comes from, and print a table.

    git clone https://github.com/playbooks-ai/playbooks copy
    python scripts/origins.py playbook copy           at the copy's head
    python scripts/origins.py playbook copy v0.3.5    at a tag, a branch or a commit

COPY is a git repository, with or without a work tree. The files of one commit are read from it. They are neither kept
nor executed. Programs in test folders are counted separately. ``docs/programs/origins.md`` contains the counts.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stackmem.core.errors import Halted, ProgramError, UsageError
from stackmem.languages.language import Language, Launch, language_of, read_with
from stackmem.languages.running.lint import lint_all
from stackmem.languages.running.opening import open_language
from stackmem.languages.running.prepare import read_program, source_reader, with_config
from stackmem.languages.running.sources import Loader

TESTS = re.compile(r"(?:^|/)tests?/")
_LACKS_INPUT = "Missing Required Input"
"""The halt of a program that loads, but whose inputs were not provided."""
_JSON_FENCE = re.compile(r"^```json[^\n]*\n(.*?)^[ \t]*```", re.M | re.S)
_RESPONSE = re.compile(r'"(?:nextStep|taskComplete|payloadChangeRequest|responseForm|automaticCommands)"')
_LOOP_DOCUMENTS = re.compile(
    r"packages/AI/Agents/(?:docs/)?[^/]+\.md|metadata/prompts/templates/.+\.md|guides/AGENT[^/]+\.md"
)
_FENCE = re.compile(r"^(`{3,})(?:markdown|md)[^\n]*\n(.*?)^\1[ \t]*$", re.M | re.S)


class Row(NamedTuple):
    """One program: why it could not be loaded, and the codes of the linter's findings, errors first."""

    path: str
    halted: str
    errors: tuple[str, ...]
    warnings: tuple[str, ...]


class Origin(NamedTuple):
    """The origin of a language.

    Attributes:
        programs: Returns the example programs in the folder of a copy, in the order of the table.
        options: Options for loading its programs; see ``Launch.options``.
    """

    programs: Callable[[Path], Iterator[Path]]
    options: dict[str, Any]


def _playbooks(folder: Path) -> Iterator[Path]:
    """Yield playbook files by name, scripts by their first line, and complete programs in documents."""
    for path in _files(folder):
        shebang = not path.suffix and path.read_bytes()[:40].startswith(b"#!/usr/bin/env pb")
        if shebang or (language_of(path.name) == "playbook" and path.parent.name != "prompts"):
            yield path
        elif path.suffix == ".md" and not path.relative_to(folder).parts[0].startswith(("design", ".")):
            for number, text in enumerate(_whole_programs(path.read_text("utf-8", "replace")), 1):
                made = path.with_name(f"{path.name}#{number}")
                made.write_text(text, encoding="utf-8")
                yield made


def _whole_programs(document: str) -> Iterator[str]:
    """Yield the fenced blocks of a document that start with an agent and continue with a playbook."""
    for found in _FENCE.finditer(document):
        if found[2].startswith("# ") and "\n## " in found[2]:
            yield found[2]


def _apl(folder: Path) -> Iterator[Path]:
    """Return the programs. The tools that they use are checked along with them."""
    return (path for path in _files(folder) if language_of(path.name) == "apl")


_WORKFLOW = re.compile(r"(?:\s|;[^\n]*\n)*\((?:defatom|let|progn|director-evaluator-loop|iterative-loop)\s")
_SEXP_FENCE = re.compile(r"^[ \t]*```sexp[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)


def _workflows(folder: Path) -> Iterator[Path]:
    """Yield the texts of each demo script as one program, and those of documents that are not templates."""
    for path in _files(folder):
        if path.suffix == ".py" and not path.name.startswith("test_") and "scripts" in path.relative_to(folder).parts:
            texts = [text for text in _texts(path.read_text("utf-8", "replace")) if _WORKFLOW.match(text)]
        elif path.suffix == ".md":
            fenced = _SEXP_FENCE.findall(path.read_text("utf-8", "replace"))
            texts = [text for text in fenced if _WORKFLOW.match(text) and not re.search(r"<[a-z]", text)]
        else:
            continue
        if texts:
            made = path.with_name(f"{path.name}.sexp")
            made.write_text("\n".join(texts), encoding="utf-8")
            yield made


def _texts(script: str) -> Iterator[str]:
    """Yield the string literals of a Python script in order. Interpolated values appear as their source."""
    texts: list[tuple[int, str]] = []
    waiting: list[ast.AST] = [ast.parse(script)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else ast.unparse(part) for part in node.values]
            texts.append((node.lineno, "".join(map(str, parts))))
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append((node.lineno, node.value))
        waiting += ast.iter_child_nodes(node)
    return (text for _, text in sorted(texts))


def _loop_agents(folder: Path) -> Iterator[Path]:
    """Yield the example responses in the documents on loop agents, each wrapped in an agent's prompt."""
    for path in _files(folder):
        if path.suffix != ".md" or not _LOOP_DOCUMENTS.match(path.relative_to(folder).as_posix()):
            continue
        for number, found in enumerate(_JSON_FENCE.finditer(path.read_text("utf-8", "replace")), 1):
            if _RESPONSE.search(found[1]):
                made = path.with_name(f"{path.name}#{number}.agent.yaml")
                made.write_text(json.dumps(_agent_of(found[0], found[1])), encoding="utf-8")
                yield made


def _agent_of(fence: str, example: str) -> dict[str, Any]:
    """Return a definition with the example in its prompt, and all actions and sub-agents that the example names."""
    named = dict.fromkeys(re.findall(r'"name":\s*"([^"]+)"', example)) if '"nextStep"' in example else {}
    asks = "subAgent" in example
    one, other = ("sub_agents", "inline") if asks else ("actions", "tool")
    entries = [{"name": name, other: {"name": name, "prompt": "Help."} if asks else "shell"} for name in named]
    actions = {"actions": [{**each, "params": {"type": "object"}} for each in entries]} if not asks else {}
    return {"name": "example", "prompt": fence, one: entries, **actions}


ORIGINS: dict[str, Origin] = {
    "apl": Origin(_apl, {}),
    "loop_agent": Origin(_loop_agents, {"checked": True}),
    "playbook": Origin(_playbooks, {"compile": True}),
    "sexp": Origin(_workflows, {}),
}
"""Language to its origin. ``options`` of playbooks omit the inputs of an entry playbook."""


def _files(folder: Path) -> list[Path]:
    """Return every file of the copy, sorted by path."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def rows(language: str, folder: Path) -> list[Row]:
    """Return the result for each example program in a folder."""
    opened = open_language(language)
    origin = ORIGINS[language]
    return [_row(opened, origin, path, folder) for path in list(origin.programs(folder))]


def _row(language: Language, origin: Origin, path: Path, folder: Path) -> Row:
    (linted,) = lint_all([str(path)], folder, language=language.name)
    codes: dict[str, list[str]] = {"error": [], "warning": [], "note": []}
    for finding in linted.findings:
        codes[finding.severity].append(finding.code)
    told = _halt(language, origin, path, folder)
    shown = path.relative_to(folder).as_posix()
    return Row(shown, told, tuple(dict.fromkeys(codes["error"])), tuple(dict.fromkeys(codes["warning"])))


def _halt(language: Language, origin: Origin, path: Path, folder: Path) -> str:
    """Return why a program cannot be loaded, as named by the halt or the error; empty if it loads."""
    try:
        options = with_config(origin.options, language, folder, path)
        launch = Launch(str(path), read_program(path), {}, str(path.parent), str(path.parent), options)
        read_with(language.outline(launch), source_reader(Loader(path, (path.parent, folder))))
    except Halted as halted:
        return "" if halted.kind == _LACKS_INPUT else halted.kind
    except (UsageError, ProgramError) as error:
        return str(error)
    return ""


def table(found: list[Row]) -> str:
    """Return the rows as a table, followed by their counts."""
    lines = ["| program | loads | lints | deviates |", "|---|---|---|---|"]
    for row in found:
        codes = ", ".join(dict.fromkeys([row.halted, *row.errors, *row.warnings])).removeprefix(", ")
        lines.append(f"| `{row.path}` | {_yes(not row.halted)} | {_yes(not row.errors)} | {codes} |")
    return "\n".join([*lines, "", *counts(found)])


def counts(found: list[Row]) -> list[str]:
    """Return the counts of the programs outside test folders, and those of the programs in them, if there are any."""
    tests = [row for row in found if TESTS.search(row.path)]
    lines = [_counted("programs", [row for row in found if row not in tests])]
    return [*lines, _counted("in test folders", tests)] if tests else lines


def _counted(what: str, found: list[Row]) -> str:
    loads, lints = sum(not row.halted for row in found), sum(not row.errors for row in found)
    plain = sum(not (row.halted or row.errors or row.warnings) for row in found)
    return f"{len(found)} {what}: {loads} load, {lints} lint without an error, {plain} without a finding"


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3) or arguments[0] not in ORIGINS:
        print(f"usage: python scripts/origins.py {'|'.join(ORIGINS)} COPY [COMMIT]", file=sys.stderr)
        return 2
    language, copy, commit = arguments[0], arguments[1], (arguments[2:] or ["HEAD"])[0]
    for name in (f"refs/tags/{commit}", commit):
        packed = subprocess.run(["git", "-C", copy, "archive", name], capture_output=True, check=False)
        if packed.returncode == 0:
            break
    else:
        print(f"{copy} has no commit {commit} ({packed.stderr.decode().strip()}); name another", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(folder, filter="data")
        print(table(rows(language, Path(folder).resolve())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
