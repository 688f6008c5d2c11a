"""Creates the git repository in a copy, for ``git log``, ``diff`` and ``blame``, from a pack that we build ourselves.

Rule 1: It contains what HEAD of the user's repository reaches, and is independent of it afterwards.
Rule 2: Blobs that the copy excludes by name or as ignored, and blobs with a secret, are missing; git reads a
    placeholder instead.
Rule 3: It has no remotes or hooks, and from the user's configuration only the settings for line endings and modes.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from subprocess import TimeoutExpired
from sys import intern

from msgspec import Struct

from stackmem.core.errors import WorkspaceError
from stackmem.foreign.files import bounded_blocks, open_regular
from stackmem.workspace.secrets import Scrubber

from .following.git_state import DELETED, GitState, read_state
from .git import USER_GIT_SECONDS, git, store_environment, user_git_environment
from .ignored import IgnoreRules
from .inner_packs import InnerGit, blobs_among, pack, pack_again, packed_before, read_packed
from .origin import Origin
from .pack_cache import PackCache, PackedFrom
from .selection import never_copied

MAX_COMMITS = 100_000
FEWER_COMMITS = 100
"""Limit if listing all commits takes too long."""
LIST_SECONDS = 20.0
_MAX_INDEX_BYTES = 256 * 1024 * 1024
_MISSING = "?"
"""Prefix of the name of an object that the user's repository lacks."""
_WITHHELD = b"(withheld)\n"
_LINK = b"160000"  # mode of a submodule
_KEPT_SETTINGS = {
    "core.autocrlf": ("true", "false", "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.filemode": ("true", "false"),
}


class _Tree:
    """Yields path, mode and object of all tracked files, parsed on the fly to save memory for large repositories."""

    def __init__(self, inner: InnerGit) -> None:
        self._listed = inner.ask("ls-tree", "-r", "-z", "--full-tree", inner.origin.head)

    def __iter__(self) -> Iterator[tuple[bytes, bytes, str]]:
        start = 0
        while (end := self._listed.find(b"\0", start)) >= 0:
            described, _, path = self._listed[start:end].partition(b"\t")
            mode, _, name = described.split()
            yield path, mode, name.decode()
            start = end + 1


class InnerRepository(Struct, frozen=True):
    """The part of a repository that a run received."""

    head: str  # the commit of HEAD; empty if there is none
    commits: int = 0  # number of readable commits
    shortened: bool = False  # whether there were more
    withheld: int = 0  # number of excluded blobs
    state: str = ""  # digest of what was staged or interrupted in the user's repository


def make_repository(
    origin: Origin,
    into: Path,
    secrets: Scrubber,
    cache: PackCache,
    most_commits: int = MAX_COMMITS,
    seconds: float = LIST_SECONDS,
) -> InnerRepository:
    """Create the git directory ``into`` at the commit of ``origin``.

    ``seconds`` is the time limit for listing its objects. If it is exceeded, only the last commits are copied. Raise
    WorkspaceError if ``origin`` lacks a commit or is broken, or ``into`` cannot be written.
    """
    try:
        _begin(origin, into)
        if not origin.head:
            return InnerRepository("")
        return _filled(InnerGit(origin, into), (secrets, cache), most_commits, seconds)
    except OSError as error:
        raise WorkspaceError(
            f"the repository {into} cannot be created ({error.strerror}); free disk space there"
        ) from error


def make_addition(origin: Origin, into: Path, secrets: Scrubber, old: str) -> InnerRepository:
    """Create a git directory with what a complete repository at the commit ``old`` lacks. Also raises ``OSError``."""
    _begin(origin, into)
    inner, state = InnerGit(origin, into, partial=True), read_state(origin)
    revisions = "\n".join((origin.head, *state.commits, f"^{old}" if old else "", ""))
    listed = inner.ask("rev-list", "--objects", "--missing=print", "--stdin", stdin=revisions.encode())
    objects = _paths_of(listed) | _staged_objects(state)
    tree = _Tree(inner)
    withheld = _pack(inner, objects, _hidden_objects(inner, objects, tree), secrets)
    commits = {name for name, path in objects.items() if not path}  # and root trees, which no tag names
    _write_refs(inner, withheld, state.rebased | origin.tags(commits))
    for name in withheld.intersection(name for _, _, name in tree):
        _write_stand_in(into / "objects" / name[:2] / name[2:])
    _write_index(inner, tree)
    write_state(inner, state, withheld, secrets)
    return InnerRepository(origin.head, withheld=len(withheld), state=state.fingerprint)


def _begin(origin: Origin, into: Path) -> None:
    for name in ("objects/pack", "refs/heads", "hooks", "info"):
        (into / name).mkdir(parents=True)
    (into / "config").write_text(_configuration(origin))
    head = f"ref: {origin.branch}" if origin.branch else origin.head
    (into / "HEAD").write_bytes(os.fsencode(head) + b"\n")


def _filled(
    inner: InnerGit, services: tuple[Scrubber, PackCache], most_commits: int, seconds: float
) -> InnerRepository:
    secrets, cache = services
    origin, into = inner.origin, inner.path
    ends = origin.shallow()
    _write_lines(into / "shallow", ends)
    state = read_state(origin)
    commits, cut = _commits(inner, most_commits, state)
    try:
        objects = _objects(inner, commits | cut, seconds)
    except WorkspaceError as error:
        if not isinstance(error.__cause__, TimeoutExpired):
            raise
        commits, cut = _commits(inner, FEWER_COMMITS, state)
        objects = _objects(inner, commits | cut, USER_GIT_SECONDS)
    objects = _staged_objects(state) | objects
    _write_lines(into / "shallow", (ends | cut) & (commits | cut))
    tree = _Tree(inner)
    excluded = _hidden_objects(inner, objects, tree)
    key = _key(origin, objects, excluded, secrets)
    packs = into / "objects" / "pack"
    withheld = cache.take(key, packs)
    if withheld is None:
        made_from = _origin_key(origin, secrets)
        there = packed_before(inner, made_from, cache, objects, excluded)
        new = {name: path for name, path in objects.items() if name not in there} if there else objects
        withheld = _pack(inner, new, excluded, secrets)
        cache.keep(key, packs, PackedFrom(made_from, withheld))
    _write_refs(inner, withheld, state.rebased | origin.tags(commits))
    for name in withheld.intersection(name for _, _, name in tree):
        _write_stand_in(into / "objects" / name[:2] / name[2:])
    like = _index_key(origin)
    if not cache.take_index(key, like, into / "index"):
        _write_index(inner, tree)
        cache.keep_index(key, like, into / "index")
    write_state(inner, state, withheld, secrets)
    return InnerRepository(origin.head, len(commits | cut), bool(cut), len(withheld), state.fingerprint)


def write_state(inner: InnerGit, state: GitState, withheld: Collection[str], secrets: Scrubber) -> None:
    """Bring what is staged, and an interrupted operation, to a repository with the index of HEAD."""
    staged = [each for each in state.staged if not _hidden(each.path) and each.name not in withheld]
    added = [path for path in state.added if not _hidden(path)]
    if staged:
        none = "0" * len(inner.origin.head)
        lines = [f"0 {none}\t".encode() + path for path in dict.fromkeys(each.path for each in staged if each.stage)]
        lines += [f"{each.mode} {each.name} {each.stage}\t".encode() + each.path for each in staged]
        inner.alone("update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines))
    if added:
        stdin = b"".join(path + b"\0" for path in added)
        with suppress(WorkspaceError):  # a file is gone already
            inner.alone("add", "-N", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=stdin)
    for name, content in state.files.items():
        if not secrets.held_in(content):
            (inner.path / name).parent.mkdir(exist_ok=True)
            (inner.path / name).write_bytes(content)


def _configuration(origin: Origin) -> str:
    long = len(origin.head) == 64
    lines = [
        "[core]", f"repositoryformatversion = {int(long)}", "bare = false", "logAllRefUpdates = true",
        "checkStat = minimal",  # a copy has different inodes than the folder whose index it reuses
        "hooksPath = /dev/null", "fsmonitor = false", "untrackedCache = false",
        *(f"{name.partition('.')[2]} = {value}" for name, value in _settings(origin).items()),
        "[gc]", "auto = 0", "[maintenance]", "auto = false",
        "[user]", "name = agent", "email = agent@stackmem.invalid",
        *(["[extensions]", "objectFormat = sha256"] if long else []),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _settings(origin: Origin) -> dict[str, str]:
    """Return the user's settings for line endings and modes; without them, unchanged files would count as changed."""
    try:
        listed = git(
            "config", "-z", "--get-regexp", r"^core\.(autocrlf|eol|filemode)$", cwd=origin.root,
            environment=user_git_environment() | {"GIT_DIR": os.fspath(origin.git_dir)}, seconds=USER_GIT_SECONDS,
        )  # fmt: skip
    except WorkspaceError:  # exit 1: no such setting
        return {}
    pairs = (pair.decode("utf-8", "replace").partition("\n") for pair in listed.split(b"\0")[:-1])
    return {name: value for name, _, value in pairs if value in _KEPT_SETTINGS[name]}


def _commits(inner: InnerGit, most: int, state: GitState) -> tuple[set[str], set[str]]:
    """Return the latest commits, at most ``most``, and their parents beyond, where the history is cut."""
    lines = (
        inner.ask("rev-list", "--parents", f"--max-count={most}", inner.origin.head, *state.commits)
        .decode()
        .splitlines()
    )
    commits = {line[: line.find(" ")] if " " in line else line for line in lines}
    return commits, {parent for line in lines for parent in line.split()[1:]} - commits


def _objects(inner: InnerGit, commits: set[str], seconds: float) -> dict[str, bytes]:
    """Return all objects of these commits with a path, without one for commits. Missing objects have the prefix
    ``?``.
    """
    arguments = ("rev-list", "--objects", "--no-walk", "--missing=print", "--stdin")
    listed = inner.ask(*arguments, stdin="\n".join(sorted(commits)).encode() + b"\n", seconds=seconds)
    return _paths_of(listed)


def _staged_objects(state: GitState) -> dict[str, bytes]:
    return {each.name: each.path for each in state.staged if each.mode not in (DELETED, _LINK.decode())}


def _paths_of(listed: bytes) -> dict[str, bytes]:
    paths = {}
    for line in BytesIO(listed):
        name, _, path = line.rstrip(b"\n").partition(b" ")
        paths[intern(name.decode())] = path
    return paths


def _hidden_objects(inner: InnerGit, objects: dict[str, bytes], tree: _Tree) -> set[str]:
    """Return the objects that a copy of the folder would exclude by path."""
    # An empty .env has the same blob as any empty file, so a blob with a visible path stays visible.
    seen = {intern(name) for path, _, name in tree if not _hidden(path)}
    older = {name: path for name, path in objects.items() if path and name not in seen}
    paths = {path for path in older.values() if not _hidden(path)}
    ignored = _ignored(inner, paths.difference(path for path, _, _ in tree))
    return {name for name, path in older.items() if _hidden(path) or path in ignored}


def _key(origin: Origin, objects: dict[str, bytes], excluded: set[str], secrets: Scrubber) -> str:
    """Return the cache key of the pack: a digest of everything it depends on."""
    return _hashed((_origin_key(origin, secrets), *sorted(excluded), "", *sorted(objects)))


def _origin_key(origin: Origin, secrets: Scrubber) -> str:
    """Return the common key of all packs of a repository: its path and the secrets that are excluded."""
    return _hashed((os.fspath(origin.common), secrets.fingerprint))


def _hashed(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for number, part in enumerate(parts):  # one at a time, because there is one per object
        digest.update(b"\n" * bool(number) + part.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _index_key(origin: Origin) -> tuple[int, int]:
    """Return size and time of the index in the user's repository, or zeros."""
    try:
        status = (origin.git_dir / "index").lstat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _pack(inner: InnerGit, objects: dict[str, bytes], excluded: set[str], secrets: Scrubber) -> frozenset[str]:
    """Pack the objects that a run may see. Returns the other blobs, and missing ones."""
    missing = {name.removeprefix(_MISSING) for name in objects if name.startswith(_MISSING)}
    hidden = blobs_among(inner, excluded.intersection(objects).difference(f"{_MISSING}{name}" for name in missing))
    names = [name for name in objects if name not in hidden and not name.startswith(_MISSING)]
    if names:
        packs = pack(inner, names)
        if secret := read_packed(inner, names, secrets.held_in):
            pack_again(inner, [name for name in names if name not in secret], packs)
            hidden |= secret
    return frozenset(missing | hidden)


def _hidden(path: bytes) -> bool:
    dotted = path[:1] == b"." or b"/." in path  # fast path: excluded names all start with a dot
    return dotted and any(never_copied(name) for name in path.split(b"/"))


def _ignored(inner: InnerGit, paths: set[bytes]) -> set[bytes]:
    """Return the formerly tracked paths that the work tree's rules exclude from a copy now."""
    root = os.fsencode(inner.origin.root)
    real: dict[bytes, bool] = {b"": True}

    def is_real(folder: bytes) -> bool:
        if folder not in real:
            parent = folder.rpartition(b"/")[0]
            real[folder] = is_real(parent) and not Path(os.fsdecode(root + b"/" + folder)).is_symlink()
        return real[folder]

    rules = IgnoreRules(inner.path, inner.origin.root)
    try:  # git rejects paths behind a symlink
        return rules.ignored(sorted(path for path in paths if is_real(path.rpartition(b"/")[0])))
    except TimeoutError as error:
        raise WorkspaceError(f"the rules of {inner.origin.root}/.gitignore take too long ({error})") from error
    finally:
        rules.close()


def _write_refs(inner: InnerGit, withheld: frozenset[str], tags: dict[str, str]) -> None:
    """Write the branch, the tags, and a replacement text for every excluded blob."""
    refs = {os.fsencode(name): commit for name, commit in tags.items()}
    if inner.origin.branch:
        refs[os.fsencode(inner.origin.branch)] = inner.origin.head
    if withheld:
        stand_in = git(
            "hash-object", "-w", "--stdin", cwd=inner.path, environment=store_environment(inner.path), stdin=_WITHHELD
        )
        refs |= {f"refs/replace/{name}".encode(): stand_in.decode().strip() for name in withheld}
    lines = [name.encode() + b" " + ref + b"\n" for ref, name in sorted(refs.items())]
    (inner.path / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + b"".join(lines))


def _write_stand_in(path: Path) -> None:
    """Write a stand-in for an excluded object that HEAD tracks: ``git commit`` requires that it exists, without
    checking its id.
    """
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(b"blob %d\0%s" % (len(_WITHHELD), _WITHHELD)))


def _write_index(inner: InnerGit, tree: _Tree) -> None:
    """Write the index of HEAD. Reusing the user's index saves git from reading all unchanged files."""
    index = inner.path / "index"
    try:
        _copy_index(inner.origin.git_dir / "index", index)
        inner.alone("read-tree", "--reset", "-i", inner.origin.head)
    except (OSError, WorkspaceError):
        with suppress(FileNotFoundError):
            index.unlink()
        inner.alone("read-tree", inner.origin.head)
    hidden = {path for path, mode, _ in tree if mode == _LINK or _hidden(path)}
    if any(path.rpartition(b"/")[2] == b".gitattributes" for path, _, _ in tree):
        hidden |= _filtered(inner, [path for path, mode, _ in tree if mode != _LINK])
    if hidden:
        inner.alone("update-index", "--skip-worktree", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in hidden))


def _copy_index(source: Path, target: Path) -> None:
    with open_regular(source, follow=False) as file, target.open("xb") as copy:
        copy.writelines(bounded_blocks(file, _MAX_INDEX_BYTES))


def _filtered(inner: InnerGit, paths: list[bytes]) -> set[bytes]:
    """Return paths whose content is produced by a filter, such as LFS; they would otherwise count as changed."""
    answer = inner.alone("check-attr", "-z", "--stdin", "filter", stdin=b"".join(path + b"\0" for path in paths))
    fields = answer.split(b"\0")[:-1]
    pairs = zip(fields[::3], fields[2::3], strict=True)
    return {path for path, value in pairs if value not in (b"unspecified", b"unset")}


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in sorted(lines))
    if text:
        path.write_text(text)
    else:
        path.unlink(missing_ok=True)
