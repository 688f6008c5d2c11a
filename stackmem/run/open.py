"""Opens a run of any kind: directories, trace, workspace, history and world. A run that never starts is removed again.

Rule 1: Invalid requests are rejected before anything is created, when the plan is made (see ``plan``).
Rule 2: A new run without a first event is deleted. A resumed run stays as it was.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import RunStarted
from stackmem.core.neighbors import neighbor
from stackmem.history.history import History, folder_under, share
from stackmem.history.late_repository import LateRepository
from stackmem.history.layer import UPPER, Layer, Overlay, OwnFolder, hidden_again, make_upper, repository_place
from stackmem.history.lent_folders import lend_folders
from stackmem.history.repository import copy_planned
from stackmem.history.restore import restore
from stackmem.history.walk import path_bytes
from stackmem.run.companion.keys import signing_key
from stackmem.settings.settings import Settings
from stackmem.trace.lineage import RunReader
from stackmem.trace.lock import Lock
from stackmem.trace.signatures import Signer
from stackmem.trace.store import TraceWriter
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import copy_folder, remove_tree

from .assemble import assemble, scrubber_of
from .checking.checks import as_found
from .companion.git_inside import GIT, RepositoryPlaces, bring, bring_again, bring_what_is_missing, remove_stale_locks
from .companion.jobs import with_jobs
from .folder_choice import way_to_lend
from .in_memory import MEMORY, NoHistory, recall
from .interrupts import Interrupts
from .opened import Opened, Person, RunPlaces
from .perform import World
from .plan import Edited, Forked, Fresh, Plan, Rehearsed, Resumed
from .ports import AnswersQuestions, Clock, live_spans
from .prepare import first_request
from .request import Request
from .run_folder import HISTORY, TRACE, new_folder, new_run
from .stored_request import StoredRequest, write_request

_NOUNS: dict[type, str] = {Forked: "fork", Rehearsed: "workspace"}  # in error messages; any other kind is a run
_Base = tuple[Path, tuple[bytes, ...]]


@contextmanager
def open_run(
    plan: Plan, environ: Mapping[str, str], interrupts: Interrupts, person: Person, lock: Lock | None = None
) -> Iterator[Opened]:
    """Provide everything that a run needs until it is over. Except for ``TraceError``, failed setup leaves no files.

    ``lock`` is the lock of a resumed run, which was acquired before the run was read.
    """
    places = _places(plan)
    with ExitStack() as stack:
        if isinstance(plan.begins, Rehearsed):
            stack.callback(remove_tree, places.scratch)
        elif not isinstance(plan.begins, Resumed):
            stack.callback(_remove_unbegun, places)
        with interrupts.setting_up(_NOUNS.get(type(plan.begins), "run"), places.scratch):
            opened = _opened(plan, places, environ, (stack, interrupts, person), lock)
        yield opened


def _places(plan: Plan) -> RunPlaces:
    """Return the directories of the run. For a new run, this creates the run directory."""
    runs_dir, sandbox_dir = plan.request.folders
    begins = plan.begins
    if isinstance(begins, Resumed):
        work = Path(begins.stored.workspace)
        return RunPlaces(begins.run_dir, work, work.parent)
    if isinstance(begins, Rehearsed):
        scratch = sandbox_dir / f"replay-{secrets.token_hex(6)}"
        return RunPlaces(scratch, scratch / "workspace", scratch)
    folder_name = begins.folder_name if isinstance(begins, Forked) else ""
    run_dir = new_folder(runs_dir, folder_name) if folder_name else new_run(runs_dir, *plan.name_parts)
    return RunPlaces(run_dir, sandbox_dir / run_dir.name / "workspace", sandbox_dir / run_dir.name)


def _remove_unbegun(places: RunPlaces) -> None:
    """Remove a run that has no first event."""
    trace = places.run / TRACE
    if not trace.exists() or trace.stat().st_size == 0:
        remove_tree(places.run)
        remove_tree(places.scratch)


class _DiskFiles(Struct, frozen=True):
    """The workspace and its history on disk, once they exist. In memory there are none."""

    places: RunPlaces
    history: History | NoHistory
    stored: StoredRequest
    missing: tuple[str, ...] = ()  # as in ``Opened``, like ``late`` and ``inside``
    late: LateRepository | None = None
    inside: RepositoryPlaces | None = None


def _opened(
    plan: Plan,
    places: RunPlaces,
    environ: Mapping[str, str],
    resources: tuple[ExitStack, Interrupts, Person],
    lock: Lock | None,
) -> Opened:
    stack, interrupts, person = resources
    begins, settings, scrubber = plan.begins, plan.request.resolved.settings, scrubber_of(environ, plan.network)
    stored = _stored(plan, places, scrubber.scrub)
    writer = _new_writer(plan, places, person.clock)
    if writer is not None:
        stack.callback(writer.close)
        # written before anything else is created, so that whoever removes the run can read what it was
        write_request(stored, places.run)
    files = _DiskFiles(places, NoHistory(), stored)
    if settings.isolation != MEMORY:
        files = _open_files(plan, files, scrubber, stack, person)
    places, history, stored = files.places, files.history, files.stored
    start, world, workspace, keeper = assemble(plan, places, scrubber, environ, history)
    before = begins.stopped if isinstance(begins, Resumed) else begins
    began = start if isinstance(before, Fresh) else before.state.begun
    as_found(world.checks, history, places.run / HISTORY, began.tree, settings.check_files)
    stack.callback(with_jobs(workspace, began).close)
    stack.callback(world.close)
    if isinstance(history, NoHistory):
        _recall(plan, world)
    # opened last because it cuts off a torn record, so every other failure must come first
    if isinstance(begins, Resumed) and lock is not None:
        held_from = lock, begins.stopped.end
        writer = TraceWriter(places.run / TRACE, person.clock.wall, resume_from=held_from, reserves=True)
        stack.callback(writer.close)
    signer = None if writer is None else Signer(places.run, partial(signing_key, environ), writer.count, writer.digest)
    _connect(world, writer, history, settings, person)
    if stored.program is not None or began.programs is not UNSET:
        world.program = neighbor("languages: world of a program")(
            world, workspace, places, stored.program, began.programs or (), settings.literal_mib << 20
        )
    opened = Opened(
        start, plan.strategy, world, workspace, scrubber, places, history, stored,
        interrupts, person, writer, signer, keeper, environ=environ,
        folder=stored.subject if stored.text is not None else "",
        apply=bool(stored.flags.get("apply")) and not isinstance(begins, Forked),
        missing=files.missing, late=files.late, inside=files.inside,
        live=live_spans(places.run, settings.otel, environ) if writer else None,
    )  # fmt: skip
    _take_up(opened, plan)
    _follow(opened, plan, began, stack)
    return opened


def _open_files(plan: Plan, files: _DiskFiles, scrubber: Scrubber, stack: ExitStack, person: Person) -> _DiskFiles:
    """Fill the workspace on disk, create its repository, and open its history."""
    places, stored = files.places, files.stored
    base, missing = _fill(plan, places, person)
    lent, absent = _lent(plan, stored, places)
    missing += absent
    work = places.work if base is None else places.scratch / UPPER
    into = work if base is None else repository_place(base[0], places.scratch)
    inside = RepositoryPlaces(places.run, into, scrubber, person.notice, into != work, lambda: layer.view.fd)
    stored, late, absent = _with_repository(plan, stored, work, inside)
    missing += absent
    layer: Layer = OwnFolder(places.work, lent) if base is None else Overlay(base[0], places.scratch, base[1])
    stack.callback(layer.close)
    if late is not None:
        layer.ready = stack.enter_context(closing(late)).wait
    places = replace(places, layer=layer)
    return _DiskFiles(places, _history(plan, places, stored.leave_out, scrubber), stored, missing, late, inside)


def _connect(
    world: World, writer: TraceWriter | None, history: History | NoHistory, settings: Settings, person: Person
) -> None:
    """Let the world write through the trace's writer, and ask this person."""
    if writer is not None:
        world.sync = writer.syncs(settings.fsync, history.sync)
        world.must_have_room = writer.must_have_room
    world.person = person.port or AnswersQuestions(person.ask)
    world.clock, world.sleep = person.clock.elapsed, person.clock.sleep


