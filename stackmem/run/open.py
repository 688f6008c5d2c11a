"""Opens a run of any kind: directories, trace, workspace, history and world. A run that never starts is removed again.

Rule 1: Invalid requests are rejected before anything is created, when the beginning is made (see ``begin``).
Rule 2: A new run without a first event is deleted. A resumed run stays as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from stackmem.core.program_facts import OfferedProgram
from stackmem.errors import UsageError, WorkspaceError
from stackmem.history.hidden import LayerPlan
from stackmem.history.history import History, folder_under, share
from stackmem.history.ignored import IgnoreRules
from stackmem.history.late_repository import LateRepository
from stackmem.history.layer import UPPER, Layer, Overlay, OwnFolder, hidden_again, make_upper, repository_place
from stackmem.history.lent_folders import lend_folders
from stackmem.history.repository import CopyPlan, copy_planned
from stackmem.history.restore import restore
from stackmem.history.selection import own_below
from stackmem.history.walk import path_bytes
from stackmem.settings.keys import signing_key
from stackmem.settings.settings import Settings
from stackmem.tools.own_tools import TOOLS
from stackmem.trace.lineage import RunReader
from stackmem.trace.program import keep_source
from stackmem.trace.signatures import Signer
from stackmem.trace.store import TraceWriter
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import copy_folder, remove_tree
from stackmem.workspace.workspace import Workspace

from .assemble import assemble, scrubber_of
from .begin import Beginning, Edited, Forked, Fresh, Rehearsed, Resumed, run_places
from .checking.checks import as_found
from .companion.jobs import with_jobs
from .folder_choice import way_to_lend
from .following.common import FollowedFolder
from .following.git_following import GitFollower
from .following.taking_in import Follower
from .git_inside import GIT, RepositoryPlaces, bring, bring_again, bring_what_is_missing, remove_stale_locks
from .in_memory import MEMORY, NoHistory, recall
from .interrupts import Interrupts
from .opened import Opened, Person, RunPlaces
from .perform import ProgramWorld, World
from .ports import AnswersQuestions, Clock, live_spans
from .prepare import Prepared, first_request
from .programs.edited_sources import EditedSources
from .programs.sources import Loader, as_read, reachable_folders, source_keeper
from .programs.tools import ToolContext
from .request import ProgramRequest, RunRequest, write_request
from .run_folder import HISTORY, TRACE

_WHAT: dict[type, str] = {Forked: "fork", Rehearsed: "workspace"}  # in error messages; any other kind is a run
_Over = tuple[Path, tuple[bytes, ...]]


@contextmanager
def open_run(
    beginning: Beginning, environ: Mapping[str, str], interrupts: Interrupts, person: Person
) -> Iterator[Opened]:
    """Provide everything that a run needs until it is over. Except for ``TraceError``, failed setup leaves no files."""
    places = run_places(beginning)
    with ExitStack() as stack:
        if isinstance(beginning, Rehearsed):
            stack.callback(remove_tree, places.scratch)
        elif not isinstance(beginning, Resumed):
            stack.callback(_remove_unbegun, places)
        with interrupts.setting_up(_WHAT.get(type(beginning), "run"), places.scratch):
            opened = _opened(beginning, places, environ, (stack, interrupts, person))
        yield opened


def _remove_unbegun(places: RunPlaces) -> None:
    """Remove a run that has no first event."""
    trace = places.run / TRACE
    if not trace.exists() or trace.stat().st_size == 0:
        remove_tree(places.run)
        remove_tree(places.scratch)


def _opened(
    beginning: Beginning, places: RunPlaces, environ: Mapping[str, str], held: tuple[ExitStack, Interrupts, Person]
) -> Opened:
    stack, interrupts, person = held
    prepared, scrubber = beginning.prepared, scrubber_of(environ, beginning.plan.network)
    settings = prepared.resolved.settings
    request = _request(beginning, places, scrubber.scrub)
    writer = _new_writer(beginning, places, person.clock)
    if writer is not None:
        stack.callback(writer.close)
        # written before anything else is created, so that whoever removes the run can read what it was
        write_request(request, places.run)
    missing: tuple[str, ...] = ()
    late, inside = None, None
    history: History | NoHistory = NoHistory()
    if settings.isolation != MEMORY:
        over, missing = _fill(beginning, places, person)
        lent, gone = _lent(beginning, request, places)
        missing += gone
        work = places.work if over is None else places.scratch / UPPER
        into = work if over is None else repository_place(over[0], places.scratch)
        inside = RepositoryPlaces(places.run, into, scrubber, person.notice, into != work, lambda: layer.view.fd)
        request, late, gone = _with_repository(beginning, request, work, inside)
        missing += gone
        layer: Layer = OwnFolder(places.work, lent) if over is None else Overlay(over[0], places.scratch, over[1])
        stack.callback(layer.close)
        if late is not None:
            layer.ready = stack.enter_context(closing(late)).wait
        places = replace(places, layer=layer)
        history = _history(beginning, places, request.leave_out, scrubber)
    start, world, workspace, keeper = assemble(beginning.plan, prepared, places, scrubber, environ, history)
    before = beginning.stopped if isinstance(beginning, Resumed) else beginning
    began = start if isinstance(before, Fresh) else before.state.begun
    as_found(world.checks, history, places.run / HISTORY, began.tree, settings.check_files)
    stack.callback(with_jobs(workspace, began).close)
    stack.callback(world.close)
    if isinstance(history, NoHistory):
        _recall(beginning, world)
    # opened last because it cuts off a torn record, so every other failure must come first
    if isinstance(beginning, Resumed):
        lock = beginning.lock, beginning.stopped.end
        writer = TraceWriter(places.run / TRACE, person.clock.wall, held=lock, reserves=True)
        stack.callback(writer.close)
    signer = None if writer is None else Signer(places.run, partial(signing_key, environ), writer.count, writer.digest)
    _connect(world, writer, history, settings, person)
    if request.program is not None or began.programs is not UNSET:
        world.program = _program_world(
            world, workspace, places, request.program, began.programs or (), settings.literal_mib << 20
        )
    opened = Opened(
        start, beginning.plan.strategy, world, workspace, scrubber, places, history, request,
        interrupts, person, writer, signer, keeper, environ=environ,
        folder=request.subject if request.text is not None else "",
        apply=bool(request.flags.get("apply")) and not isinstance(beginning, Forked),
        missing=missing, late=late, inside=inside,
        live=live_spans(places.run, settings.otel, environ) if writer else None,
    )  # fmt: skip
    _take_up(opened, beginning)
    _follow(opened, beginning, stack)
    return opened


def _connect(
    world: World, writer: TraceWriter | None, history: History | NoHistory, settings: Settings, person: Person
) -> None:
    """Let the world write through the trace's writer, and ask this person."""
    if writer is not None:
        world.sync = writer.syncs(settings.fsync, history.sync)
        world.must_have_room = writer.must_have_room
    world.person = person.port or AnswersQuestions(person.ask)
    world.clock, world.sleep = person.clock.elapsed, person.clock.sleep


