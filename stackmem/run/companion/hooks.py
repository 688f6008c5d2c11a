"""Finds the hooks for work on a folder, and runs them.

Rule 1: A hook outside of the sandbox runs only if it is in the user's own file, or in a project's file that the user
    trusts. This is checked again before each run of the hook, because the run may have changed the files meanwhile.
Rule 2: A hook has a time limit and bounded output, and leaves no process behind.
Rule 3: Exit code 0 passes, and 2 refuses with the reason on stderr. Any other ending is a failure, which refuses only
    if the hook is required. On exit code 0, JSON on stdout may refuse too.
Rule 4: A task has no hooks, because its result must not depend on the machine.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.conversation.hook_facts import Hook, HookOutcome, HookRan
from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.requests import RunHook
from stackmem.core.text import clip_chars
from stackmem.settings.hook_files import HOOKS_FILE, own_hooks, project_hooks
from stackmem.settings.mcp_servers import is_trusted, reason_for_distrust
from stackmem.workspace.clip import clean, visible
from stackmem.workspace.command import CommandEnd, run
from stackmem.workspace.isolation.bare import plain_code, private_tmp
from stackmem.workspace.isolation.launch import CommandLaunch, Seat, limited
from stackmem.workspace.profile import Profile
from stackmem.workspace.python import Toolchain
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.workspace import Workspace

from ..ports import WorkspacePort
from ..run_folder import APPLY_HOOKS

_OUTPUT_MIB = 16
_READ_BYTES = 64 << 10
_TEXT_CHARS = 4_000
_SHOWN_INPUT = 64_000  # characters of the input of a hook in the sandbox, where a command line passes it
_CHANGED = f"{HOOKS_FILE} or a file that it names is not trusted as it is now; read it, then run stackmem trust"


class FoundHooks(Struct, frozen=True):
    """The hooks of a folder, and what the user should know about files that do not count."""

    hooks: tuple[Hook, ...] = ()
    roots: tuple[Path | None, ...] = ()  # the folder of each hook's file; None for the user's own
    notes: tuple[str, ...] = ()


def find_hooks(folder: Path | None, location: str, environ: Mapping[str, str]) -> FoundHooks:
    """Return the hooks for work in ``folder / place``.

    Raise UsageError if a file has an unknown key, or is not valid.
    """
    if folder is None:
        return FoundHooks()
    hooks = list(own_hooks(environ))
    roots: list[Path | None] = [None] * len(hooks)
    notes = []
    for root in dict.fromkeys((folder, folder / location)):
        if not (root / HOOKS_FILE).is_file():
            continue
        more, described = project_hooks(root)
        if reason := reason_for_distrust(root, described, environ):
            notes.append(f"{HOOKS_FILE} is ignored {reason}")
            continue
        hooks += more
        roots += [root] * len(more)
    return FoundHooks(tuple(hooks), tuple(roots), tuple(notes))


class HookRunner(Struct, frozen=True):
    """Runs the hooks of one run."""

    hooks: FoundHooks
    folder: Path | None  # the folder that the user named
    workspace: WorkspacePort
    snapshot: Callable[[], str]
    scrub: Callable[[str], str]
    environ: Mapping[str, str]
    run_dir: Path

    def recorded(self) -> tuple[Hook, ...]:
        """Return the hooks as the run records them."""
        return tuple(replace(hook, command=self.scrub(hook.command)) for hook in self.hooks.hooks)

    def __call__(self, effect: RunHook) -> HookRan:
        by_hook = dict(zip(self.recorded(), zip(self.hooks.hooks, self.hooks.roots, strict=True), strict=True))
        if effect.hook not in by_hook or self.folder is None:
            return HookRan(effect.hook, "failed", f"{effect.hook.source} no longer has this hook, or is not trusted")
        hook, root = by_hook[effect.hook]
        if effect.hook.sandbox:
            ran = _decided(hook, _in_workspace(hook, effect.given, self.workspace))
            digests = {path: self.workspace.digest(path) for path in effect.sources}
            return self._printable(replace(ran, hook=effect.hook, digests=digests, tree=self.snapshot()))
        payload = {**json.loads(effect.given), "cwd": str(self.folder), "run_dir": str(self.run_dir)}
        return self._printable(replace(run_outside(hook, root, payload, self.folder, self.environ), hook=effect.hook))

    def _printable(self, ran: HookRan) -> HookRan:
        return replace(ran, text=clip_chars(visible(self.scrub(ran.text)), _TEXT_CHARS))


def run_outside(
    hook: Hook, root: Path | None, payload: Mapping[str, object], folder: Path, environ: Mapping[str, str]
) -> HookRan:
    """Run a hook in the user's folder, outside of the sandbox."""
    if root is not None and not _still_trusted(root, environ):
        return HookRan(hook, "failed", _CHANGED)
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        return HookRan(hook, "failed", f"the folder {folder} cannot be opened ({error.strerror})")
    try:
        profile = Profile(output_mib=_OUTPUT_MIB)
        seat = Seat(folder, fd, str(folder), profile, (), dict(environ), Toolchain("", ""), folder)
        level = _OnHost(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"))
        return _decided(hook, run(level, seat, hook.command, hook.seconds, apart_bytes=_READ_BYTES))
    except (OSError, WorkspaceError) as error:
        return HookRan(hook, "failed", f"it cannot be started ({error})")
    finally:
        os.close(fd)


def _still_trusted(root: Path, environ: Mapping[str, str]) -> bool:
    try:
        return is_trusted(project_hooks(root)[1], environ)
    except (UsageError, OSError):
        return False


class _OnHost:
    """Runs a trusted command in the user's own environment, with the limits of every command."""

    name = "hook"
    isolation = "none"
    mounts = False
    contains = False
    layers = False
    doors = False

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def launch(self, seat: Seat, command: str, stack: ExitStack) -> CommandLaunch:
        file = private_tmp(stack) / "input.json"
        file.write_bytes(self._payload)
        script = f"exec <{shlex.quote(str(file))}\n{command}"
        return CommandLaunch(
            limited(script, seat.profile, count_processes=False), dict(seat.environ), f"/proc/self/fd/{seat.fd}"
        )

    def ran(self, process: Popen[bytes], status: bytes) -> int | None:
        return plain_code(process.returncode)


def _in_workspace(hook: Hook, payload: str, workspace: WorkspacePort) -> CommandEnd | str:
    """Run a hook as the agent's commands run. Returns a text if it cannot be run there."""
    if not isinstance(workspace, Workspace):
        return "this run has no sandbox for commands"
    if len(payload) > _SHOWN_INPUT:
        payload = json.dumps({**_shortened(json.loads(payload)), "shortened": True})
    command = f"exec <<'STACKMEM_END_OF_INPUT'\n{payload}\nSTACKMEM_END_OF_INPUT\n{hook.command}"
    try:
        return workspace.run_apart(command, hook.seconds, _READ_BYTES)
    except ToolRefused as refused:
        return str(refused)


def _shortened(value: Any) -> Any:
    """Return a JSON value with long texts cut, and without what is nested deeply."""
    if isinstance(value, str):
        return clip_chars(value, 2_000)
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in list(value.items())[:20]}
    return [] if isinstance(value, list) else value


