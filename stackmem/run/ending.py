"""Writes the files of a run's end, its patch and then its result, and recreates missing ones.

Rule 1: A result names the digest of its trace, so a result of an earlier end is recognized as outdated.
Rule 2: A patch is complete if ``changes.json`` exists, which is written last and removed first.
Rule 3: A failure to write the patch does not lose the result.
Rule 4: ``/undo`` and ``/fork`` continue in another run for the same folder. The first run of such a family stores which
    tree was applied last. Applying a run brings the folder from that tree to the run's tree, so it also reverts what an
    undo took back. A file that the user restored to the run's initial state counts as not applied. A file that could
    not be applied has its previous version in the stored tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stackmem.core.errors import TraceError, UsageError, WorkspaceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.foreign.private import write_json
from stackmem.history.apply import Outcome, Patch, apply_patches, executed_by_host, patch_across
from stackmem.history.following.uncommitted import UncommittedWork
from stackmem.history.history import History, PathChange
from stackmem.history.objects import Node
from stackmem.history.patching import sections
from stackmem.history.restore import content_of
from stackmem.history.walk import path_bytes
from stackmem.run.companion.keys import signing_key
from stackmem.trace.lineage import came_from
from stackmem.trace.signatures import MAX_SIGNED_BYTES, Signer
from stackmem.workspace.secrets import Scrubber

from .companion.hooks import must_be_appliable
from .following.family import Applied, Family, applied_last, first_of_family, history_of
from .in_memory import MEMORY, NoHistory
from .result import RunResult, failure_of, read_result, result_fields, write_result
from .run_folder import APPLIED, CHANGES, HISTORY, PATCH, RESULT
from .stopped import Stopped
from .stored_request import read_request

_MAX_NAMES = 10  # maximum number of files named in one message


def missing_of_end(run_dir: Path, digest: str) -> tuple[str, ...]:
    """Return the files that a run with an end should have but does not."""
    result = read_result(run_dir / RESULT)
    keeps_files = (run_dir / HISTORY).is_dir()
    if result is None or (result.digest and result.digest != digest):
        return (PATCH, RESULT) if keeps_files else (RESULT,)
    return (PATCH,) if keeps_files and not _has_patch(run_dir) else ()


def make_missing(
    run_dir: Path, stopped: Stopped, scrubber: Scrubber, environ: Mapping[str, str]
) -> tuple[RunResult, str]:
    """Recreate the result and patch of a run that has ended. Returns the result and the folder for the patch.

    This needs neither a model nor a sandbox.

    Raises:
        TraceError: The request cannot be read, or the result cannot be written.
        WorkspaceError: The patch cannot be created or applied. The result is saved.
        UsageError: As ``keep_end``.
    """
    request, state = read_request(run_dir), stopped.state
    result = RunResult(
        run=run_dir.name,
        run_dir=str(run_dir),
        wall_seconds=stopped.seconds,
        isolation=stopped.isolation,
        workspace="" if stopped.isolation == MEMORY else request.workspace,
        chunks=state.heap.stored,
        failure=failure_of(state),
        steps_with_secrets=stopped.steps_with_secrets,
        records=stopped.end.count,
        digest=stopped.end.digest,
        parent=came_from(run_dir),
        **result_fields(state),
    )
    history: History | NoHistory = NoHistory()
    if (run_dir / HISTORY).is_dir():
        work = Path(request.workspace)
        history = History(run_dir / HISTORY, work, request.leave_out)
        history.withhold(scrubber.held_in)
        if work.is_dir() and work.parent.name == run_dir.name and not history.of_layer:
            history.snapshot()  # only to find out which files are left out; the tree that was judged is in the trace
    folder = request.subject if request.text is not None else ""
    trees = (state.begun.tree, state.tree)
    signer = Signer(run_dir, partial(signing_key, environ), stopped.end.count, stopped.end.digest)
    return keep_end(result, history, folder, trees, signer, apply=bool(request.flags.get("apply"))), folder


def keep_end(
    result: RunResult,
    history: History | NoHistory,
    folder: str,  # the user folder that the workspace copies; empty for a task
    trees: tuple[str, str],  # initial and final tree of the run; an empty string is the current workspace
    signer: Signer,
    *,
    apply: bool,  # whether to apply the patch to the folder if the run succeeded
    release: Callable[[], None] = lambda: None,  # frees the disk space that was reserved for the end
    complete: Callable[[RunResult], RunResult] = lambda result: result,  # adds what can only be read from the workspace
) -> RunResult:
    """Save the patch and the result in the run directory.

    Raises:
        TraceError: The result cannot be written.
        WorkspaceError: The patch cannot be created or applied. The result is saved.
        UsageError: A file of the folder has changed in the meantime. The folder is unchanged.
    """
    if isinstance(history, NoHistory):
        release()
        return _save(result, signer)
    try:
        result = _keep_patch(complete(result), folder, history, trees)
    except (WorkspaceError, OSError) as error:
        release()
        _save(result, signer)
        reason = error.strerror if isinstance(error, OSError) else error
        raise WorkspaceError(
            f"the run ended ({result.outcome}) and its result is saved, but its patch cannot be written to "
            f"{result.run_dir} ({reason}); free disk space there, and stackmem resume {result.run} writes it"
        ) from error
    release()
    result = _save(result, signer)
    return _apply(result, folder, signer) if apply else result


def _apply(result: RunResult, folder: str, signer: Signer) -> RunResult:
    """Apply the patch to the user's folder if the run succeeded."""
    if not (folder and result.outcome in ("solved", "finished")):
        return result
    try:
        run_dir = Path(result.run_dir)
        report = apply_run(run_dir, may_lose=bool(read_request(run_dir).flags.get("yes")))
    except (UsageError, WorkspaceError) as error:
        raise type(error)(
            f"{result.run} ended ({result.outcome}) and is saved, but its patch is not applied: {error}"
        ) from error
    if report.not_applied:
        raise UsageError(f"{result.run} ended ({result.outcome}) and is saved; {report.describe()}")
    return _save(replace(result, applied_to=folder), signer)


