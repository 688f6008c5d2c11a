"""Snapshots of a workspace, stored as git trees in a separate git directory outside the workspace.

Rule 1: Initial files are kept regardless of ``.gitignore``. Later files are kept unless ``.gitignore`` excludes them at
    that moment. As in git, a kept file stays kept until it is deleted.
Rule 2: A file is stored byte for byte with its executable bit, and a symlink as a link. Attributes of the workspace
    (line endings, filters, encodings, textconv) have no effect, and none of its content is executed.
Rule 3: Never kept: ``.git`` in any spelling, empty folders, times, other permissions, caches, installed dependencies
    (``.venv``, ``node_modules``), sockets and FIFOs.
Rule 4: For an overlay, a tree contains only the differences from the folder; deleted files are DELETED. The folder's
    versions of these files are stored once, as the base. Files that never differ are neither stored nor read.
Rule 5: Files that cannot be kept (too large, too many, unreadable, path too long) or must not be (they contain a
    secret) are listed in ``left_out``. If an earlier version was kept, it stays in the tree, so that the file counts as
    unknown rather than deleted.

The store survives a power loss up to the last ``sync``. Later objects may be missing, which git reports.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.core.strict_json import decode_json
from stackmem.foreign.files import read_regular
from stackmem.workspace.clip import shown_name

from .census import Census
from .durable import make_durable
from .git import git, git_into, store_environment
from .layer import Overlay
from .lent_folders import installed_packages
from .lower import FileKeeper, LowerFolder, changed_since, file_clock_ns
from .objects import DELETED, EXECUTABLE, FOLDER, REMOVED, Node, ObjectStore, alternates
from .walk import LeftOut, Seen, path_bytes

LARGEST_BYTES = 64 * 1024 * 1024  # maximum size of one file
STATE = "stackmem.json"
NOT_CHANGES = (".stackmem/in", ".stackmem/loop")
"""Folders for long inputs and loop results of a program: kept, but not part of the run's changes."""


class PathChange(Struct, frozen=True):
    """A path that differs between two trees."""

    path: str  # relative to the workspace, spelled by ``shown_name``
    kind: Literal["added", "modified", "deleted", "mode"]  # ``mode`` if only the executable bit differs
    before: str  # blob id of the old content (for a link: its target); empty if the path did not exist
    after: str  # blob id of the new content; empty if the path was deleted
    before_mode: str  # git's mode (``100644``, ``100755``, ``120000``); empty if the path did not exist
    after_mode: str  # the mode afterwards

    @property
    def executable(self) -> bool:
        return self.after_mode == EXECUTABLE


class _State(Struct, frozen=True):
    """Persistent state: which files are kept and which folders are left out."""

    tree: str
    leave_out: tuple[str, ...]
    room: int | None = None
    base: str = ""
    folder: str = ""
    began_ns: int = 0


