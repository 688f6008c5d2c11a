"""Runs the program of a debug session, with what the editor's launch configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stackmem.errors import UsageError
from stackmem.run.programs.prepare import Asked, prepare_program
from stackmem.run.programs.run import Person, run_program

from .dap import Session

FLAGS = {"model": "model", "runsDir": "runs_dir", "sandboxDir": "sandbox_dir", "isolation": "isolation",
         "maxSteps": "max_steps"}  # fmt: skip
"""Keys of a launch configuration, beside ``program inputs say entry workspace stopOnEntry``, to flags."""
_KNOWN = {*FLAGS, "program", "inputs", "say", "entry", "workspace", "stopOnEntry", "noDebug", "cwd"}
_TYPES: dict[str, type] = {"inputs": dict, "say": list, "entry": str, "workspace": str, "cwd": str}


def run_debugged(arguments: dict[str, Any], session: Session, environ: Mapping[str, str], cwd: Path) -> int:
    """Run a program under a debugger; gives its exit code.

    Raises:
        StackmemError: As ``run_program`` does, or the configuration is wrong.

    """
    given = {
        name: value
        for name, value in arguments.items()
        if not name.startswith("__") and name not in ("type", "request", "name")
    }
    for name, value in given.items():
        if name not in _KNOWN:
            raise UsageError(f"launch has no key {name[:80]!r}; known: {', '.join(sorted(_KNOWN))}")
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            raise UsageError(f"{name} of launch must be a {_TYPES[name].__name__}")
    folder = Path(given.get("cwd") or cwd)
    options: dict[str, Any] = {"debug": True, **({"entry": given["entry"]} if "entry" in given else {})}
    asked = Asked(
        str(given["program"]), dict(given.get("inputs", {})), options, given.get("workspace"), interactive=False
    )
    flags = {flag: str(given[name]) for name, flag in FLAGS.items() if name in given}
    ready = prepare_program(asked, flags, environ, folder)
    answers = [str(each) for each in given.get("say", [])]
    person = Person(lambda _: answers.pop(0) if answers else None, session.happened)
    result = run_program(ready, environ, person)
    session.tell(f"{result.run.outcome}; run: {result.run.run_dir}\n", "console")
    return result.run.exit_code