def _save(result: RunResult, signer: Signer) -> RunResult:
    """Write the result, and sign it together with the end of the run."""
    signer.open()
    result = replace(result, unsigned=signer.reason)
    try:
        write_result(result, Path(result.run_dir) / RESULT)
    except OSError as error:
        raise TraceError(
            f"the run ended ({result.outcome}) and its trace is complete, but its result cannot be written to "
            f"{result.run_dir} ({error.strerror}); free disk space there, and stackmem resume {result.run} writes it"
        ) from error
    signer.sign_end(result.records, result.digest)
    return replace(result, unsigned=signer.reason)


def _keep_patch(result: RunResult, folder: str, history: History, trees: tuple[str, str]) -> RunResult:
    """Write the patch to the run directory, replacing the one of an earlier end."""
    run_dir, before, after = Path(result.run_dir), trees[0], trees[1] or history.snapshot()
    (run_dir / CHANGES).unlink(missing_ok=True)
    changes = tuple(history.changed(before, after))
    history.write_patch(before, after, run_dir / PATCH)
    packages = history.installed_packages(Path(folder), [change.path for change in changes]) if folder else []
    write_json(run_dir / CHANGES, Kept(folder, changes, after))
    return replace(
        result,
        changed=tuple(change.path for change in changes),
        not_kept=(*(f"{file.path} ({file.reason})" for file in history.left_out), *packages),
        changed_meanwhile=history.changed_meanwhile(),
        executed_by_host=tuple(executed_by_host(list(changes))),
    )


def _has_patch(run_dir: Path) -> bool:
    """Return whether the patch is present and complete."""
    try:
        changes = _read_changes(run_dir).changes
        return (run_dir / PATCH).stat().st_size > 0 or not changes
    except (OSError, msgspec.DecodeError):
        return False


class Kept(msgspec.Struct, frozen=True):
    """What ``stackmem apply`` needs: the original folder and the changes."""

    folder: str
    changes: tuple[PathChange, ...]
    tree: str = ""  # final tree of the run; empty if an older version wrote this file


