"""The git repository in a run's workspace: created with the workspace, and read at the end for the agent's commits."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import StackmemError, UsageError, WorkspaceError
from stackmem.foreign.files import read_regular
from stackmem.history.following.arriving import add_history
from stackmem.history.git import USER_GIT_SECONDS, git, user_git_environment
from stackmem.history.inner import FEWER_COMMITS, MAX_COMMITS, InnerRepository, make_repository
from stackmem.history.inner_packs import lend_packs
from stackmem.history.late_repository import LateRepository, Rest, put_in_place
from stackmem.history.layer import LENT
from stackmem.history.origin import Origin, find_origin, work_tree_of
from stackmem.history.pack_cache import PackCache
from stackmem.history.selection import never_copied
from stackmem.run.stored_request import StoredRequest, read_request, write_request
from stackmem.settings.settings import Settings
from stackmem.workspace.clip import clean
from stackmem.workspace.isolation.levels import state_folder
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree
from stackmem.workspace.workspace import Workspace

GIT = ".git"
BUILDING = "repository.new"
"""Directory next to the workspace that exists while its repository is being built."""
ARRIVING = "repository.rest"
"""Directory next to the workspace that exists until the rest of a long history has arrived."""
_BOUNDARY, _MAX_BOUNDARY_BYTES = "boundary", 16 * 1024 * 1024
_MAX_COMMITS = 50  # listed in the result
_SECONDS, _BYTES = 20.0, 16_384

_ARRIVES_BEHIND = (
    f"reading the folder's git history behind the run; until it has arrived, git shows the last {FEWER_COMMITS} commits"
)
_READS_HISTORY = "reading the folder's git history for the run; later runs reuse it, and --git none skips it"


def origin_of(folder: Path, settings: Settings) -> tuple[Origin | None, tuple[str, ...]]:
    """Return the repository of a user folder, and messages about why there is none if the user would expect one."""
    if settings.git != "read" or settings.isolation == "memory" or not folder.is_dir():
        return None, ()
    try:
        root = work_tree_of(folder)
        return (find_origin(root) if root == folder.resolve() else None), ()
    except UsageError as error:
        return None, (str(error),)


def place_of(folder: Path, settings: Settings) -> tuple[Path, str, tuple[str, ...]]:
    """Return the work tree of a folder, the folder's path in it, and notices for the user.

    The folder itself is used if it contains no tracked files, if the work tree is the home folder, or if the work tree
    belongs to another user: then the user means only the folder.
    """
    root = (
        work_tree_of(folder) if settings.git == "read" and settings.isolation != "memory" and folder.is_dir() else None
    )
    if root is None or root in (folder, Path.home().resolve(), Path("/")):
        return folder, "", ()
    hidden = any(never_copied(os.fsencode(part)) for part in folder.relative_to(root).parts)
    if hidden or (root / GIT).lstat().st_uid != folder.stat().st_uid:
        return folder, "", ()
    try:
        find_origin(root)
        if not git("ls-files", "-z", cwd=folder, environment=user_git_environment(), seconds=USER_GIT_SECONDS):
            return folder, "", ()
    except StackmemError as error:
        return folder, "", (str(error),)
    location = str(folder.relative_to(root))
    notice = (
        f"{location} is in the work tree {root}: the run works on all of it, from {location}; "
        "--git none limits it to the folder"
    )
    return root, location, (notice,)


def history_told(folder: Path, settings: Settings) -> str:
    """Describe how much git history a run on this folder could read; empty if there is none."""
    origin, why_none = origin_of(folder.resolve(), settings)
    if origin is None:
        return " ".join(why_none)
    if not origin.head:
        return "the repository has no commit yet"
    count = int(origin.ask("rev-list", "--count", f"--max-count={MAX_COMMITS + 1}", origin.head))
    number = f"the last {MAX_COMMITS:,} commits" if count > MAX_COMMITS else f"{count:,} commit{'s' * (count != 1)}"
    return f"a run can read {number} from HEAD, including old versions of files; --git none hides them"


def pack_cache(*, links: bool = False) -> PackCache:
    """Return the cache of packs that is shared by all runs of a user."""
    return PackCache(state_folder() / "packs", links=links)


class _Rest(Struct, frozen=True):
    """What adds the rest of a long history to the repository of a run."""

    origin: Origin
    run_dir: Path
    place: Path  # the folder next to the workspace in which it is created
    secrets: Scrubber
    notice: Callable[[str], object]
    shared: bool
    view: Callable[[], int]  # descriptor of the workspace's root

    def build(self) -> InnerRepository:
        self.notice(_ARRIVES_BEHIND)
        target = self.place / GIT
        remove_tree(target)
        return make_repository(self.origin, target, self.secrets, pack_cache(links=self.shared))

    def add(self, repository: InnerRepository) -> None:
        lent = self.place.parent / LENT if self.shared else None
        add_history(self.place / GIT, self.view(), lent, read_regular(self.place / _BOUNDARY, _MAX_BOUNDARY_BYTES))
        write_request(replace(read_request(self.run_dir), git=repository), self.run_dir)
        remove_tree(self.place)
        self.notice(f"the folder's git history has arrived: {repository.commits:,} commits")


class RepositoryPlaces(Struct, frozen=True):
    """Where a run's repository comes from and goes."""

    run_dir: Path
    work: Path  # the folder that contains ``.git`` on the host
    secrets: Scrubber
    notice: Callable[[str], object]
    shared: bool  # whether it borrows its objects from a separate folder
    view: Callable[[], int]  # descriptor of the workspace's root, once that is open

    @property
    def building(self) -> Path:
        return self.work.parent / BUILDING

    @property
    def arriving(self) -> Path:
        return self.work.parent / ARRIVING

    def rest(self, origin: Origin) -> Rest:
        rest = _Rest(origin, self.run_dir, self.arriving, self.secrets, self.notice, self.shared, self.view)
        return Rest(rest.build, rest.add, self.notice)

    def make(self, origin: Origin) -> InnerRepository:
        """Create the repository with the last commits, and note if the rest has yet to arrive."""
        repository = self.building / GIT
        try:
            result = make_repository(origin, repository, self.secrets, pack_cache(links=self.shared), FEWER_COMMITS)
            if result.shortened:
                self.arriving.mkdir(exist_ok=True)
                (self.arriving / _BOUNDARY).write_bytes(read_regular(repository / "shallow", _MAX_BOUNDARY_BYTES))
            if self.shared:
                lend_packs(repository, self.work.parent / LENT)
        except (WorkspaceError, OSError) as error:
            raise WorkspaceError(
                f"the git history of {origin.root} cannot be copied into the run: {error}; start again with --git none "
                "to run without it"
            ) from error
        put_in_place(self.building, repository, self.work / GIT)
        return result


