"""Runs the program or the recorded run of an editor's launch configuration under its debugger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stackmem.core.errors import UsageError
from stackmem.languages.running.prepare import ProgramArguments, prepare_program
from stackmem.languages.running.run import run_program
from stackmem.run.companion.find import find_run
from stackmem.run.opened import Person
from stackmem.settings.directories import runs_places

from .dap import DebugSession
from .debugged import RecordedMoments

FLAGS = {"model": "model", "runsDir": "runs_dir", "sandboxDir": "sandbox_dir", "isolation": "isolation",
         "maxSteps": "max_steps"}  # fmt: skip
"""Launch keys that map to command-line flags; the other keys are in ``_KNOWN``."""
_KEYS = {*FLAGS, "program", "run", "inputs", "say", "entry", "workspace", "stopOnEntry", "noDebug", "cwd"}
_TYPES: dict[str, type] = {
    "run": str,
    "runsDir": str,
    "inputs": dict,
    "say": list,
    "entry": str,
    "workspace": str,
    "cwd": str,
}


def debug_launched(arguments: dict[str, Any], session: DebugSession, environ: Mapping[str, str], cwd: Path) -> int:
    """Run a program under a debugger, or walk through a recorded run; return the exit code.

    Raise StackmemError as ``run_program`` does, or if the configuration is wrong.
    """
    config = {
        name: value
        for name, value in arguments.items()
        if not name.startswith("__") and name not in ("type", "request", "name")
    }
    for name, value in config.items():
        if name not in _KEYS:
            raise UsageError(f"unknown key {name[:80]!r} in launch; known: {', '.join(sorted(_KEYS))}")
        if name in _TYPES and not isinstance(value, _TYPES[name]):
            raise UsageError(f"{name} in launch must be of type {_TYPES[name].__name__}")
    folder = Path(config.get("cwd") or cwd)
    if "run" in config:
        return _walk(config, session, environ, folder)
    options: dict[str, Any] = {"entry": config["entry"]} if "entry" in config else {}
    program_arguments = ProgramArguments(
        str(config["program"]), dict(config.get("inputs", {})), options, config.get("workspace"), interactive=False
    )
    flags = {flag: str(config[name]) for name, flag in FLAGS.items() if name in config}
    ready = prepare_program(program_arguments, flags, environ, folder)
    session.show_below(Path(ready.program.path).parent)
    answers = [str(each) for each in config.get("say", [])]
    watch = None if config.get("noDebug") else session
    person = Person(lambda _: answers.pop(0) if answers else None, session.show, watch=watch)
    result = run_program(ready, environ, person)
    session.tell(f"{result.run.outcome}; run: {result.run.run_dir}\n", "console")
    return result.run.exit_code


def _walk(config: dict[str, Any], session: DebugSession, environ: Mapping[str, str], cwd: Path) -> int:
    for name in config:
        if name not in ("run", "runsDir", "stopOnEntry", "cwd"):
            raise UsageError(
                f"the key {name[:80]!r} cannot be combined with run in launch; known: run, runsDir, stopOnEntry, cwd"
            )
    moments = RecordedMoments(find_run(config["run"], *runs_places(config.get("runsDir"), environ, cwd)))
    session.show_below(moments.program.parent)
    if moments.changed_since():
        session.tell(f"{moments.program} has changed since; line numbers refer to the recorded program\n", "console")
    session.walk(moments)
    return 0
