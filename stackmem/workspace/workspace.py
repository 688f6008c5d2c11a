"""The workspace of a run: its files, and commands that run in a sandbox around them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import structs

from stackmem.core.errors import WorkspaceError

from .clip import clean
from .command import CommandEnd, CommandInterrupted, JobOrder, run
from .egress.network_list import NetworkList
from .files import Files
from .isolation.cover import OWN_TASKS
from .isolation.launch import Level, Seat, SetUpFailed
from .isolation.levels import cache_folder, choose, forget, no_door, no_jobs, try_level
from .isolation.skeleton import build_skeleton
from .jobs.crowd import Crowd
from .jobs.jobs import Jobs
from .jobs.network import open_network
from .outcome import ToolOutcome
from .overlay.view import WorkspaceView
from .profile import Mount, Profile
from .project.project import Project
from .python import INSIDE, Toolchain, build_toolchain
from .refusals import ToolRefused
from .search.searching import MAX_BYTES, SECONDS, search_command, shown_matches
from .shown import lasting_hint, left_hint, read_only_hint, rename_hint, shown_output

_MAX_COMMAND_BYTES = 100_000
_USES_GIT = re.compile(r"\bgit\s")


def open_workspace(
    isolation: str | Level,
    root: Path | WorkspaceView,
    inside: str,
    profile: Profile,
    mounts: tuple[Mount, ...] = (),
    env: Mapping[str, str] | None = None,
    *,
    scrub: Callable[[str], str] = str,
    toolchain: Toolchain | None = None,
    hidden: tuple[Path, ...] = (),
    project: Project | None = None,
    subfolder: str = "",
    network_list: NetworkList | None = None,
    ready: Callable[[], object] = bool,
) -> Workspace:
    """Open a folder as a workspace.

    Args:
        isolation: As in ``--isolation``; a ``Level`` is used as is, without a probe.
        root: The folder, or a view of it, which the caller must close.
        inside: Absolute path inside the sandbox, if the level can mount.
        env: Variables for every command; they override the default ones.
        scrub: Removes secrets from output before it is clipped, because half a secret is no longer recognizable.
        toolchain: The Python for commands; None uses the one in the cache folder, building it if necessary.
        hidden: Host folders that appear empty inside folders that commands see, in addition to the shipped tasks. Not
            at ``landlock`` and ``none``, which cannot mount.
        subfolder: Relative path of a subfolder where commands start and that relative paths refer to.
        project: Environment of the folder: its programs come first on PATH, its interpreters are visible.
        network_list: Hosts that commands can reach if the profile's network is ``list``; None allows nothing.
        ready: Returns once the folder's ``.git`` exists; called before anything can look at it. A text in the result
            says what git lacks so far; it is added to the answers of commands that use git.
    """
    view, host = (root, root.root) if isinstance(root, WorkspaceView) else (None, root)
    if not host.is_dir():
        raise WorkspaceError(f"no folder {host}; create it, or use another workspace")
    if host.is_symlink():
        raise WorkspaceError(f"{host} is a link, whose target may change; name the folder itself")
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        raise WorkspaceError(
            "this process ignores SIGCHLD, so it cannot find out how a command ended; "
            "call signal.signal(signal.SIGCHLD, signal.SIG_DFL) first"
        )
    tools = toolchain or build_toolchain(cache_folder())
    level = choose(isolation, profile, tools) if isinstance(isolation, str) else isolation
    _must_suit(level, profile, view)
    folder = host.resolve()
    path = inside if level.mounts else str(folder)
    files = Files(folder if view is None else view.fd, path, scrub=scrub, subfolder=subfolder, before_git=ready)
    skeleton = build_skeleton(network=profile.network == "host")
    environment = project or Project()
    seat = Seat(
        folder, files.fd, path, profile, (*mounts, *environment.mounts(profile, tools)),
        {**environment.variables(path), **(env or {})}, tools, skeleton, (OWN_TASKS, *hidden),
        first=environment.path(path), place=subfolder, view=view,
        network_list=(network_list or NetworkList()) if profile.network == "list" else None,
    )  # fmt: skip
    return Workspace(level, files, seat, scrub, ready)


def _must_suit(level: Level, profile: Profile, view: WorkspaceView | None) -> None:
    """Raise if the level does not support the requested network or the view of the folder."""
    if profile.network == "list" and not level.doors:
        raise WorkspaceError(no_door(level))
    if view is not None and view.namespaces and not level.layers:
        raise WorkspaceError(
            f"at isolation {level.name} commands cannot use an overlay; continue at bubblewrap, or start "
            "again with --layer copy"
        )


class Workspace:
    """Files and commands in one folder."""

    def __init__(
        self, level: Level, files: Files, seat: Seat, scrub: Callable[[str], str], ready: Callable[[], object] = bool
    ) -> None:
        self.level = level.name  # name of the isolation level
        self.root = seat.root  # the folder on the host
        self.view = seat.view or WorkspaceView(seat.root, seat.fd)  # how stackmem's own programs see it there
        self.path = seat.path  # the folder as commands see it
        self.listed = seat.network_list  # the hosts that commands can reach; None if there is no list
        self._level = level
        self._files = files
        self._seat = seat
        self._seats = {True: seat, False: structs.replace(seat, binds_git=False)}
        self._scrub = scrub
        self._ready = ready
        self._gate = Gate()
        self._crowd: Crowd | None = None  # set with the first job
        self.jobs = Jobs(self._run_job, lambda raw: self._scrub(clean(raw)))
        # the same folder in a sandbox with our Python, if the sandbox of commands may lack it
        self.searcher: Workspace | None = None
        self.with_it = ExitStack()  # closed together with the workspace

    def place(self, mount: Mount) -> str:
        """Return the path of a mount inside the sandbox."""
        return mount.inside if self._level.mounts else mount.host

    def read_file(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> ToolOutcome:
        return self._files.read(path, start_line, end_line, shown_bytes)

    def write_file(self, path: str, content: str) -> ToolOutcome:
        return self._files.write(path, content)

    def edit_file(self, path: str, old: str, new: str, *, every: bool) -> ToolOutcome:
        return self._files.edit(path, old, new, every=every)

    def search_files(self, pattern: str, path: str, glob: str, context: int, shown_bytes: int) -> ToolOutcome:
        """Search inside the sandbox, with the Python of commands."""
        runner = self.searcher or self
        try:
            location = self._files.spelled(path)
            command = search_command(f"{runner.own_python}/bin/python", pattern, location, glob, context)
            command = f"cd {shlex.quote(self.path)} && {command}" if self._seat.place else command
            ended = runner.run_apart(command, SECONDS, MAX_BYTES)
        except ToolRefused as refused:
            return ToolOutcome(str(refused), failed=True)
        return shown_matches(ended, path, shown_bytes, self._scrub, self._seat.place)

    @property
    def begins(self) -> str:
        """Subfolder in which commands start; empty for the workspace itself."""
        return self._seat.place

    @property
    def runs_several(self) -> bool:
        """Whether commands can run at the same time."""
        return self._level.contains

    @property
    def own_python(self) -> str:
        """Path of our Python environment inside the sandbox."""
        return INSIDE if self._level.mounts else self._seat.toolchain.environment

    def list_files(self, path: str, shown_bytes: int) -> ToolOutcome:
        return self._files.list(path, shown_bytes)

    def digest(self, path: str) -> str:
        return self._files.digest(path)

    def run_command(self, command: str, seconds: float, shown_bytes: int) -> ToolOutcome:
        """Run a command. The last line of the text says how it ended. ``WorkspaceError`` if it could not run."""
        if refused := refused_command(command):
            return ToolOutcome(refused, failed=True)
        if os.fstat(self._seat.fd).st_nlink == 0:
            raise WorkspaceError(f"the workspace {self.root} was removed; restore it and resume the run")
        arrived = self._ready()
        try:
            with self._gate.entered(lambda: self._level.mounts and _has_git(self._seat.fd)) as binds_git:
                ended = self._run(command, seconds, binds_git=binds_git)
        except CommandInterrupted as stop:
            stop.outcome = self._outcome(self._scrubbed(stop.ended), command, seconds, shown_bytes)
            raise
        except ToolRefused as refused_by_job:
            return ToolOutcome(str(refused_by_job), failed=True)
        missing = arrived if isinstance(arrived, str) and _USES_GIT.search(command) else ""
        return self._outcome(ended, command, seconds, shown_bytes, missing)

    def _outcome(
        self, ended: CommandEnd, command: str, seconds: float, shown_bytes: int, missing: str = ""
    ) -> ToolOutcome:
        mounted, layered = bool(self.view.namespaces), self.view.layered
        hint = "" if not mounted else rename_hint(ended) if layered else read_only_hint(ended)
        # what was left behind is known, and need not be guessed from the command
        hint += (left_hint(ended.left) or lasting_hint(command)) + missing
        text = shown_output(ended, seconds, shown_bytes, lambda raw: self._scrub(clean(raw)), hint)
        return ToolOutcome(text, ended.exit_code != 0, ended.exit_code, ended.reason, ended.requests)

    def run_apart(self, command: str, seconds: float, most_bytes: int) -> CommandEnd:
        """Like ``run_command``, but with separate stdout and stderr, each with its first ``most_bytes`` unclipped."""
        if refused := refused_command(command):
            raise ToolRefused(refused)
        if os.fstat(self._seat.fd).st_nlink == 0:
            raise WorkspaceError(f"the workspace {self.root} was removed; restore it and resume the run")
        self._ready()
        with self._gate.entered(lambda: self._level.mounts and _has_git(self._seat.fd)) as binds_git:
            return self._run(command, seconds, most_bytes, binds_git=binds_git)

    def report_left(self) -> None:
        """Let answers name the processes that a command leaves behind."""
        self._seats = {binds: structs.replace(each, reports_left=True) for binds, each in self._seats.items()}

    @property
    def why_no_jobs(self) -> str:
        """Why commands cannot run in the background here; empty if they can."""
        if self._level.contains and getattr(self._level, "jobs", False):
            return ""
        return no_jobs(self.level)

    def start_job(self, command: str, seconds: float | None, shown_bytes: int) -> ToolOutcome:
        """Start a command that runs in the background, as ``jobs`` shows it."""
        if refused := self.why_no_jobs or refused_command(command):
            return ToolOutcome(refused, failed=True)
        self._ready()
        if self._crowd is None:
            self._share()
        return self.jobs.start(command, seconds, shown_bytes)

    def _share(self) -> None:
        """Let all commands from now on share one network, and the limits of one command."""
        seat = self._seat
        self._crowd = Crowd(seat.profile, seat.fd)
        if seat.profile.network == "host" or getattr(self._level, "own_network", False):
            return
        network = open_network(seat.view, listed=seat.network_list is not None)
        self.with_it.callback(network.close)
        self._seats = {binds: structs.replace(each, shared=network) for binds, each in self._seats.items()}

    def _run_job(self, command: str, seconds: float, order: JobOrder) -> CommandEnd:
        with self._gate.entered(lambda: self._level.mounts and _has_git(self._seat.fd), lasting=True) as binds_git:
            # the shell that reports would end first when the job is asked to end
            seat = structs.replace(self._seats[binds_git], reports_left=False, lasting=True)
            return self._scrubbed(run(self._level, seat, command, seconds, job=order, crowd=self._crowd))

    @property
    def files(self) -> Files:
        """The file tools, whole and unclipped, for programs."""
        return self._files

    def _run(self, command: str, seconds: float, apart_bytes: int = 0, *, binds_git: bool) -> CommandEnd:
        seat = self._seats[binds_git]
        try:
            ended = run(self._level, seat, command, seconds, apart_bytes=apart_bytes, crowd=self._crowd)
        except SetUpFailed as error:
            forget()
            if failure := try_level(self._level, self._seat.profile, self._seat.toolchain).failure:
                raise WorkspaceError(
                    f"isolation {self.level} no longer works ({failure}); run `stackmem doctor`"
                ) from error
            ended = run(self._level, seat, command, seconds, apart_bytes=apart_bytes, crowd=self._crowd)
        return self._scrubbed(ended)

    def _scrubbed(self, ended: CommandEnd) -> CommandEnd:
        """Scrub the recorded network requests, because a command can request a host whose name contains a secret."""
        requests = tuple(
            structs.replace(
                each, host=self._scrub(each.host), why=self._scrub(each.why), method=self._scrub(each.method)
            )
            for each in ended.requests
        )
        return structs.replace(ended, requests=requests) if requests else ended

    def close(self) -> None:
        self.jobs.close()
        self._files.close()
        shutil.rmtree(self._seat.skeleton, ignore_errors=True)
        self.with_it.close()


_REFUSED = ToolOutcome("this run works on no files; the agent's own tools do", failed=True)


class WatchedFolder:
    """A folder that is only observed: provides digests of the files of an external agent that has its own tools."""

    level = "client"

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raises ``WorkspaceError`` if it is not a folder."""
        self.path = str(folder)  # absolute path on the host
        self._files = Files(folder, self.path)

    def digest(self, path: str) -> str:
        return self._files.digest(path)

    def close(self) -> None:
        self._files.close()

    def read_file(self, path: str, start_line: int | None, end_line: int | None, shown_bytes: int) -> ToolOutcome:
        return _REFUSED

    def write_file(self, path: str, content: str) -> ToolOutcome:
        return _REFUSED

    def edit_file(self, path: str, old: str, new: str, *, every: bool) -> ToolOutcome:
        return _REFUSED

    def search_files(self, pattern: str, path: str, glob: str, context: int, shown_bytes: int) -> ToolOutcome:
        return _REFUSED

    def list_files(self, path: str, shown_bytes: int) -> ToolOutcome:
        return _REFUSED

    def run_command(self, command: str, seconds: float, shown_bytes: int) -> ToolOutcome:
        return _REFUSED