def _follow(opened: Opened, plan: Plan, began: RunStarted, stack: ExitStack) -> None:
    """Let a conversation about a user's folder follow the folder."""
    history, begins = opened.history, plan.begins
    its_parent_follows = isinstance(begins, Forked | Resumed) and begins.is_parallel
    has_files = opened.folder and opened.writer is not None and isinstance(history, History)
    if has_files and began.session is not UNSET and not its_parent_follows:
        neighbor("doors: follow the user's folder")(opened, history, plan, stack)


def _take_up(opened: Opened, plan: Plan) -> None:
    """Copy what the earlier part of the run spent into the opened run."""
    begins = plan.begins
    if isinstance(begins, Resumed):
        opened.seconds_before = begins.stopped.seconds
        opened.steps_with_secrets = begins.stopped.steps_with_secrets
    elif not isinstance(begins, Fresh):
        opened.seconds_before = begins.state.seconds


def _stored(plan: Plan, places: RunPlaces, scrub: Callable[[str], str]) -> StoredRequest:
    """Return the request to store in the run directory."""
    match plan.begins:
        case Fresh(program):
            return first_request(plan.request, places.work, program and program.without_secrets(scrub))
        case Forked(stored) | Edited(stored):
            flags = {name: value for name, value in stored.flags.items() if name != "heap"}
            return replace(stored, workspace=str(places.work), flags=flags)
        case Resumed(stored) | Rehearsed(stored):
            return stored


