"""Guards a user's own check against manipulation: restores the files that control it, and verifies that tests ran.

Rule 1: Before the check, files in the copy that could decide its result are restored: settings and start-up files,
    programs that the check command runs, and modules that shadow others.
Rule 2: A witness in each Python process counts the tests. Without a complete test session the verdict is refused.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from stackmem.history.checked_copy import CheckedCopy, FoundFiles
from stackmem.history.layer import Layer
from stackmem.history.shadowing import BASE_FOLDERS, PROBE, Shadows, names_of
from stackmem.history.steering import InitialFile
from stackmem.workspace.profile import Mount
from stackmem.workspace.workspace import Workspace

from . import witness
from .makefiles import MAKEFILES, included, read_dry_run
from .report import JUNIT, REPORT, CheckReport
from .words import CheckWords, WordReader, is_judging

_WITNESS, _REPORTS = "/apart/witness", "/logs/check"
_SECONDS, _MAX_BYTES, _ROUNDS = 20.0, 4 << 20, 5
_CLEARED = re.compile(r"(?<![\w/.-])env\s+(-i\b|--ignore-environment\b|-(?=\s))")
"""Matches a command that starts with an empty environment."""
_FOLDER = str(Path(witness.__file__).parent)


class CheckGuard:
    """The guard of one check. ``put_back`` are names of the restored files."""

    def __init__(self, find_files: Callable[[], FoundFiles], command: str) -> None:
        self._find_files = find_files
        self._command = command
        self.begin()

    def begin(self) -> None:
        """Reset the state of an earlier check."""
        self.put_back: list[str] = []
        self._words = CheckWords()
        # patterns of files that did not exist when the run began, so the run was expected to create them
        self._to_make: set[str] = set()

    def mounts(self, reports: Path) -> tuple[Mount, ...]:
        return Mount(_FOLDER, _WITNESS), Mount(str(reports), _REPORTS, writable=True)

    def variables(self, path_of: Callable[[Mount], str], reports: Path) -> dict[str, str]:
        """Return the environment variables of the check."""
        code, folder = map(path_of, self.mounts(reports))
        return {"PYTHONPATH": code, witness.REPORT: f"{folder}/{REPORT}"}

    def prepare(self, copy: Layer) -> CheckedCopy:
        """Restore the files that control any check, before anything runs in the copy."""
        checked = self._find_files().for_copy(copy)
        self.put_back += checked.put_back_steering()
        return checked

    def command(self, checked: CheckedCopy, workspace: Workspace, reports: Path) -> str:
        """Restore the files that control this check, and return the command to run."""
        reader = WordReader(lambda path: _content(checked.initial_file(path)), workspace.path, workspace.begins)
        self._words = reader.take(self._command, own=True)
        if any(map(checked.existed, self._words.tests)):
            self.put_back += checked.put_back_settings()
        self._put_back_named(checked)
        for dry_run, cwd in self._words.dry_runs[:_ROUNDS]:
            self._put_back_made(checked, workspace, reader, (dry_run, cwd))
        self._put_back_named(checked)
        self._put_back_places(checked)
        self._put_back_shadows(checked, workspace)
        return self._as_run(workspace, reports)

    def _put_back_made(
        self, checked: CheckedCopy, workspace: Workspace, reader: WordReader, dry_run: tuple[str, str]
    ) -> None:
        """Restore the files that make reads, remove files that pretend to be its targets, and read what it would
        run.
        """
        command, cwd = dry_run

        def paths(names: Iterable[str]) -> set[bytes]:
            return {os.fsencode(os.path.normpath(os.path.join(cwd, each))) for each in names}  # noqa: PTH118

        for _ in range(_ROUNDS):
            printed = read_dry_run(_ask(workspace, f"cd {shlex.quote(cwd or '.')} && {command} 2>/dev/null"))
            if MAKEFILES in self._to_make:
                break
            removed = checked.remove_added(paths(printed.targets))
            self.put_back += removed
            if not self._take(checked, paths(printed.makefiles).__contains__) and not removed:
                break
        reader.take(printed.recipe, own=False, cwd=cwd, is_generated=MAKEFILES in self._to_make)
        self._words.own_python |= printed.own_python

    def _take(self, checked: CheckedCopy, predicate: Callable[[bytes], bool]) -> bool:
        put_back = checked.put_back(predicate)
        self.put_back += put_back
        return bool(put_back)

    def _put_back_named(self, checked: CheckedCopy) -> None:
        words = self._words
        self._take(checked, lambda path: path in words.programs)
        for pattern in words.builders:
            rule = re.compile(rf"(.*/)?({pattern})", re.IGNORECASE)
            there = [path for path in checked.paths_found() if rule.fullmatch(os.fsdecode(path))]
            if not there:
                self._to_make.add(pattern)
                continue
            fragments = [each for path in there for each in included(_content(checked.initial_file(path)) or b"")]
            self._take(checked, lambda path, rule=rule: bool(rule.fullmatch(os.fsdecode(path))))  # type: ignore[misc]
            self._take(checked, lambda path, all_of=fragments: any(each.fullmatch(path) for each in all_of))  # type: ignore[misc]

    def _put_back_places(self, checked: CheckedCopy) -> None:
        """Remove added files that replace a program or are executed on the way to it."""
        words = self._words
        self.put_back += checked.remove_added(words.optional)
        modules = {path[:-3] for path in words.programs if path.endswith(b".py")}
        packages = {path[:at] for path in words.programs | words.tests for at in range(len(path)) if path[at] == 0x2F}
        packages |= {path for path in words.tests if not path.endswith(b".py")}

        def in_place(path: bytes) -> bool:
            folder, _, name = path.rpartition(b"/")
            if folder in packages and is_judging(folder) and name.startswith(b"__init__."):
                return checked.runs_init(path)
            if checked.existed(path):
                return False
            module = path[: len(path) - len(name)] + name.partition(b".")[0]
            return (
                (path in modules and checked.is_link(path))
                or (folder in modules and name.startswith(b"__init__."))
                or (module in modules and name.endswith((b".so", b".pyd")))
            )

        self._take(checked, in_place)

    def _put_back_shadows(self, checked: CheckedCopy, workspace: Workspace) -> None:
        begins = os.fsencode(workspace.begins)
        base = {os.path.normpath(os.path.join(begins, each)) for each in BASE_FOLDERS}  # noqa: PTH118
        folders = {b"" if each == b"." else each for each in (*base, *BASE_FOLDERS, *self._words.folders)}

        def shadows(names: frozenset[bytes]) -> Shadows:
            return Shadows(names, folders, checked.existed, checked.exists, checked.is_link, checked.entries)

        if any(map(shadows(_Anything()).matches, checked.candidates)):
            probe = f"for each in python python3; do $each -I -c {shlex.quote(PROBE)} 2>/dev/null; done"
            self._take(checked, shadows(names_of(_ask(workspace, probe).encode())).matches)

    def _as_run(self, workspace: Workspace, reports: Path) -> str:
        if not self._words.own_python:
            return self._command
        code, folder = map(workspace.place, self.mounts(reports))
        junit = f"--junitxml={folder}/{JUNIT}"
        command = re.sub(r"(?<![\w$])PYTHONPATH=", f"PYTHONPATH={code}:", self._command)
        ours = {"PYTEST_ADDOPTS": junit, "PYTHONPATH": code, witness.REPORT: f"{folder}/{REPORT}"}
        # only if no value needs quoting, because the command may already be inside quotes
        if all(value == shlex.quote(value) for value in ours.values()):
            words = " ".join(f"{name}={value}" for name, value in ours.items())
            command = _CLEARED.sub(lambda match: f"{match[0]} {words}", command)
        return f"export PYTEST_ADDOPTS={shlex.quote(junit)}\n{command}"

    def problem(self, reports: Path) -> str:
        """Return why exit code 0 does not count, or an empty string if it does."""
        return CheckReport(reports).problem(
            self._words.runners, self._words.undecisive, sets_environment=self._words.own_python
        )


class _Anything(frozenset[bytes]):
    def __contains__(self, name: object) -> bool:
        return True


def _content(file: InitialFile | None) -> bytes | None:
    return None if file is None else file[1]


def _ask(workspace: Workspace, command: str) -> str:
    """Return the output of one of our commands in the copy."""
    ended = workspace.run_apart(command, _SECONDS, _MAX_BYTES)
    return b"".join(ended.capture.parts()).decode("utf-8", "replace")