def refused_command(command: str) -> str:
    """Return why a command cannot be run at all, or an empty string."""
    try:
        raw = os.fsencode(command)
    except UnicodeEncodeError:
        return "the command contains half a character (a lone surrogate); remove it"
    if b"\0" in raw:
        return "the command contains a NUL character; remove it"
    if len(raw) > _MAX_COMMAND_BYTES:
        return (
            f"the command is {len(raw)} bytes, the limit is {_MAX_COMMAND_BYTES}; put a long text into a file in parts "
            "of at most 30,000 bytes, each with cat >> FILE <<'EOF'"
        )
    return ""


def _has_git(folder: int) -> bool:
    try:
        os.stat(".git", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


class Gate:
    """Prevents a race on ``.git``.

    A command that started before ``.git`` existed could replace it by a link while the next command mounts it. So a
    command that will mount it waits until those that did not have ended. Commands that mounted it cannot move it.
    It does not wait for a job, which may run for hours, but is refused.
    """

    def __init__(self) -> None:
        self._lock = (
            threading.Lock()
        )  # used directly, because a condition is entered in Python code, which Ctrl-C may interrupt
        self._changed = threading.Condition(self._lock)
        self._unbound = 0
        self._lasting = 0

    @contextmanager
    def entered(self, binds: Callable[[], bool], *, lasting: bool = False) -> Generator[bool]:
        """Wait until the command may run. Yields whether it mounts ``.git``: what ``binds`` returns after the wait.

        Raise ToolRefused if a job that did not mount ``.git`` still runs.

        Args:
            lasting: It is a job.
        """
        unbound = 0
        try:
            with self._lock:
                self._changed.wait_for(lambda: self._unbound == self._lasting or not binds())
                bound = binds()
                if bound and self._lasting:
                    raise ToolRefused(
                        "a job runs that was started before .git existed, so .git cannot be guarded; end the job with "
                        "stop_job, and start it again if you need it"
                    )
                unbound = 1 - bound
                self._unbound += unbound
                self._lasting += unbound * lasting
            yield bound
        finally:
            with self._lock:
                self._unbound -= unbound
                self._lasting -= unbound * lasting
                self._changed.notify_all()
