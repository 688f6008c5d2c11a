"""What a workspace held at each moment, kept as git trees in a git directory of our own, outside the workspace.

Rule 1: what the workspace starts with is kept, whatever its ``.gitignore`` says; what appears later is kept unless
    ``.gitignore`` leaves it out at that moment. What was kept once stays kept until it is deleted, as in git.
Rule 2: a file is kept byte for byte, with its executable bit, and a symlink as a link. Attributes of the workspace
    (line ends, filters, encodings, textconv) change nothing, and nothing that it holds is executed.
Rule 3: never kept: ``.git`` in any spelling, empty folders, times, other permissions, caches, installed dependencies
    (``.venv``, ``node_modules``), sockets and FIFOs.
Rule 4: over a layer a tree holds the differences from the folder alone, and GONE where a file of it is no more. What
    the folder held there is kept once, as the base; of what never differed nothing is kept, and nothing read.
Rule 5: what cannot be kept (too large, too much, unreadable, a path too long), or must not be (it holds a secret), is
    named in ``left_out``. If an earlier version was kept, that one stays in the tree, so that the change is unknown
    rather than a deletion.

The store survives a power cut up to the last ``sync``; of what came later, objects may be missing, which git names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from stackmem.core.strict_json import decode_json
from stackmem.errors import WorkspaceError
from stackmem.foreign.files import read_regular
from stackmem.workspace.clip import shown_name

from .census import Census
from .durable import make_durable
from .git import git, git_into, store_environment
from .layer import Overlay
from .lower import LowerFolder, changed_since, file_clock_ns
from .objects import EXECUTABLE, FOLDER, GONE, REMOVED, Node, ObjectStore, alternates
from .walk import LeftOut, Seen, path_bytes

LARGEST_BYTES = 64 * 1024 * 1024  # of one file
STATE = "stackmem.json"
NOT_CHANGES = (".stackmem/in", ".stackmem/loop")
"""Where a program's long inputs and the long results of its loops lie: kept, and no part of what the run changed."""


class PathChange(Struct, frozen=True):
    """One path that differs between two trees."""

    path: str  # relative to the workspace, spelled as ``shown_name`` does
    kind: Literal["added", "modified", "deleted", "mode"]  # ``mode`` where the executable bit alone differs
    before: str  # blob id of the old content (of a link: of its target); empty where the path was not there
    after: str  # the same of the new content; empty where the path is gone
    before_mode: str  # as git spells it (``100644``, ``100755``, ``120000``); empty where the path was not there
    after_mode: str  # the same, afterwards

    @property
    def executable(self) -> bool:
        return self.after_mode == EXECUTABLE


class _State(Struct, frozen=True):
    """What must outlive the process: which files are kept, and which folders are not."""

    tree: str
    leave_out: tuple[str, ...]
    room: int | None = None
    base: str = ""
    folder: str = ""
    began_ns: int = 0