class History:
    """The trees of one workspace. Only one process at a time may take snapshots."""

    def __init__(
        self,
        git_dir: Path,  # outside the workspace; created with its parents if missing
        work_tree: Path,  # path of the workspace on the host
        leave_out: tuple[str, ...] = (),
        largest_bytes: int = LARGEST_BYTES,  # larger files are left out
        overlay: Overlay | None = None,  # the overlay that forms the workspace; None for an ordinary folder
    ) -> None:
        """Open the store, creating it if necessary.

        ``leave_out`` are folders that are never scanned, relative to the workspace, spelled as ``CopyPlan.folders``. An
        existing store keeps its own list. Raise UsageError if git is not installed, and WorkspaceError if the store
        cannot be created or read.
        """
        self.left_out: tuple[LeftOut, ...] = ()  # what the last snapshot could not keep
        self.git_dir = git_dir  # path of the store
        self._work_tree = work_tree
        self._store = ObjectStore(git_dir)
        state = self._remembered()
        self._tree = self._forced = state.tree
        self._leave_out = tuple(dict.fromkeys((*state.leave_out, *leave_out)))
        self.over = overlay  # the overlay that forms the workspace, if any
        self._largest_bytes = largest_bytes
        self._withholds: Callable[[bytes], bool] = _withholds_nothing
        self._lower: LowerFolder | None = None
        self._base = state.base
        self._began_ns = state.began_ns
        self._census = Census(git_dir, work_tree, self._store, self._leave_out, largest_bytes, state.room)
        if overlay is not None:
            view = overlay.view
            self._census = Census(git_dir, overlay.upper, self._store, self._leave_out, largest_bytes, state.room, view)
            installed = {path_bytes(path) for path in self._leave_out}
            self._lower = LowerFolder(overlay.folder, overlay.hidden, overlay.upper, installed)
            self._lower.base = self.listed(state.base) if state.base else {}
            self._began_ns = state.began_ns or file_clock_ns()
        self._seen = {path: Seen(node) for path, node in self.listed(self._tree).items()} if self._tree else {}
        self._gone: set[bytes] = set()
        if self._lower is not None:
            self._lower.absent = frozenset(self._seen.keys() - self._lower.base.keys())

    @property
    def of_layer(self) -> bool:
        """Whether trees contain differences from a folder. Then snapshots require the overlay."""
        return bool(self._base)

    def withhold(self, holds_secret: Callable[[bytes], bool]) -> None:
        """Leave out files that contain a secret from now on. A kept earlier version stays in the tree."""
        self._census.withholds = self._withholds = holds_secret

    def snapshot(self) -> str:
        """Return the tree id of the current workspace. The id is unchanged if no kept file has changed.

        Raise WorkspaceError if the workspace cannot be opened, or the store cannot be written.
        """
        if self._lower is not None and self.over is not None:
            return self._snapshot_of_layer(self._lower, self.over)
        seen, self.left_out = self._census.take(self._seen, first=not self._tree)
        unchanged = self._tree and len(seen) == len(self._seen) and not _changed(self._seen, seen)
        if not unchanged:
            self._tree = self._store.add_folders((path, now.node) for path, now in seen.items())
            self._remember()
        self._seen = seen
        return self._tree

    def _snapshot_of_layer(self, lower: LowerFolder, overlay: Overlay) -> str:
        lower.look(self._store, self._largest_bytes, self._withholds)
        lower_files = {path: Seen(node) for path, node in lower.base.items()}
        self._seen, left_out = self._census.take({**lower_files, **self._seen}, first=False)
        self.left_out = (*left_out, *lower.left_out)
        self._gone -= self._seen.keys()
        self._gone |= {
            path for path in lower_files.keys() - self._seen.keys() - self._gone if not _is_file(overlay.view.fd, path)
        }
        changed = {path: now.node for path, now in self._seen.items() if lower.base.get(path) != now.node}
        tree = self._store.add_folders((changed | dict.fromkeys(self._gone, DELETED)).items())
        base = self._store.add_folders(lower.base.items())
        if (tree, base) != (self._tree, self._base):
            self._tree, self._base = tree, base
            self._remember()
        return tree

    def files(self, tree: str) -> dict[bytes, Node]:
        """Return all files of a tree by path. For an overlay, only files that any tree of the run changes."""
        nodes = self.listed(tree)
        if not self.of_layer:
            return nodes
        base = self.listed(self._base) if self._lower is None else self._lower.base
        return {path: node for path, node in (base | nodes).items() if node.mode != REMOVED}

    def base_files(self) -> dict[bytes, Node]:
        """Return the folder's versions of the files that the run changed in an overlay; empty without an overlay."""
        if self._lower is not None:
            return dict(self._lower.base)
        return self.listed(self._base) if self._base else {}

    def keep(self, content: bytes) -> str:
        """Store a file's content and return its id."""
        return self._store.add("blob", content)

    def keeper(self, root: int) -> FileKeeper:
        """Return a keeper that stores files of an open folder. The caller must close it."""
        return FileKeeper(root, self._store, self._largest_bytes, self._withholds)

    def trust_until(self, since: int) -> None:
        """See ``LowerFolder.trust_until``."""
        if self._lower is not None:
            self._lower.trust_until(since)

    def tree_of(self, files: Mapping[bytes, Node]) -> str:
        """Store files as a tree of this history, which for an overlay contains only differences from the folder."""
        base = self.base_files()
        changed = {path: node for path, node in files.items() if base.get(path) != node}
        return self._store.add_folders((changed | dict.fromkeys(base.keys() - files.keys(), DELETED)).items())

    def plain_tree(self, files: Mapping[bytes, Node]) -> str:
        """Store exactly these files as a tree, to be read with ``listed``."""
        return self._store.add_folders(files.items())

    def replaced(self, tree: str, nodes: Mapping[bytes, Node | None]) -> str:
        """Return a tree with other content at these paths; None means that the path does not exist."""
        entries = self.listed(tree)
        base = self.base_files()
        for path, node in nodes.items():
            entries.pop(path, None)
            if node is None and path in base:
                entries[path] = DELETED
            elif node is not None and base.get(path) != node:
                entries[path] = node
        return self._store.add_folders(entries.items())

    def installed_packages(self, folder: Path, patched: Iterable[str]) -> list[str]:
        """See ``lent_folders.installed_packages``; empty if the workspace is gone."""
        root = self.over.upper if self.over is not None else self._work_tree
        return [] if self.of_layer and self.over is None else installed_packages(root, folder, patched)

    def changed_meanwhile(self) -> tuple[str, ...]:
        """Return the names of files in the folder under an overlay that changed since the run began."""
        if self.over is None:
            return ()
        leave_out = {path_bytes(path) for path in self._leave_out}
        return changed_since(self.over.folder, self.over.hidden, self._began_ns, leave_out)

    def _complete_tree(self, tree: str) -> str:
        """Return the tree as git compares it. For an overlay, this adds the folder's versions where another tree
        differs.
        """
        return self._store.add_folders(self.files(tree).items()) if self.of_layer else tree

    def sync(self) -> None:
        """Make all trees so far survive a power loss. Raise WorkspaceError if the disk reports an error."""
        self._store.sync()
        if self._forced != self._tree:
            try:
                make_durable([os.fspath(self.git_dir / STATE)], self.git_dir)
            except OSError as error:
                raise WorkspaceError(
                    f"cannot sync {self.git_dir} to disk ({error.strerror}); choose another directory"
                ) from error
            self._forced = self._tree

    def write_patch(self, before: str, after: str, path: Path) -> None:
        """Write the patch between two trees in the format of ``git apply --binary``, without holding it in memory.

        The file is empty if the trees are equal. Raise WorkspaceError if one of the trees is not in the store. No file
        is left. Raise OSError if the file cannot be written.
        """
        form = ("-p", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", "--no-color")
        arguments = _compared(self._complete_tree(before), self._complete_tree(after), *form)
        git_into(path, *arguments, cwd=self.git_dir, environment=store_environment(self.git_dir))

    def changed(self, before: str, after: str) -> list[PathChange]:
        """Return the paths that differ, in git's order and that of the patch.

        Raise WorkspaceError if one of the trees is not in the store.
        """
        compared = _compared(self._complete_tree(before), self._complete_tree(after), "--raw", "--no-abbrev", "-z")
        fields = self._git(*compared).split(b"\0")
        return [_change(record.decode(), path) for record, path in zip(fields[0:-1:2], fields[1::2], strict=True)]

    def listed(self, tree: str) -> dict[bytes, Node]:
        """Return the files that a tree itself contains by path, including markers for files deleted in an overlay."""
        nodes: dict[bytes, Node] = {}
        for line in self._git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]:
            described, _, path = line.partition(b"\t")
            mode, _, name = described.decode().split()
            nodes[path] = Node(mode, name)
        return nodes

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
            fresh.unlink(missing_ok=True)  # it may be a FIFO or a link
            with fresh.open("xb") as file:
                file.write(msgspec.json.encode(state))
            os.replace(fresh, path)  # noqa: PTH105
        except OSError as error:
            raise WorkspaceError(
                f"cannot write {path} ({error.strerror}); free disk space, or choose another directory"
            ) from error