def _follow(opened: Opened, beginning: Beginning, stack: ExitStack) -> None:
    """Let a conversation about a user's folder follow the folder."""
    history, prepared, request = opened.history, beginning.prepared, opened.request
    its_parent_follows = isinstance(beginning, Forked | Resumed) and beginning.is_parallel
    if its_parent_follows or not (opened.folder and opened.writer is not None and isinstance(history, History)):
        return
    folder = Path(opened.folder)
    place = FollowedFolder(
        folder, opened.places.run, opened.places.work, history, request.leave_out,
        tuple(own_below(folder, prepared.folders)), request.git is not None,
        GitFollower(opened.inside, opened.late) if opened.inside is not None else None,
    )  # fmt: skip
    follower = Follower(place, opened.world.digest)
    stack.callback(follower.save)
    opened.world.follow = follower.changed


def _take_up(opened: Opened, beginning: Beginning) -> None:
    """Copy what the earlier part of the run spent into the opened run."""
    if isinstance(beginning, Resumed):
        opened.seconds_before = beginning.stopped.seconds
        opened.steps_with_secrets = beginning.stopped.steps_with_secrets
    elif not isinstance(beginning, Fresh):
        opened.seconds_before = beginning.state.seconds


def _request(beginning: Beginning, places: RunPlaces, scrub: Callable[[str], str]) -> RunRequest:
    """Return the request to store in the run directory."""
    match beginning:
        case Fresh(prepared, _, program):
            return first_request(prepared, places.work, None if program is None else program.without_secrets(scrub))
        case Forked() | Edited():
            flags = {name: value for name, value in beginning.request.flags.items() if name != "heap"}
            return replace(beginning.request, workspace=str(places.work), flags=flags)
        case Resumed() | Rehearsed():
            return beginning.request