def _decided(hook: Hook, ended: CommandEnd | str) -> HookRan:
    """Return the decision of a hook whose command ended."""
    if isinstance(ended, str):
        return HookRan(hook, "failed", ended)
    out, err = (clean(b"".join(part.parts())) if part is not None else "" for part in (ended.capture, ended.errors))
    if ended.reason:
        reasons = {
            "timeout": f"it did not end within {hook.seconds:g} s",
            "output": f"it printed over {_OUTPUT_MIB} MiB",
        }
        return HookRan(hook, "failed", reasons.get(ended.reason, f"it was ended ({ended.reason})"), ended.exit_code)
    if ended.exit_code == 2:
        return HookRan(hook, "refused", err.strip() or out.strip(), 2)
    if ended.exit_code != 0:
        last = (err.strip() or out.strip()).rsplit("\n", 1)[-1]
        return HookRan(hook, "failed", f"exit {ended.exit_code}: {last}" if last else f"exit {ended.exit_code}",
                       ended.exit_code)  # fmt: skip
    answer = _HookAnswer.read(out)
    return HookRan(hook, answer.outcome, answer.text, 0)


class _HookAnswer(NamedTuple):
    """What a hook that ended with exit code 0 printed."""

    outcome: HookOutcome
    text: str = ""

    @classmethod
    def read(cls, out: str) -> _HookAnswer:
        """Return the decision in JSON. Any other text is only a message for whoever runs the hook by hand."""
        if not out.lstrip().startswith("{"):
            return cls("passed")
        try:
            answer = json.loads(out)
        except (ValueError, RecursionError) as error:
            return cls("failed", f"it printed JSON that is not valid ({error})")
        own = answer.get("hookSpecificOutput")
        own = own if isinstance(own, dict) else {}
        decision = own.get("permissionDecision") or answer.get("decision")
        reason = own.get("permissionDecisionReason") or answer.get("reason") or answer.get("stopReason") or ""
        if decision in ("block", "deny") or answer.get("continue") is False:
            return cls("refused", str(reason))
        if decision not in (None, "allow", "approve"):
            return cls("failed", f"its decision {str(decision)[:60]!r} is unknown; it may be allow or deny")
        return cls("passed", str(own.get("additionalContext") or answer.get("additionalContext") or ""))


def must_be_appliable(run_dir: Path, folder: Path, files: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run the hooks before an apply, and record them next to the trace, which may have ended.

    Raise UsageError if a hook refuses.
    """
    catalog = find_hooks(folder, "", environ)
    payload = {
        "hook_event_name": "before_apply", "cwd": str(folder), "run_dir": str(run_dir), "files": list(files),
    }  # fmt: skip
    for hook, root in zip(catalog.hooks, catalog.roots, strict=True):
        if hook.event != "before_apply":
            continue
        ran = run_outside(hook, root, payload, folder, environ)
        ran = replace(ran, text=clip_chars(visible(ran.text), _TEXT_CHARS))
        with (run_dir / APPLY_HOOKS).open("ab") as file:
            file.write(msgspec.json.encode({"at": time.time(), "ran": ran}) + b"\n")
        if ran.stops:
            raise UsageError(f"not applied: {hook.name} refused it: {ran.text or 'it gave no reason'}")
