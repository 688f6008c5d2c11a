"""Packages a program for use outside of stackmem: as an agent skill, a GitHub Action, or a tool of an MCP server.

Rule 1: Texts of the program (names, descriptions, defaults) are data. In generated shell code they are quoted or in
    environment variables, and generated YAML and JSON come from a library.
Rule 2: The package is complete or does not exist: it is written to a new folder and linted there, then renamed.

Sources: the public Agent Skills format; GitHub's documentation of composite actions; the ``mcpServers`` configuration
of MCP clients.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from stackmem.core.errors import UsageError
from stackmem.core.text import mark_cut, quantity
from stackmem.foreign.files import read_regular

from ..frame.bounds import FILE_BYTES
from .catalog import CatalogEntry, describe
from .lint import lint_all
from .prepare import find_program

MAX_FILES = 1_000
_SKILL_NAME_CHARS = 64
_SKILL_DESCRIPTION_CHARS = 1_024
_ACTION_INPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_LEFT_OUT = ("node_modules", "__pycache__", "venv")


def package(program: str, form: str, to: Path | None, cwd: Path) -> Path:
    """Write a program's package and return its folder.

    Raise UsageError if the form or the program does not exist, the folder exists, a file cannot be packaged, or the
    copy is not valid without files that are not part of it.

    Args:
        program: A program, or a folder with a main program; then all files of the folder are part of the package.
        form: One of ``FORMS``.
        to: The new folder. Default: the program's name with hyphens, in ``cwd``.
        cwd: The folder that relative paths start from.
    """
    if form not in FORMS:
        raise UsageError(f"--as {form[:40]!r} is unknown; choose one of {', '.join(FORMS)}")
    path, _ = find_program(program, None, cwd)
    entry = describe(path)
    name = _hyphenated(entry.name)
    target = cwd / os.path.expanduser(to or name)
    if os.path.lexists(target):
        raise UsageError(f"{target} exists; choose a new folder with -o DIR, or remove it")
    is_folder = (cwd / os.path.expanduser(program)).is_dir()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".package-", dir=target.parent))
    except OSError as error:
        raise UsageError(f"{target} cannot be created ({error.strerror}); choose another folder with -o DIR") from error
    try:
        _copy(path.parent if is_folder else path, staging / name)
        _check(staging / name, path)
        main = name if is_folder else f"{name}/{path.name}"
        for file, text in FORMS[form](name, main, entry, target.resolve()).items():
            (staging / file).write_text(text, encoding="utf-8")
        staging.chmod(0o755)
        staging.rename(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return target


def _copy(source: Path, target: Path) -> None:
    """Copy one file, or the files of a folder. Hidden files are left out."""
    target.mkdir()
    total = 0
    for number, file in enumerate(_files(source) if source.is_dir() else [source]):
        try:
            content = read_regular(file, FILE_BYTES)
        except OSError as error:
            raise UsageError(f"{file} cannot be packaged ({error.strerror or error})") from error
        total += len(content)
        if number >= MAX_FILES or total > FILE_BYTES:
            raise UsageError(
                f"{source} has more than {MAX_FILES:,} files or {FILE_BYTES:,} bytes; package a smaller one"
            )
        path = target / (file.relative_to(source) if source.is_dir() else file.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if os.access(file, os.X_OK) else 0o644)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names.

    Raise UsageError if there is a link, which might lead anywhere.
    """
    for each in sorted(folder.iterdir()):
        if each.name.startswith(".") or each.name in _LEFT_OUT:
            continue
        if each.is_symlink():
            raise UsageError(f"{each} is a link; replace it by its file, so that the package is complete")
        if each.is_dir():
            yield from _files(each)
        elif each.is_file():
            yield each


def _check(copy: Path, original: Path) -> None:
    errors = [
        finding for linted in lint_all([str(copy)], copy) for finding in linted.findings if finding.severity == "error"
    ]
    if errors:
        location = errors[0].path.rpartition("/")[2]
        raise UsageError(
            f"the packaged copy of {original} has {quantity(len(errors), 'lint error')}, the first in {location}: "
            f"{errors[0].message}; if it needs other files, put them into its folder and package the folder"
        )


def _hyphenated(name: str) -> str:
    """Return a name as the Agent Skills format demands it: lowercase letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:_SKILL_NAME_CHARS].strip("-") or "program"


def _skill(name: str, main: str, entry: CatalogEntry, target: Path) -> dict[str, str]:
    """Return the files of a skill: ``SKILL.md``, with the inputs and the command."""
    inputs = _inputs(entry)
    head = {"name": name, "description": mark_cut(_line(entry.description), _SKILL_DESCRIPTION_CHARS)}
    needed = " ".join(_argument(key, schema) for key, schema, required in inputs if required)
    rows = "".join(_row(*each) for each in inputs)
    text = (
        f"---\n{_yaml(head)}---\n# {name}\n\n{_line(entry.description)}\n\n"
        f"Run this command, with this skill's folder in place of `SKILL`:\n\n"
        f"```sh\n{f'stackmem run SKILL/{main} --quiet {needed}'.rstrip()}\n```\n\n"
        "It prints the result. It works on a copy of the program's folder; name your own folder with\n"
        "`--workspace DIR`, and bring its changes over with `stackmem apply last`. If the program asks a model, add\n"
        "`--model NAME`.\n\n"
        f"## Inputs\n\n{rows or 'None.'}\n"
        "Pass a text as `--input NAME=TEXT`, another value as `--input NAME:=JSON`.\n"
    )
    return {"SKILL.md": text}


def _row(key: str, schema: dict[str, Any], required: bool) -> str:
    described, default = schema.get("description"), schema.get("default")
    return "".join(
        (
            f"- `{_code(key)}` ({_kind(schema)}, {'required' if required else 'optional'})",
            f": {_line(str(described))}" if described else "",
            "" if default is None else f" Default: `{_code(json.dumps(default, ensure_ascii=False))}`.",
            "\n",
        )
    )


_STEP = """\
set -uo pipefail
if [ -n "$STACKMEM" ]; then
  python3 -m venv "$RUNNER_TEMP/stackmem" || exit
  PATH="$RUNNER_TEMP/stackmem/bin:$PATH"
  pip install --quiet "$STACKMEM" || exit