def _new_writer(plan: Plan, places: RunPlaces, clock: Clock) -> TraceWriter | None:
    begins = plan.begins
    if isinstance(begins, Resumed | Rehearsed):
        return None
    at, digest = (begins.at, begins.digest) if isinstance(begins, Forked) else (0, "")
    return TraceWriter(places.run / TRACE, clock.wall, after=at, digest=digest, reserves=True)


def _history(plan: Plan, places: RunPlaces, leave_out: tuple[str, ...], scrubber: Scrubber) -> History:
    """Open the history of the workspace. For an overlay, this also restores the files that the run continues from."""
    git_dir, begins = places.run / HISTORY, plan.begins
    overlay = places.layer if isinstance(places.layer, Overlay) else None
    if isinstance(begins, Forked | Edited | Rehearsed):
        share(begins.run.folder / HISTORY, git_dir, begins.state.tree)
    history = History(git_dir, places.work, leave_out, overlay=overlay)
    if overlay is not None and isinstance(begins, Forked | Edited | Rehearsed):
        history.withhold(scrubber.held_in)
        restore(history, git_dir, places.work, begins.state.tree, time.time())
    return history


def _fill(plan: Plan, places: RunPlaces, person: Person) -> tuple[_Base | None, tuple[str, ...]]:
    """Fill the workspace with the initial files, or prepare an overlay.

    Returns the overlay's folder with the paths to hide in it, and the dependency folders that no longer exist.
    """
    request, begins = plan.request, plan.begins
    base: _Base | None = None
    missing: tuple[str, ...] = ()
    match begins:
        case Fresh():
            _make_scratch(places)
            if request.overlay is not None and request.subject.folder is not None:
                base = request.subject.folder, request.overlay.hidden
            else:
                _copy_subject(request, places, person.notice)
        case Resumed(stored=stored, run_dir=run_dir):
            for leftover in places.scratch.glob("check-*"):
                remove_tree(leftover)  # left over from checks that were killed
            if folder := folder_under(run_dir / HISTORY):
                base = folder, hidden_again(folder, stored.include, request.folders)
        case Forked(stored, run) | Edited(stored, run) | Rehearsed(stored, run):
            if not begins.state.tree:
                raise UsageError(f"the run {run.id} has no stored files, so it cannot be continued")
            _make_scratch(places)
            if folder := folder_under(run.folder / HISTORY):
                base = folder, hidden_again(folder, stored.include, request.folders)
            else:
                missing = _refill(begins, places)
    if base is not None:
        make_upper(base[0], places.scratch)
    return base, missing


