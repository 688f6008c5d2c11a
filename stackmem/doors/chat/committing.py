"""Commits what was applied, in the user's own repository and with the user's identity.

Rule 1: Only the applied files are committed. Other staged files stay staged.
Rule 2: Hooks run only if the user asks for them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from stackmem.core.errors import UsageError
from stackmem.core.text import shorten_text
from stackmem.history.git import git_program
from stackmem.history.walk import path_bytes
from stackmem.run.ending import apply_run
from stackmem.trace.open_run import Run
from stackmem.workspace.clip import shown_name

from .picking import Ask, Picker

_SECONDS = 600.0
_SUBJECT_CHARS = 72
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null")


class ApplyOrder(Struct, frozen=True):
    """The arguments of ``/apply``."""

    paths: tuple[str, ...] = ()  # the files and folders to apply; all if empty
    commits: bool = False  # whether to commit what was applied
    branch: str = ""  # a new branch for the commit; empty for the current one
    hooks: bool = False  # whether the repository's hooks run
    yes: bool = False  # whether the user's uncommitted work may be deleted or reverted
    picks: bool = False  # whether the user chooses hunks


def read_order(text: str) -> ApplyOrder:
    """Parse the arguments of ``/apply``: paths, which may be quoted, and flags."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot read the paths {text!r} ({error}); close the quotation mark") from error
    paths: list[str] = []
    rest = iter(words)
    commits = hooks = yes = picks = False
    branch = ""
    for word in rest:
        match word:
            case "--commit":
                commits = True
            case "--hooks":
                hooks = True
            case "-p" | "--patch":
                picks = True
            case "--yes":
                yes = True
            case "--branch":
                branch = next(rest, "")
                if not branch:
                    raise UsageError("--branch needs a name, as in: /apply --branch fix-totals")
            case "--":
                paths += rest
            case _ if word.startswith("--"):
                raise UsageError(
                    f"/apply has no flag {word!r}; it takes --commit, --branch NAME, --hooks, --yes, -p and paths"
                )
            case _:
                paths.append(word.removeprefix("./"))
    return ApplyOrder(tuple(paths), commits or bool(branch), branch, hooks, yes, picks)


def apply_order(run_dir: Path, text: str, ask: Ask | None = None) -> list[str]:
    """Execute ``/apply`` with its arguments. Returns one or two lines about the outcome.

    ``ask`` is None if the user cannot choose hunks here.
    """
    order = read_order(text)
    if order.picks and ask is None:
        raise UsageError("/apply -p needs a terminal; name files instead, as in: /apply src/total.py")
    pick = Picker(ask).pick if order.picks and ask is not None else None
    result = apply_run(run_dir, order.paths, may_lose=order.yes, pick=pick)
    if order.picks and not result.changed and not result.not_applied:
        return ["nothing was chosen, so nothing is applied"]
    lines = [result.describe()]
    if order.commits:
        lines.append(commit_applied(result.folder, result.changed, order, commit_message(run_dir)))
    return lines


def commit_message(run_dir: Path) -> str:
    """Return the agent's result of the last request as a commit message."""
    text = Run(run_dir).state.result.strip() or "Apply the agent's changes"
    first, _, rest = text.partition("\n")
    subject = shorten_text(first, _SUBJECT_CHARS, "…")
    body = text if subject != first else rest.strip()
    return f"{subject}\n\n{body}\n" if body else f"{subject}\n"


def commit_applied(folder: Path, changed: Sequence[str], order: ApplyOrder, message: str) -> str:
    """Commit the changed files. Returns a line that says what was committed, or why it was not."""
    if not changed:
        return "nothing was applied, so nothing is committed"
    paths = b"".join(path_bytes(path) + b"\0" for path in changed)
    pathspec = ("--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        if order.branch:
            _git(folder, order, "switch", "-q", "-c", order.branch)
        _git(folder, order, "--literal-pathspecs", "add", "-A", *pathspec, stdin=paths)
        _git(folder, order, "--literal-pathspecs", "commit", "-q", "-m", message, "--only", *pathspec, stdin=paths)
        head = _git(folder, order, "log", "-1", "--format=%h %s").strip()
    except UsageError as error:
        return f"the files are applied, but not committed: {error}"
    return f"committed {head}" + (f" on the new branch {order.branch}" if order.branch else "")


def _git(folder: Path, order: ApplyOrder, *arguments: str, stdin: bytes = b"") -> str:
    """Run git as the user would, in the user's environment."""
    command = [git_program(), *(() if order.hooks else _NO_HOOKS), *arguments]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "true"}
    try:
        process = subprocess.run(
            command, cwd=folder, env=environment, input=stdin, capture_output=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git cannot be run ({error})") from error
    if process.returncode:
        lines = process.stderr.strip().splitlines() or process.stdout.strip().splitlines() or [b"it failed"]
        raise UsageError(shown_name(lines[0])[:300])
    return process.stdout.decode("utf-8", "replace")