def _new_writer(beginning: Beginning, places: RunPlaces, clock: Clock) -> TraceWriter | None:
    if isinstance(beginning, Resumed | Rehearsed):
        return None
    at, digest = (beginning.at, beginning.digest) if isinstance(beginning, Forked) else (0, "")
    return TraceWriter(places.run / TRACE, clock.wall, after=at, digest=digest, reserves=True)


def _history(beginning: Beginning, places: RunPlaces, leave_out: tuple[str, ...], scrubber: Scrubber) -> History:
    """Open the history of the workspace. For an overlay, this also restores the files that the run continues from."""
    git_dir = places.run / HISTORY
    over = places.layer if isinstance(places.layer, Overlay) else None
    if isinstance(beginning, Forked | Edited | Rehearsed):
        share(beginning.run.folder / HISTORY, git_dir, beginning.state.tree)
    history = History(git_dir, places.work, leave_out, over=over)
    if over is not None and isinstance(beginning, Forked | Edited | Rehearsed):
        history.withhold(scrubber.held_in)
        restore(history, git_dir, places.work, beginning.state.tree, time.time())
    return history


def _fill(beginning: Beginning, places: RunPlaces, person: Person) -> tuple[_Over | None, tuple[str, ...]]:
    """Fill the workspace with the initial files, or prepare an overlay.

    Returns the overlay's folder with the paths to hide in it, and the dependency folders that no longer exist.
    """
    prepared = beginning.prepared
    over: _Over | None = None
    missing: tuple[str, ...] = ()
    match beginning:
        case Fresh():
            _make_scratch(places)
            if isinstance(prepared.copy, LayerPlan) and prepared.subject.folder is not None:
                over = prepared.subject.folder, prepared.copy.hidden
            else:
                _copy_subject(prepared, places, person.notice)
        case Resumed(request=request, run_dir=run_dir):
            for left in places.scratch.glob("check-*"):
                remove_tree(left)  # left over from checks that were killed
            if folder := folder_under(run_dir / HISTORY):
                over = folder, hidden_again(folder, request.include, prepared.folders)
        case Forked(request=request, run=run) | Edited(request=request, run=run) | Rehearsed(request=request, run=run):
            if not beginning.state.tree:
                raise UsageError(f"the run {run.id} has no stored files, so it cannot be continued")
            _make_scratch(places)
            if folder := folder_under(run.folder / HISTORY):
                over = folder, hidden_again(folder, request.include, prepared.folders)
            else:
                missing = _refill(beginning, places)
    if over is not None:
        make_upper(over[0], places.scratch)
    return over, missing


def _with_repository(
    beginning: Beginning, request: RunRequest, work: Path, into: RepositoryPlaces
) -> tuple[RunRequest, LateRepository | None, tuple[str, ...]]:
    """Create the git repository of the workspace.

    A new one is filled in the background. Otherwise it is recreated, except for the rest of a long history.
    """
    match beginning:
        case Fresh(prepared):
            if prepared.origin is None:
                return request, None, ()
            return *bring(prepared.origin, request, into), ()
        case Resumed():
            remove_stale_locks(work)
            there, late = bring_what_is_missing(request, into)
        case Forked() | Edited() | Rehearsed():
            there, late = bring_again(request, into)
    return request, late, () if there else (GIT,)