def _with_repository(
    plan: Plan, stored: StoredRequest, work: Path, into: RepositoryPlaces
) -> tuple[StoredRequest, LateRepository | None, tuple[str, ...]]:
    """Create the git repository of the workspace.

    A new one is filled in the background. Otherwise it is recreated, except for the rest of a long history.
    """
    match plan.begins:
        case Fresh():
            if plan.request.origin is None:
                return stored, None, ()
            return *bring(plan.request.origin, stored, into), ()
        case Resumed():
            remove_stale_locks(work)
            there, late = bring_what_is_missing(stored, into)
        case Forked() | Edited() | Rehearsed():
            there, late = bring_again(stored, into)
    return stored, late, () if there else (GIT,)


def _lent(plan: Plan, stored: StoredRequest, places: RunPlaces) -> tuple[dict[bytes, Path], tuple[str, ...]]:
    """Mount or link the installed packages that a copy uses in place. Also returns the ones that no longer exist."""
    if not stored.lent:
        return {}, ()
    how = way_to_lend(plan.request.resolved, plan.request.cwd, plan.request.folders[1])
    return lend_folders(Path(stored.subject), places.work, stored.lent, how)


def _make_scratch(places: RunPlaces) -> None:
    try:
        # Closed to other users: a command that root runs could leave setuid programs in it.
        places.scratch.mkdir(mode=0o700, parents=True)
    except OSError as error:
        reason = f"{places.scratch.parent} cannot be written ({error.strerror}); choose one with --sandbox-dir"
        raise UsageError(f"the sandbox directory {reason}") from error


def _copy_subject(request: Request, places: RunPlaces, notice: Callable[[str], object]) -> None:
    """Copy the user's folder or the task's files into the workspace."""
    subject = request.subject
    if subject.folder is not None and request.copied is not None:
        copy_planned(subject.folder, places.work, request.copied, notice)
    elif subject.task is not None and subject.task.workspace is not None:
        copy_folder(subject.task.workspace, places.work)
    else:
        places.work.mkdir()


def _refill(begins: Forked | Edited | Rehearsed, places: RunPlaces) -> tuple[str, ...]:
    """Restore the files of another run's state. Returns the dependency folders that no longer exist."""
    run, state, stored = begins.run, begins.state, begins.stored
    places.work.mkdir()
    run.snapshot(state).write_into(places.work)
    missing = []
    for name in (each for each in stored.leave_out if each not in stored.lent):
        path = os.fsdecode(path_bytes(name))
        there = [Path(root) / path for root in (stored.workspace, stored.subject) if (Path(root) / path).is_dir()]
        if not there:
            missing.append(name)
        elif not (places.work / path).exists():
            (places.work / path).parent.mkdir(parents=True, exist_ok=True)
            copy_folder(there[0], places.work / path)
    return tuple(missing)


def _recall(plan: Plan, world: World) -> None:
    """For a run in memory, restore the files to the state where the run continues."""
    begins = plan.begins
    match begins:
        case Resumed():
            recall(RunReader(begins.run_dir), begins.stopped.end.count, world)
        case Forked() | Rehearsed():
            recall(begins.run.records(), begins.at, world)
        case Fresh() | Edited():
            pass