class Brought(msgspec.Struct, frozen=True):
    """Outcome of applying a run."""

    folder: Path  # the user's folder that the run worked on a copy of
    done: Outcome  # what happened to each file; nothing was changed if nothing was left to do
    has_changes: bool  # whether the run has any changes to apply
    reverted: tuple[str, ...]  # files that are now as before the run, because what was applied was undone
    outcome: str  # as in ``RunResult.outcome``; empty if the run has no result

    @property
    def changed(self) -> tuple[str, ...]:
        return self.done.changed

    def describe(self) -> str:
        """Return what was applied and what was not, in one line."""
        return f"{self.summary}; {self.not_applied}" if self.not_applied else self.summary

    @property
    def summary(self) -> str:
        """What was applied, in one line."""
        count = f"{len(self.changed)} {'file' if len(self.changed) == 1 else 'files'}"
        if self.changed and not self.has_changes:
            summary = f"reverted the changes applied to {self.folder}: {count}"
        elif self.changed:
            summary = f"applied to {self.folder}: {count}"
        elif self.not_applied:
            summary = f"nothing was applied to {self.folder}"
        elif not self.has_changes:
            summary = f"nothing to apply to {self.folder}: the run changed no files"
        else:
            summary = f"already applied to {self.folder}"
        if self.reverted and self.has_changes:
            summary += f"; taken back after an undo: {_names(self.reverted)}"
        return f"{summary}; merged with your edits: {_names(self.done.merged)}" if self.done.merged else summary

    @property
    def not_applied(self) -> str:
        """Name the files that stay as they are, with the reason; empty if there are none."""
        refused, conflicts, spared = self.done.refused, self.done.conflicts, self.done.spared
        parts = []
        if spared:
            parts.append(
                f"applying would delete or revert your uncommitted work in {_names(spared)}, which the agent deleted or"
                " reverted; it was left as it is, and applying with --yes loses it"
            )
        if refused:
            stays = "stays" if len(refused) == 1 else "stay"
            parts.append(f"{_names(refused)} {stays} as you left it, because you changed what the run changed")
        if conflicts:
            holds = "contains" if len(conflicts) == 1 else "contain"
            parts.append(f"{_names(conflicts)} {holds} an unresolved conflict in the run and was not applied")
        return "; ".join(parts)


def _names(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_MAX_NAMES]) + (f" and {len(paths) - _MAX_NAMES} more" if len(paths) > _MAX_NAMES else "")


def _read_changes(run_dir: Path) -> Kept:
    return decode_json(read_regular(run_dir / CHANGES), Kept)


Pick = Callable[[PathChange, bytes, bytes | None, bytes | None], bytes | bool]
"""As ``Picker.pick``."""


def apply_run(run_dir: Path, only: Sequence[str] = (), *, may_lose: bool = False, pick: Pick | None = None) -> Brought:
    """Apply a finished run's patch to the folder it was copied from. Changes that are already there are skipped.

    ``only`` names the files and folders to apply; without it, all files are. ``may_lose`` also applies what deletes or
    reverts the user's uncommitted work. ``pick`` chooses what is applied of each file.

    Raise UsageError if the run has no patch for a folder, or a patch cannot be applied.
    """
    result = read_result(run_dir / RESULT)
    try:
        record = _read_changes(run_dir)
        patch = read_regular(run_dir / PATCH, MAX_SIGNED_BYTES)
    except (OSError, msgspec.DecodeError) as error:
        if result is not None and result.isolation == MEMORY:
            reason = "its files were in memory; only runs in a sandbox have one"
        elif result is not None and (run_dir / HISTORY).is_dir():
            reason = f"it could not be written; run stackmem resume {run_dir.name} to create it"
        else:
            reason = "only finished runs have one"
        raise UsageError(f"the run {run_dir.name} has no patch to apply; {reason}") from error
    if not record.folder:
        raise UsageError(
            f"the run {run_dir.name} worked on a task, not on a folder of yours; its patch is {run_dir / PATCH}"
        )
    first = first_of_family(run_dir)
    full = Patch(patch, record.changes)
    since = _since_applied(run_dir, record, first) if record.tree else None
    ways = [full] if since is None else [since, full]  # the user may have restored files to their initial state
    left_out = [change for change in ways[0].changes if not _is_wanted(change.path, only)]
    if only and len(left_out) == len(ways[0].changes):
        raise UsageError(f"the run has no changes to apply in {_names(only)}; omit the names to apply everything")
    last = applied_last(run_dir, first)
    read = partial(_content, run_dir, last)
    is_repeat = last is not None and last.tree == record.tree
    if pick is not None:
        choice = _picked(run_dir, record, last, ways[0], left_out, pick)
        record = replace(record, tree=choice[0])
        ways, left_out, is_repeat = [choice[1]], [], False
    folder, selects = Path(record.folder), partial(_is_wanted, only=only)
    files = [change.path for change in ways[0].changes if change not in left_out]
    must_be_appliable(run_dir, folder, files, os.environ)
    work = UncommittedWork(folder, _users_versions(run_dir, record))
    lossless = () if may_lose else (work.would_lose,)
    done = apply_patches(ways, folder, read, selects, *lossless, is_repeat=is_repeat)
    if record.tree and not is_repeat:  # otherwise the common version is this tree already, whatever was spared
        paths = {*done.refused, *done.conflicts, *done.spared}
        missed_changes = [*left_out, *(change for change in ways[0].changes if change.path in paths)]
        with suppress(OSError, WorkspaceError):  # the run may be on read-only media
            tree = _tree_applied(run_dir, record.tree, missed_changes, read) if missed_changes else record.tree
            write_json(first / APPLIED, Applied(tree, run_dir.name))
    own = {change.path for change in record.changes}
    reverted = tuple(path for path in done.changed if path not in own)
    outcome = result.outcome if result is not None else ""
    return Brought(Path(record.folder), done, bool(record.changes), reverted, outcome)


