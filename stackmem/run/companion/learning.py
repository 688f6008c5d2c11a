"""Procedures that an agent writes down: ``save_program`` checks one and proposes it, and the user decides.

Rule 1: A proposal is stored in the run directory. Nothing runs it until the user keeps it with ``stackmem learn``
    (see ``languages.running.learned``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import json

from stackmem.core.errors import StackmemError
from stackmem.core.facts import ModelReplied, ToolReturned
from stackmem.core.images import ImageRef
from stackmem.core.messages import ToolCall, ToolSpec
from stackmem.core.neighbors import neighbor
from stackmem.settings.program_trust import PROGRAMS_FOLDER
from stackmem.settings.tools.own_tools import TOOLS, call_own
from stackmem.trace.lineage import RunReader
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.workspace import Workspace

TOOL = "save_program"
PROPOSALS = "programs"
"""The folder of proposals in a run directory."""
MAX_CHARS = 100_000
MAX_PROPOSALS = 20
_READ_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}(\.[a-z]+){1,2}")
_EXIT = re.compile(r"\n?\[exit \d+\]\Z")
SPEC = ToolSpec(
    TOOL,
    "Propose a procedure of this run as a program that later runs call with run_program. Write it after the work is "
    "done and verified. It is linted and rehearsed with the answers of this run; the user decides whether to keep it.",
    json.encode(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "NAME.apl (YAML), NAME.sexp, NAME.pb or NAME.agent.yaml."},
                "content": {"type": "string", "description": "The whole program."},
                "inputs": {"type": "object", "description": "Its inputs for the rehearsal."},
            },
            "required": ["name", "content"],
            "additionalProperties": False,
        }
    ).decode(),
)


def saves_programs(learn: str) -> bool:
    """Return whether a run offers the tool. A tool of the user with the same name takes precedence."""
    return learn == "on" and TOOL not in TOOLS


def own_specs(learn: str) -> tuple[ToolSpec, ...]:
    """Return the tools that are not built in."""
    own = tuple(tool.spec for tool in TOOLS.values())
    return (*own, SPEC) if saves_programs(learn) else own


def own_tool_calls(
    learn: str, run_dir: Path, workspace: object, scrub: Callable[[str], str]
) -> Callable[[str, dict[str, Any]], tuple[str, bool, tuple[bytes | ImageRef, ...]]]:
    """Return a function that calls a tool that is not built in, like ``call_own``."""
    if not saves_programs(learn):
        return call_own

    def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool, tuple[bytes | ImageRef, ...]]:
        if name != TOOL:
            return call_own(name, arguments)
        return *propose(arguments, run_dir, workspace if isinstance(workspace, Workspace) else None, scrub), ()

    return call


def propose(
    arguments: Mapping[str, Any], run_dir: Path, workspace: Workspace | None, scrub: Callable[[str], str]
) -> tuple[str, bool]:
    """Lint, rehearse and store a program.

    Returns:
        The report for the agent, and whether the call failed.
    """
    name, content, inputs = arguments.get("name"), arguments.get("content"), arguments.get("inputs")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{TOOL}: name must be a file name like release.apl, without a folder", True
    if not isinstance(content, str) or not 0 < len(content) <= MAX_CHARS:
        return f"{TOOL}: content must be a text of 1 to {MAX_CHARS:,} characters", True
    if inputs is not None and not isinstance(inputs, dict):
        return f"{TOOL}: inputs must be one JSON object of names and values", True
    folder = run_dir / PROPOSALS
    if len(proposals(run_dir)) >= MAX_PROPOSALS and not (folder / name).exists():
        return f"{TOOL}: a run proposes at most {MAX_PROPOSALS} programs; improve one of them", True
    root = workspace.path if workspace is not None else "/workspace"
    answers = neighbor("languages: answers of a rehearsal")(
        dict(_commands(run_dir)),
        lambda path: _read(workspace, path, scrub),
        lambda path: _names(workspace, path, scrub),
    )
    path = posixpath.join(root, PROGRAMS_FOLDER, name)
    report, is_valid = neighbor("languages: examine a written program")(path, content, inputs or {}, answers)
    if not is_valid:
        return report, True
    folder.mkdir(mode=0o700, exist_ok=True)
    part = folder / f".{name}.part"
    part.write_text(scrub(content), encoding="utf-8")
    part.replace(folder / name)
    return f"{name} is proposed to the user.\n{report}", False


def proposals(run_dir: Path) -> tuple[str, ...]:
    """Return the names of the programs that a run proposes."""
    try:
        return tuple(sorted(each.name for each in (run_dir / PROPOSALS).iterdir() if _NAME.fullmatch(each.name)))
    except OSError:
        return ()


def _commands(run_dir: Path) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each command that the run's agent ran, with its output and exit code."""
    command: str | None = None
    try:
        for record in RunReader(run_dir):
            match record.event:
                case ModelReplied():
                    calls = [part for part in record.event.parts if isinstance(part, ToolCall)]
                    arguments = calls[0].arguments if calls and calls[0].name == "run_command" else None
                    command = arguments.get("command") if isinstance(arguments, dict) else None
                case ToolReturned() if command is not None:
                    if record.event.exit_code is not None:
                        yield command, (_EXIT.sub("", record.event.text), record.event.exit_code)
                    command = None
    except StackmemError:
        return


def _read(workspace: Workspace | None, path: str, scrub: Callable[[str], str]) -> str | None:
    try:
        return None if workspace is None else scrub(workspace.files.read_whole(path, _READ_BYTES).decode())
    except (ToolRefused, UnicodeDecodeError):
        return None


def _names(workspace: Workspace | None, path: str, scrub: Callable[[str], str]) -> tuple[str, ...] | None:
    try:
        return None if workspace is None else tuple(map(scrub, workspace.files.names(path)))
    except ToolRefused:
        return None