class History:
    """The trees of one workspace. One process at a time may take snapshots."""

    def __init__(
        self,
        git_dir: Path,  # outside the workspace; made with its parents where it is missing
        work_tree: Path,  # the workspace, as the host knows it
        leave_out: tuple[str, ...] = (),
        largest_bytes: int = LARGEST_BYTES,  # a larger file is left out
        over: Overlay | None = None,  # the layer that the workspace is; None where it is a folder of its own
    ) -> None:
        """Open the store, or make it."""
        self.left_out: tuple[LeftOut, ...] = ()  # what the last snapshot could not keep, by path
        self.git_dir = git_dir  # where the store is
        self._work_tree = work_tree
        self._store = ObjectStore(git_dir)
        state = self._remembered()
        self._tree = self._forced = state.tree
        self._leave_out = tuple(dict.fromkeys((*state.leave_out, *leave_out)))
        self.over = over  # the layer that the workspace is, where it is one
        self._largest_bytes = largest_bytes
        self._withholds: Callable[[bytes], bool] = _withholds_nothing
        self._lower: LowerFolder | None = None
        self._base = state.base
        self._began_ns = state.began_ns
        self._census = Census(git_dir, work_tree, self._store, self._leave_out, largest_bytes, state.room)
        if over is not None:
            view = over.view
            self._census = Census(git_dir, over.upper, self._store, self._leave_out, largest_bytes, state.room, view)
            installed = {path_bytes(path) for path in self._leave_out}
            self._lower = LowerFolder(over.folder, over.hidden, over.upper, installed)
            self._lower.base = self.listed(state.base) if state.base else {}
            self._began_ns = state.began_ns or file_clock_ns()
        self._seen = {path: Seen(node) for path, node in self.listed(self._tree).items()} if self._tree else {}
        self._gone: set[bytes] = set()
        if self._lower is not None:
            self._lower.absent = frozenset(self._seen.keys() - self._lower.base.keys())

    @property
    def of_layer(self) -> bool:
        """Whether its trees hold the differences from a folder; without the layer, no snapshot can be taken then."""
        return bool(self._base)

    def withhold(self, holds_secret: Callable[[bytes], bool]) -> None:
        """From now on leave out what holds a secret; an earlier version that was kept stays in the tree."""
        self._census.withholds = self._withholds = holds_secret

    def snapshot(self) -> str:
        """The tree id of the workspace now; the same id where nothing that is kept has changed."""
        if self._lower is not None and self.over is not None:
            return self._snapshot_of_layer(self._lower, self.over)
        seen, self.left_out = self._census.take(self._seen, first=not self._tree)
        same = self._tree and len(seen) == len(self._seen) and not _changed(self._seen, seen)
        if not same:
            self._tree = self._store.add_folders((path, now.node) for path, now in seen.items())
            self._remember()
        self._seen = seen
        return self._tree

    def _snapshot_of_layer(self, lower: LowerFolder, over: Overlay) -> str:
        lower.look(self._store, self._largest_bytes, self._withholds)
        known = {path: Seen(node) for path, node in lower.base.items()}
        self._seen, left_out = self._census.take({**known, **self._seen}, first=False)
        self.left_out = (*left_out, *lower.left_out)
        self._gone -= self._seen.keys()
        self._gone |= {
            path for path in known.keys() - self._seen.keys() - self._gone if not _is_file(over.view.fd, path)
        }
        changed = {path: now.node for path, now in self._seen.items() if lower.base.get(path) != now.node}
        tree = self._store.add_folders((changed | dict.fromkeys(self._gone, GONE)).items())
        base = self._store.add_folders(lower.base.items())
        if (tree, base) != (self._tree, self._base):
            self._tree, self._base = tree, base
            self._remember()
        return tree

    def files(self, tree: str) -> dict[bytes, Node]:
        """Every file of a tree by its path; of a layer, those that any tree of the run changes."""
        held = self.listed(tree)
        if not self.of_layer:
            return held
        base = self.listed(self._base) if self._lower is None else self._lower.base
        return {path: node for path, node in (base | held).items() if node.mode != REMOVED}

    def base_files(self) -> dict[bytes, Node]:
        """What the folder under a layer held where a tree of the run differs from it; empty without a layer."""
        return self.listed(self._base) if self._base else {}

    def changed_meanwhile(self) -> tuple[str, ...]:
        """What has changed in the folder under a layer since the run began, by name."""
        if self.over is None:
            return ()
        leave_out = {path_bytes(path) for path in self._leave_out}
        return changed_since(self.over.folder, self.over.hidden, self._began_ns, leave_out)

    def _whole(self, tree: str) -> str:
        """The tree as git compares it: of a layer, with what the folder held where another tree differs."""
        return self._store.add_folders(self.files(tree).items()) if self.of_layer else tree

    def sync(self) -> None:
        """Make every tree so far survive a power loss."""
        self._store.sync()
        if self._forced != self._tree:
            try:
                make_durable([os.fspath(self.git_dir / STATE)], self.git_dir)
            except OSError as error:
                raise WorkspaceError(
                    f"cannot force {self.git_dir} to the disk ({error.strerror}); choose another place"
                ) from error
            self._forced = self._tree

    def write_patch(self, before: str, after: str, place: Path) -> None:
        """Write what leads from one tree to the other, as ``git apply --binary`` takes it; never held as a whole.

        The file is empty where nothing differs.
        """
        form = ("-p", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", "--no-color")
        arguments = _compared(self._whole(before), self._whole(after), *form)
        git_into(place, *arguments, cwd=self.git_dir, environment=store_environment(self.git_dir))

    def changed(self, before: str, after: str) -> list[PathChange]:
        """The paths that differ, sorted as git sorts them, in the order of the patch."""
        compared = _compared(self._whole(before), self._whole(after), "--raw", "--no-abbrev", "-z")
        fields = self._git(*compared).split(b"\0")
        return [_change(record.decode(), path) for record, path in zip(fields[0:-1:2], fields[1::2], strict=True)]

    def listed(self, tree: str) -> dict[bytes, Node]:
        """Every file that a tree itself has by its path; of a layer, with marks for those that it removes."""
        found: dict[bytes, Node] = {}
        for line in self._git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
            described, _, path = line.partition(b"\t")
            mode, _, name = described.decode().split()
            found[path] = Node(mode, name)
        return found

    def _git(self, *arguments: str) -> bytes:
        return git(*arguments, cwd=self.git_dir, environment=store_environment(self.git_dir))

    def _remembered(self) -> _State:
        path = self.git_dir / STATE
        try:
            return decode_json(read_regular(path), _State)
        except FileNotFoundError:
            return _State("", ())
        except (OSError, msgspec.MsgspecError) as error:
            raise WorkspaceError(
                f"the history in {shown_name(str(self.git_dir))} cannot be read ({error}); start a new run"
            ) from error

    def _remember(self) -> None:
        path = self.git_dir / STATE
        fresh = path.with_suffix(".new")
        try:
            folder = str(self.over.folder) if self.over else ""
            state = _State(self._tree, self._leave_out, self._census.room, self._base, folder, self._began_ns)
            fresh.unlink(missing_ok=True)  # whatever is there, also a FIFO or a link that leads elsewhere
            with fresh.open("xb") as file:
                file.write(msgspec.json.encode(state))
            os.replace(fresh, path)  # noqa: PTH105
        except OSError as error:
            raise WorkspaceError(
                f"cannot write {path} ({error.strerror}); make room, or choose another place"
            ) from error


def _withholds_nothing(_: bytes) -> bool:
    return False


def folder_under(git_dir: Path) -> Path | None:
    """The folder that a history's workspace is a layer over; None where it is no layer, or there is no history."""
    try:
        folder = msgspec.json.decode(read_regular(git_dir / STATE), type=_State).folder
    except (OSError, msgspec.MsgspecError):
        return None
    return Path(folder) if folder else None


def _is_file(root: int, path: bytes) -> bool:
    try:
        mode = os.stat(path, dir_fd=root, follow_symlinks=False).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _changed(before: dict[bytes, Seen], now: dict[bytes, Seen]) -> bool:
    """Whether a path holds something else now; what was not read again is the same object."""
    others = [path for path, seen in now.items() if before.get(path) is not seen]
    return any(path not in before or before[path].node != now[path].node for path in others)


def _compared(before: str, after: str, *form: str) -> tuple[str, ...]:
    """How git is asked for what differs. Two trees in a bare repository are compared by no workspace's attributes."""
    safe = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    trees = ("--end-of-options", before, after, "--", ".", *(f":(exclude){folder}" for folder in NOT_CHANGES))
    return "diff-tree", "-r", *safe, *form, *trees


def _change(record: str, path: bytes) -> PathChange:
    """Read ``:OLD_MODE NEW_MODE OLD_ID NEW_ID LETTER``; zeros stand for nothing."""
    before_mode, after_mode, before, after, letter = record.removeprefix(":").split()
    kind: Literal["added", "modified", "deleted", "mode"]
    if letter == "A":
        kind = "added"
    elif letter == "D":
        kind = "deleted"
    else:
        kind = "mode" if before == after and FOLDER not in {before_mode, after_mode} else "modified"
    return PathChange(
        path=shown_name(path),
        kind=kind,
        before=before.strip("0") and before,
        after=after.strip("0") and after,
        before_mode=before_mode.strip("0") and before_mode,
        after_mode=after_mode.strip("0") and after_mode,
    )


def share(parent: Path, child: Path, tree: str) -> None:
    """Make the git directory ``child`` a history that stands at ``tree``, which ``parent`` holds.

    Paths between them are relative, so that the two can be moved together.
    """
    try:
        state = decode_json(read_regular(parent / STATE), dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        raise WorkspaceError(
            f"the history {parent} cannot be read ({error}); bring back the run's history.git"
        ) from error
    objects = child / "objects"
    sources = [os.fspath(parent / "objects"), *alternates(parent)]  # git follows relative ones one level deep
    lines = [os.path.relpath(source, objects) for source in dict.fromkeys(sources)]
    try:
        (objects / "info").mkdir(parents=True)
        (objects / "info" / "alternates").write_bytes(b"".join(os.fsencode(line) + b"\n" for line in lines))
        (child / STATE).write_bytes(msgspec.json.encode({**state, "tree": tree}))
    except OSError as error:
        raise WorkspaceError(f"the history {child} cannot be made ({error.strerror}); make room there") from error