def _picked(
    run_dir: Path, record: Kept, last: Applied | None, way: Patch, left_out: Sequence[PathChange], pick: Pick
) -> tuple[str, Patch]:
    """Return the run's tree with only what the user chose, and the patch from the common version to it."""
    if not record.tree:
        raise UsageError("an older version made this patch, so its hunks cannot be chosen; apply it without -p")
    history, read = history_of(run_dir), partial(_content, run_dir, last)
    tree = common = _tree_applied(run_dir, record.tree, way.changes, read)
    nodes: dict[bytes, Node | None] = {}
    for change, section in zip(way.changes, sections(way.text), strict=True):
        before, after = (read(name) if name else None for name in (change.before, change.after))
        answer = False if change in left_out else pick(change, section, before, after)
        if isinstance(answer, bytes):
            nodes[path_bytes(change.path)] = Node(change.after_mode, history.keep(answer))
        elif answer:
            nodes[path_bytes(change.path)] = Node(change.after_mode, change.after) if change.after else None
    tree = history.replaced(common, nodes)
    return tree, patch_across(history, common, history, tree)


def _users_versions(run_dir: Path, record: Kept) -> dict[bytes, set[str]]:
    """Return the contents that the changed files had initially or got from the user since, by path."""
    versions: dict[bytes, set[str]] = {}
    for change in [each for each in record.changes if each.before]:
        versions.setdefault(path_bytes(change.path), set()).add(change.before)
    with suppress(TraceError, WorkspaceError, OSError):  # without its history, a run has only its patch
        family = Family(run_dir, history_of(run_dir))
        for entry in family.log():
            for path, node in family.files_taken(entry)[1].items():
                versions.setdefault(path, set()).add(node.id)
    return versions


def _is_wanted(path: str, only: Sequence[str]) -> bool:
    return not only or any(path == name or path.startswith(f"{name.rstrip('/')}/") for name in only)


def _content(run_dir: Path, last: Applied | None, name: str) -> bytes | None:
    """Return the content of a blob of the run, or of the run that was applied last."""
    for path in (run_dir, run_dir.parent / last.run if last is not None else run_dir):
        with suppress(WorkspaceError):
            return content_of(path / HISTORY, name)
    return None


def _tree_applied(run_dir: Path, tree: str, changes: Sequence[PathChange], read: Callable[[str], bytes | None]) -> str:
    """Return the run's tree, with the previous version of the files that were not applied."""
    history = history_of(run_dir)
    before: dict[bytes, Node | None] = {}
    for change in changes:
        content = read(change.before) if change.before else None
        if content is not None:
            history.keep(content)  # it may be in the store of another run
        before[path_bytes(change.path)] = Node(change.before_mode, change.before) if change.before else None
    return history.replaced(tree, before)


def _since_applied(run_dir: Path, record: Kept, first: Path) -> Patch | None:
    """Return the patch from the last applied tree to the run's tree.

    None if no tree or this tree was applied last, or if the run of that tree no longer exists.
    """
    last = applied_last(run_dir, first)
    if last is None or last.tree == record.tree:
        return None
    try:
        before, after = (history_of(path) for path in (run_dir.parent / last.run, run_dir))
        return patch_across(before, last.tree, after, record.tree)
    except (TraceError, WorkspaceError, OSError):
        return None