def _lent(beginning: Beginning, request: RunRequest, places: RunPlaces) -> tuple[dict[bytes, Path], tuple[str, ...]]:
    """Mount or link the installed packages that a copy uses in place. Also returns the ones that no longer exist."""
    if not request.lent:
        return {}, ()
    prepared = beginning.prepared
    how = way_to_lend(prepared.resolved, prepared.cwd, prepared.folders[1])
    return lend_folders(Path(request.subject), places.work, request.lent, how)


def _make_scratch(places: RunPlaces) -> None:
    try:
        # Closed to other users: a command that root runs could leave setuid programs in it.
        places.scratch.mkdir(mode=0o700, parents=True)
    except OSError as error:
        why = f"{places.scratch.parent} cannot be written ({error.strerror}); choose one with --sandbox-dir"
        raise UsageError(f"the sandbox directory {why}") from error


def _copy_subject(prepared: Prepared, places: RunPlaces, notice: Callable[[str], object]) -> None:
    """Copy the user's folder or the task's files into the workspace."""
    subject = prepared.subject
    if subject.folder is not None and isinstance(prepared.copy, CopyPlan):
        copy_planned(subject.folder, places.work, prepared.copy, notice)
    elif subject.task is not None and subject.task.workspace is not None:
        copy_folder(subject.task.workspace, places.work)
    else:
        places.work.mkdir()


def _refill(beginning: Forked | Edited | Rehearsed, places: RunPlaces) -> tuple[str, ...]:
    """Restore the files of another run's state. Returns the dependency folders that no longer exist."""
    run, state, request = beginning.run, beginning.state, beginning.request
    places.work.mkdir()
    run.snapshot(state).write_into(places.work)
    missing = []
    for shown in (each for each in request.leave_out if each not in request.lent):
        path = os.fsdecode(path_bytes(shown))
        there = [Path(place) / path for place in (request.workspace, request.subject) if (Path(place) / path).is_dir()]
        if not there:
            missing.append(shown)
        elif not (places.work / path).exists():
            (places.work / path).parent.mkdir(parents=True, exist_ok=True)
            copy_folder(there[0], places.work / path)
    return tuple(missing)


def _recall(beginning: Beginning, world: World) -> None:
    """For a run in memory, restore the files to the state where the run continues."""
    match beginning:
        case Resumed():
            recall(RunReader(beginning.run_dir), beginning.stopped.end.count, world)
        case Forked() | Rehearsed():
            recall(beginning.run.records(), beginning.at, world)
        case Fresh() | Edited():
            pass


def _program_world(
    world: World,
    workspace: Workspace | MemoryWorkspace,
    places: RunPlaces,
    request: ProgramRequest | None,
    offered: tuple[OfferedProgram, ...],
    literal_bytes: int,  # maximum size of a file or command output that a program receives
) -> ProgramWorld:
    """Return the world of a program that works in the run's workspace, or of those that an agent may call."""
    if not isinstance(workspace, Workspace):
        raise WorkspaceError("a program needs a workspace on disk; choose another level with --isolation")
    own = Path(workspace.path, "-") if request is None else Path(request.path)
    folders = reachable_folders(request, None) if request else tuple(Path(each.path).parent for each in offered)
    loader = Loader(own, folders, (workspace.path, workspace.files))
    rules = partial(IgnoreRules, places.run / HISTORY, workspace.view)
    seen = (workspace.path, places.run / HISTORY)
    edited = request.edited if request is not None else None
    instead = EditedSources(request, edited, seen, world.scrub).instead if request and edited else as_read
    return ProgramWorld(
        context=ToolContext(workspace, world.snapshot, world.scrub, world.command_seconds, rules, literal_bytes),
        load=source_keeper(loader, lambda text: keep_source(places.run, text), world.scrub, instead),
        own_tools=dict(TOOLS),
        parallel=frozenset(name for name, tool in TOOLS.items() if tool.parallel),
    )
