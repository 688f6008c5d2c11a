"""The git repository in a run's workspace: created with the workspace, and read at the end for the agent's commits."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from stackmem.errors import StackmemError, UsageError, WorkspaceError
from stackmem.history.git import USER_GIT_SECONDS, git, user_git_environment
from stackmem.history.inner import MAX_COMMITS, InnerRepository, make_repository
from stackmem.history.inner_packs import lend_packs
from stackmem.history.late_repository import LateRepository, put_in_place
from stackmem.history.layer import LENT
from stackmem.history.origin import Origin, find_origin, work_tree_of
from stackmem.history.pack_cache import PackCache
from stackmem.history.selection import never_copied
from stackmem.settings.settings import Settings
from stackmem.workspace.clip import clean
from stackmem.workspace.isolation.levels import state_folder
from stackmem.workspace.refusals import ToolRefused
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.tree import remove_tree
from stackmem.workspace.workspace import Workspace

from .request import RunRequest, write_request

GIT = ".git"
BUILDING = "repository.new"
"""Directory next to the workspace that exists while its repository is being built."""
_MAX_COMMITS = 50  # listed in the result
_SECONDS, _BYTES = 20.0, 16_384

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
    unseen = any(never_copied(os.fsencode(part)) for part in folder.relative_to(root).parts)
    if unseen or (root / GIT).lstat().st_uid != folder.stat().st_uid:
        return folder, "", ()
    try:
        find_origin(root)
        if not git("ls-files", "-z", cwd=folder, environment=user_git_environment(), seconds=USER_GIT_SECONDS):
            return folder, "", ()
    except StackmemError as error:
        return folder, "", (str(error),)
    place = str(folder.relative_to(root))
    notice = (
        f"{place} is in the work tree {root}: the run works on all of it, from {place}; "
        "--git none limits it to the folder"
    )
    return root, place, (notice,)


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


def bring(
    origin: Origin, request: RunRequest, into: tuple[Path, Path], secrets: Scrubber, notice: Callable[[str], object],
    *, shared: bool,
) -> tuple[RunRequest, LateRepository]:  # fmt: skip
    """Start creating the repository in a new workspace.

    Returns the request that records it, and the object that completes the repository in the background.
    """
    work, run_dir = into
    building = work.parent / BUILDING
    try:
        for folder in (building, work / GIT, *([work.parent / LENT] if shared else [])):
            folder.mkdir(parents=True)
    except OSError as error:
        raise WorkspaceError(f"{error.filename} cannot be created ({error.strerror}); free disk space there") from error
    begun = replace(request, git=InnerRepository(origin.head))
    write_request(begun, run_dir)

    def make() -> InnerRepository:
        made = _make(origin, building / GIT, secrets, shared=shared)
        put_in_place(building, building / GIT, work / GIT)
        write_request(replace(request, git=made), run_dir)
        return made

    return begun, LateRepository(make, lambda: notice(_READS_HISTORY))


def _make(origin: Origin, repository: Path, secrets: Scrubber, *, shared: bool) -> InnerRepository:
    try:
        made = make_repository(origin, repository, secrets, pack_cache(links=shared))
        if shared:
            lend_packs(repository, repository.parent.parent / LENT)
    except (WorkspaceError, OSError) as error:
        raise WorkspaceError(
            f"the git history of {origin.root} cannot be copied into the run: {error}; start again with --git none "
            "to run without it"
        ) from error
    return made


def bring_again(request: RunRequest, work: Path, secrets: Scrubber, *, shared: bool) -> bool:
    """Recreate the run's repository in a rebuilt workspace. Returns whether that was possible."""
    if request.git is None:
        return True
    building = work.parent / BUILDING
    try:
        origin = replace(find_origin(Path(request.subject)), head=request.git.head)
        _make(origin, building / GIT, secrets, shared=shared)
        (work / GIT).mkdir(parents=True)
        put_in_place(building, building / GIT, work / GIT)
    except (StackmemError, OSError):  # the folder's history has changed since
        remove_tree(building)
        return False
    return True


def bring_what_is_missing(request: RunRequest, work: Path, secrets: Scrubber, *, shared: bool) -> bool:
    """Like ``bring_again``, for a run that stopped before its repository was complete and before any command ran."""
    if not (work.parent / BUILDING).exists():
        return True
    for left in (work.parent / BUILDING, work / GIT, *([work.parent / LENT] if shared else [])):
        remove_tree(left)
    return bring_again(request, work, secrets, shared=shared)


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


def commits_made(workspace: Workspace, given: InnerRepository, scrub: Callable[[str], str]) -> tuple[str, ...]:
    """Return the agent's commits, newest first; empty if git no longer works.

    Git runs inside the sandbox, because the repository is under the agent's control.
    """
    try:
        os.stat(f"{GIT}/logs", dir_fd=workspace.files.fd, follow_symlinks=False)
        command = f"git log --format='%h %s' --max-count={_MAX_COMMITS} --branches HEAD"
        ended = workspace.run_apart(f"{command} --not {given.head}" if given.head else command, _SECONDS, _BYTES)
    except (OSError, ToolRefused, WorkspaceError):
        return ()
    if ended.exit_code != 0:
        return ()
    return tuple(scrub(clean(b"".join(ended.capture.parts()))).splitlines())