def _withholds_nothing(_: bytes) -> bool:
    return False


def folder_under(git_dir: Path) -> Path | None:
    """Return the folder under a history's overlay, or None without an overlay or history."""
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
    """Return whether a path has different content now. Files that were not read again are the same object."""
    others = [path for path, seen in now.items() if before.get(path) is not seen]
    return any(path not in before or before[path].node != now[path].node for path in others)


def _compared(before: str, after: str, *form: str) -> tuple[str, ...]:
    """Return the git arguments for comparing two trees. In a bare repository, no workspace attributes apply."""
    safe = ("--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    trees = ("--end-of-options", before, after, "--", ".", *(f":(exclude){folder}" for folder in NOT_CHANGES))
    return "diff-tree", "-r", *safe, *form, *trees


def _change(record: str, path: bytes) -> PathChange:
    """Parse ``:OLD_MODE NEW_MODE OLD_ID NEW_ID LETTER``; zeros mean that the path is missing."""
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
    """Create the git directory ``child`` as a history at ``tree``, which is in ``parent``.

    Paths between them are relative, so that they can be moved together.

    Raise WorkspaceError if the parent has no history, or the child cannot be written.
    """
    try:
        state = decode_json(read_regular(parent / STATE), dict[str, object])
    except (OSError, msgspec.DecodeError) as error:
        raise WorkspaceError(f"the history {parent} cannot be read ({error}); restore the run's history.git") from error
    objects = child / "objects"
    # git follows relative alternates only one level deep
    sources = [os.fspath(parent / "objects"), *alternates(parent)]
    lines = [os.path.relpath(source, objects) for source in dict.fromkeys(sources)]
    try:
        (objects / "info").mkdir(parents=True)
        (objects / "info" / "alternates").write_bytes(b"".join(os.fsencode(line) + b"\n" for line in lines))
        (child / STATE).write_bytes(msgspec.json.encode({**state, "tree": tree}))
    except OSError as error:
        raise WorkspaceError(
            f"the history {child} cannot be created ({error.strerror}); free disk space there"
        ) from error