def bring(origin: Origin, request: StoredRequest, into: RepositoryPlaces) -> tuple[StoredRequest, LateRepository]:
    """Start creating the repository in a new workspace.

    Returns the request that records it, and the object that completes the repository in the background. ``into`` are
    the new workspace and the run's folder, which stores the request now and again when it is complete. Raise
    WorkspaceError if the folder cannot be created.
    """
    work = into.work
    try:
        for folder in (into.building, work / GIT, *([work.parent / LENT] if into.shared else [])):
            folder.mkdir(parents=True)
    except OSError as error:
        raise WorkspaceError(f"{error.filename} cannot be created ({error.strerror}); free disk space there") from error
    initial = replace(request, git=InnerRepository(origin.head))
    write_request(initial, into.run_dir)

    def make() -> InnerRepository:
        repository = into.make(origin)
        write_request(replace(request, git=repository), into.run_dir)
        return repository

    return initial, LateRepository(make, lambda: into.notice(_READS_HISTORY), into.rest(origin))


def bring_again(request: StoredRequest, into: RepositoryPlaces) -> tuple[bool, LateRepository | None]:
    """Recreate the run's repository in a rebuilt workspace.

    Returns whether that was possible, and what adds the rest of a long history.
    """
    if request.git is None:
        return True, None
    try:
        origin = replace(find_origin(Path(request.subject)), head=request.git.head)
        (into.work / GIT).mkdir(parents=True)
        repository = into.make(origin)
    except (StackmemError, OSError):  # the folder's history has changed since
        remove_tree(into.building)
        remove_tree(into.arriving)
        return False, None
    return True, _continued(repository, origin, into)


def bring_what_is_missing(request: StoredRequest, into: RepositoryPlaces) -> tuple[bool, LateRepository | None]:
    """Like ``bring_again``, for a run that stopped before its repository was complete.

    If commands have already used the repository, only the rest of the history is added.
    """
    if into.building.exists():  # no command ran
        work = into.work
        for path in (into.building, into.arriving, work / GIT, *([work.parent / LENT] if into.shared else [])):
            remove_tree(path)
        return bring_again(request, into)
    if request.git is None or not into.arriving.exists():
        return True, None
    try:
        origin = replace(find_origin(Path(request.subject)), head=request.git.head)
    except (StackmemError, OSError) as error:
        into.notice(f"the rest of the folder's git history is missing in the run: {error}")
        return True, None
    there = replace(request.git, commits=request.git.commits or FEWER_COMMITS, shortened=True)
    return True, _continued(there, origin, into)


def _continued(repository: InnerRepository, origin: Origin, into: RepositoryPlaces) -> LateRepository | None:
    return LateRepository(lambda: repository, bool, into.rest(origin)) if repository.shortened else None


def remove_stale_locks(work: Path) -> None:
    """Remove lock files of a git process that was killed with its run, because later git commands would fail on
    them.
    """
    try:
        folder = os.open(work / GIT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in ("index.lock", "HEAD.lock", "packed-refs.lock"):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)


def commits_made(workspace: Workspace, repository: InnerRepository, scrub: Callable[[str], str]) -> tuple[str, ...]:
    """Return the agent's commits, newest first; empty if git no longer works.

    Git runs inside the sandbox, because the repository is under the agent's control.
    """
    try:
        os.stat(f"{GIT}/logs", dir_fd=workspace.files.fd, follow_symlinks=False)
        command = f"git log --format='%h %s' --max-count={_MAX_COMMITS} --branches HEAD"
        ended = workspace.run_apart(
            f"{command} --not {repository.head}" if repository.head else command, _SECONDS, _BYTES
        )
    except (OSError, ToolRefused, WorkspaceError):
        return ()
    if ended.exit_code != 0:
        return ()
    return tuple(scrub(clean(b"".join(ended.capture.parts()))).splitlines())