fi
python3 - >"$RUNNER_TEMP/inputs.json" <<'END' || exit
import json, os, sys
given = {}
for number, (name, kind) in enumerate(json.loads(os.environ["INPUTS"])):
    value = os.environ[f"INPUT_{number}"]
    if not value:
        continue  # the program's default
    try:
        given[name] = value if kind == "text" else json.loads(value)
    except ValueError:
        if kind == "json":
            sys.exit(f"the input {name} must be JSON")
        given[name] = value
print(json.dumps(given))
END
flags=(--quiet --non-interactive --inputs="$RUNNER_TEMP/inputs.json")
[ -z "$MODEL" ] || flags+=(--model="$MODEL")
[ -z "$WORKSPACE" ] || flags+=(--workspace="$WORKSPACE")
code=0
result="$(stackmem run "${flags[@]}" -- "$GITHUB_ACTION_PATH/$PROGRAM")" || code=$?
end="end-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d " \\n")"
printf 'result<<%s\\n%s\\n%s\\n' "$end" "$result" "$end" >>"$GITHUB_OUTPUT"
exit "$code"
"""
_OWN_INPUTS = {
    "stackmem": {"description": "What pip installs to get stackmem. Empty: the runner has it.", "default": ""},
    "stackmem-model": {"description": "The model, if the program asks one.", "default": ""},
    "stackmem-workspace": {"description": "The folder that the program works on a copy of.", "default": ""},
}


def _action(name: str, main: str, entry: CatalogEntry, target: Path) -> dict[str, str]:
    """Return the files of a composite GitHub Action: ``action.yml`` with an input for each one of the program."""
    inputs = _inputs(entry)
    strange = next((key for key, _, _ in inputs if not _ACTION_INPUT.fullmatch(key) or key in _OWN_INPUTS), None)
    if strange is not None:
        raise UsageError(
            f"the input {strange[:80]!r} cannot be an input of an action; rename it (letters, digits, - and _, and not "
            f"{', '.join(_OWN_INPUTS)})"
        )
    program_inputs = {
        key: {"description": _line(str(schema.get("description") or key)), "required": required, "default": ""}
        for key, schema, required in inputs
    }
    environment = {
        "PROGRAM": main,
        "INPUTS": json.dumps([[key, _kind_of_value(schema)] for key, schema, _ in inputs]),
        **{f"INPUT_{number}": f"${{{{ inputs.{key} }}}}" for number, (key, _, _) in enumerate(inputs)},
        "MODEL": "${{ inputs.stackmem-model }}",
        "WORKSPACE": "${{ inputs.stackmem-workspace }}",
        "STACKMEM": "${{ inputs.stackmem }}",
    }
    step = {"id": "run", "shell": "bash", "env": environment, "run": LiteralScalarString(_STEP)}
    document = {
        "name": name,
        "description": _line(entry.description),
        "inputs": {**program_inputs, **_OWN_INPUTS},
        "outputs": {"result": {"description": "The value of the program.", "value": "${{ steps.run.outputs.result }}"}},
        "runs": {"using": "composite", "steps": [step]},
    }
    return {"action.yml": _yaml(document)}


def _mcp(name: str, main: str, entry: CatalogEntry, target: Path) -> dict[str, str]:
    """Return the files of an MCP tool: ``mcp.json``, the configuration of a server that clients read."""
    programs = target if main == name else target / name  # a folder with a main program is one tool
    arguments = ["mcp", ".", "--programs", str(programs)]
    return {"mcp.json": json.dumps({"mcpServers": {name: {"command": "stackmem", "args": arguments}}}, indent=2) + "\n"}


FORMS: dict[str, Callable[[str, str, CatalogEntry, Path], dict[str, str]]] = {
    "skill": _skill, "action": _action, "mcp": _mcp,
}  # fmt: skip
"""Maps a form to the function that returns the package's generated files by name."""


def _inputs(entry: CatalogEntry) -> list[tuple[str, dict[str, Any], bool]]:
    """Return each input with its schema, and whether it is required. Required ones come first."""
    required = set(entry.schema.get("required") or ())
    rows = [(key, schema, key in required) for key, schema in (entry.schema.get("properties") or {}).items()]
    return sorted(rows, key=lambda each: not each[2])


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind or "any value")


def _kind_of_value(schema: dict[str, Any]) -> str:
    """Return ``text`` for an input that takes a text, ``json`` for another value, and ``any`` if it is not declared."""
    kind, default = schema.get("type"), schema.get("default")
    if kind is None and default is None:
        return "any"
    return "text" if kind == "string" or (kind is None and isinstance(default, str)) else "json"


def _argument(key: str, schema: dict[str, Any]) -> str:
    equals = "=TEXT" if _kind_of_value(schema) == "text" else ":=JSON"
    return f"--input {shlex.quote(key + equals)}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    return _line(text).replace("`", "'")


def _yaml(document: object) -> str:
    out = StringIO()
    writer = YAML()
    writer.width = 4_096
    writer.dump(document, out)
    return out.getvalue()
