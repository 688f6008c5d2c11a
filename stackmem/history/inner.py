"""A repository of the copy's own, in which ``git log``, ``diff`` and ``blame`` work: a pack of ours and nothing else.

Rule 1: it holds what HEAD of the person's repository reaches, and borrows nothing from there once it is made.
Rule 2: blobs that the copy leaves out by name or as ignored, and those that hold a secret, are absent; what git reads
    in their place says so.
Rule 3: it has no remote, no hook, and none of the person's configuration but how line ends and modes are read.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from subprocess import TimeoutExpired
from sys import intern

from msgspec import Struct

from stackmem.errors import WorkspaceError
from stackmem.foreign.files import bounded_blocks, open_regular
from stackmem.workspace.secrets import Scrubber

from .git import HER_SECONDS, git, git_stream, her_environment, store_environment
from .ignored import IgnoreRules
from .inner_packs import InnerGit, pack, packed_before
from .origin import Origin
from .pack_cache import PackCache, PackedFrom
from .selection import never_copied

MOST_COMMITS = 20_000
FEWER_COMMITS = 100
"""Where all of them take too long to be listed."""
LIST_SECONDS = 20.0
_MOST_SEARCHED_BYTES = 64 * 1024 * 1024  # of one blob; what cannot be searched for secrets is absent
_MOST_INDEX_BYTES = 256 * 1024 * 1024
_BATCH_BYTES = 1024 * 1024
_MISSING = "?"
"""Stands before the name of an object that the other repository does not have."""
_WITHHELD = b"(withheld)\n"
_LINK = b"160000"  # the mode of a submodule
_KEPT_SETTINGS = {
    "core.autocrlf": ("true", "false", "input"),
    "core.eol": ("lf", "crlf", "native"),
    "core.filemode": ("true", "false"),
}


class _Tree:
    """Path, mode and object of everything that a commit tracks; of a large repository they are not kept apart."""

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
    """What a run was given of a repository."""

    head: str  # the commit at which it stood; empty where there was none
    commits: int = 0  # how many commits can be read
    shortened: bool = False  # there were more
    withheld: int = 0  # how many blobs are absent


def make_repository(
    origin: Origin,
    into: Path,
    secrets: Scrubber,
    cache: PackCache,
    most_commits: int = MOST_COMMITS,
    seconds: float = LIST_SECONDS,
) -> InnerRepository:
    """Make the git directory ``into``, which stands at the commit of ``origin``."""
    try:
        for name in ("objects/pack", "refs/heads", "hooks", "info"):
            (into / name).mkdir(parents=True)
        (into / "config").write_text(_configuration(origin))
        head = f"ref: {origin.branch}" if origin.branch else origin.head
        (into / "HEAD").write_bytes(os.fsencode(head) + b"\n")
        if not origin.head:
            return InnerRepository("")
        return _filled(InnerGit(origin, into), (secrets, cache), most_commits, seconds)
    except OSError as error:
        raise WorkspaceError(f"the repository {into} cannot be made ({error.strerror}); make room there") from error


def _filled(inner: InnerGit, given: tuple[Scrubber, PackCache], most_commits: int, seconds: float) -> InnerRepository:
    secrets, cache = given
    origin, into = inner.origin, inner.path
    ends = origin.shallow()
    _write_lines(into / "shallow", ends)
    commits, cut = _commits(inner, most_commits)
    try:
        objects = _objects(inner, commits | cut, seconds)
    except WorkspaceError as error:
        if not isinstance(error.__cause__, TimeoutExpired):
            raise
        commits, cut = _commits(inner, FEWER_COMMITS)
        objects = _objects(inner, commits | cut, HER_SECONDS)
    _write_lines(into / "shallow", (ends | cut) & (commits | cut))
    tree = _Tree(inner)
    unseen = _unseen(inner, objects, tree)
    key = _key(origin, objects, unseen, secrets)
    packs = into / "objects" / "pack"
    withheld = cache.take(key, packs)
    if withheld is None:
        made_from = _origin_key(origin, secrets)
        there = packed_before(inner, made_from, cache, objects, unseen)
        new = {name: path for name, path in objects.items() if name not in there} if there else objects
        withheld = _withheld(inner, new, unseen, secrets)
        pack(inner, [name for name in new if name not in withheld and not name.startswith(_MISSING)])
        cache.keep(key, packs, PackedFrom(made_from, withheld))
    _write_refs(inner, withheld, origin.tags(commits))
    for name in withheld.intersection(name for _, _, name in tree):
        _write_stand_in(into / "objects" / name[:2] / name[2:])
    like = _index_key(origin)
    if not cache.take_index(key, like, into / "index"):
        _write_index(inner, tree)
        cache.keep_index(key, like, into / "index")
    return InnerRepository(origin.head, len(commits | cut), bool(cut), len(withheld))


def _configuration(origin: Origin) -> str:
    long = len(origin.head) == 64
    lines = [
        "[core]", f"repositoryformatversion = {int(long)}", "bare = false", "logAllRefUpdates = true",
        "checkStat = minimal",  # a copy has other inodes than the folder, whose index is taken over
        "hooksPath = /dev/null", "fsmonitor = false", "untrackedCache = false",
        *(f"{name.partition('.')[2]} = {value}" for name, value in _settings(origin).items()),
        "[gc]", "auto = 0", "[maintenance]", "auto = false",
        "[user]", "name = agent", "email = agent@stackmem.invalid",
        *(["[extensions]", "objectFormat = sha256"] if long else []),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _settings(origin: Origin) -> dict[str, str]:
    """How the person's git reads line ends and modes, without which unchanged files would count as changed."""
    try:
        listed = git(
            "config", "-z", "--get-regexp", r"^core\.(autocrlf|eol|filemode)$", cwd=origin.root,
            environment=her_environment() | {"GIT_DIR": os.fspath(origin.git_dir)}, seconds=HER_SECONDS,
        )  # fmt: skip
    except WorkspaceError:  # exit 1: there is none
        return {}
    pairs = (pair.decode("utf-8", "replace").partition("\n") for pair in listed.split(b"\0")[:-1])
    return {name: value for name, _, value in pairs if value in _KEPT_SETTINGS[name]}


def _commits(inner: InnerGit, most: int) -> tuple[set[str], set[str]]:
    """The last commits, at most so many, and the parents of theirs that are not among them, where history is cut."""
    lines = inner.ask("rev-list", "--parents", f"--max-count={most}", inner.origin.head).decode().splitlines()
    commits = {line[: line.find(" ")] if " " in line else line for line in lines}
    return commits, {parent for line in lines for parent in line.split()[1:]} - commits


def _objects(inner: InnerGit, commits: set[str], seconds: float) -> dict[str, bytes]:
    """Every object of these commits and a path that it has, commits none; what is missing by ``?`` before its name."""
    arguments = ("rev-list", "--objects", "--no-walk", "--missing=print", "--stdin")
    listed = inner.ask(*arguments, stdin="\n".join(sorted(commits)).encode() + b"\n", seconds=seconds)
    found = {}
    for line in BytesIO(listed):
        name, _, path = line.rstrip(b"\n").partition(b" ")
        found[intern(name.decode())] = path
    return found


def _unseen(inner: InnerGit, objects: dict[str, bytes], tree: _Tree) -> set[str]:
    """The objects that a copy of the folder would leave out by their paths."""
    # An empty .env is the same blob as any empty file.
    seen = {intern(name) for path, _, name in tree if not _hidden(path)}
    older = {name: path for name, path in objects.items() if path and name not in seen}
    paths = {path for path in older.values() if not _hidden(path)}
    ignored = _ignored(inner, paths.difference(path for path, _, _ in tree))
    return {name for name, path in older.items() if _hidden(path) or path in ignored}


def _key(origin: Origin, objects: dict[str, bytes], unseen: set[str], secrets: Scrubber) -> str:
    """What the pack follows from."""
    return _hashed((_origin_key(origin, secrets), *sorted(unseen), "", *sorted(objects)))


def _origin_key(origin: Origin, secrets: Scrubber) -> str:
    """What all packs of a repository have in common: where it is, and which secrets none of them holds."""
    return _hashed((os.fspath(origin.common), secrets.fingerprint))


def _hashed(parts: Iterable[str]) -> str:
    made = hashlib.sha256()
    for number, part in enumerate(parts):  # one by one, since there are as many as objects
        made.update(b"\n" * bool(number) + part.encode("utf-8", "surrogateescape"))
    return made.hexdigest()


def _index_key(origin: Origin) -> tuple[int, int]:
    """What the index of the person's repository is like; zeros where it has none."""
    try:
        status = (origin.git_dir / "index").lstat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _withheld(inner: InnerGit, objects: dict[str, bytes], unseen: set[str], secrets: Scrubber) -> frozenset[str]:
    """The blobs that a run may not see, and those that are missing."""
    there = [name for name, path in objects.items() if path and not name.startswith(_MISSING)]
    blobs = _with_secrets(inner, there, secrets.held_in)
    missing = {name.removeprefix(_MISSING) for name in objects if name.startswith(_MISSING)}
    return frozenset(missing | unseen.intersection(blobs) | {name for name, secret in blobs.items() if secret})


def _with_secrets(inner: InnerGit, names: list[str], holds_secret: Callable[[bytes], bool]) -> dict[str, bool]:
    """The blobs among these objects, and which of them holds a secret, or is too large to tell."""
    found: dict[str, bool] = {}
    batch: list[tuple[str, bytes]] = []
    room = _BATCH_BYTES

    def search() -> None:
        if holds_secret(b"\0".join(content for _, content in batch)):  # of many small files at once, mostly none does
            found.update((name, holds_secret(content)) for name, content in batch)
        batch.clear()

    with git_stream(
        "cat-file",
        "--batch",
        "--buffer",
        cwd=inner.path,
        environment=inner.seeing(),
        stdin="\n".join(names).encode(),
    ) as answers:
        while line := answers.readline():
            name, kind, size = line.decode().split()
            left = int(size)
            large = left > _MOST_SEARCHED_BYTES
            if kind == "blob":
                found[name] = large
            while large and left:
                left -= len(answers.read(min(_BATCH_BYTES, left)))
            content = answers.read(left + 1)[:-1]
            if kind == "blob" and not large:
                batch.append((name, content))
                room -= len(content)
            if room < 0:
                search()
                room = _BATCH_BYTES
        search()
    return found


def _hidden(path: bytes) -> bool:
    dotted = path[:1] == b"." or b"/." in path  # most paths are not, and all that is never copied is
    return dotted and any(never_copied(name) for name in path.split(b"/"))


def _ignored(inner: InnerGit, paths: set[bytes]) -> set[bytes]:
    """Those of paths that were once tracked which the work tree's rules leave out of a copy now."""
    root = os.fsencode(inner.origin.root)
    real: dict[bytes, bool] = {b"": True}

    def is_real(folder: bytes) -> bool:
        if folder not in real:
            above = folder.rpartition(b"/")[0]
            real[folder] = is_real(above) and not Path(os.fsdecode(root + b"/" + folder)).is_symlink()
        return real[folder]

    rules = IgnoreRules(inner.path, inner.origin.root)
    try:  # git refuses to speak of what lies beyond a link
        return rules.ignored(sorted(path for path in paths if is_real(path.rpartition(b"/")[0])))
    except TimeoutError as error:
        raise WorkspaceError(f"the rules of {inner.origin.root}/.gitignore take too long ({error})") from error
    finally:
        rules.close()


def _write_refs(inner: InnerGit, withheld: frozenset[str], tags: dict[str, str]) -> None:
    """The branch, the tags, and for every absent blob a text that git reads in its place."""
    refs = {os.fsencode(name): commit for name, commit in tags.items()}
    if inner.origin.branch:
        refs[os.fsencode(inner.origin.branch)] = inner.origin.head
    if withheld:
        instead = git(
            "hash-object", "-w", "--stdin", cwd=inner.path, environment=store_environment(inner.path), stdin=_WITHHELD
        )
        refs |= {f"refs/replace/{name}".encode(): instead.decode().strip() for name in withheld}
    lines = [name.encode() + b" " + ref + b"\n" for ref, name in sorted(refs.items())]
    (inner.path / "packed-refs").write_bytes(b"# pack-refs with: peeled fully-peeled sorted \n" + b"".join(lines))


def _write_stand_in(place: Path) -> None:
    """An object in place of an absent one that HEAD tracks: a commit looks whether it is there, and not at its name."""
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(zlib.compress(b"blob %d\0%s" % (len(_WITHHELD), _WITHHELD)))


def _write_index(inner: InnerGit, tree: _Tree) -> None:
    """The index as of HEAD; what the person's index knows of unchanged files spares git to read each of them again."""
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
        copy.writelines(bounded_blocks(file, _MOST_INDEX_BYTES))


def _filtered(inner: InnerGit, paths: list[bytes]) -> set[bytes]:
    """The paths whose content a filter makes from what git keeps, such as those of LFS: they would count as changed."""
    answer = inner.alone("check-attr", "-z", "--stdin", "filter", stdin=b"".join(path + b"\0" for path in paths))
    fields = answer.split(b"\0")[:-1]
    pairs = zip(fields[::3], fields[2::3], strict=True)
    return {path for path, value in pairs if value not in (b"unspecified", b"unset")}


def _write_lines(place: Path, lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in sorted(lines))
    if text:
        place.write_text(text)
    else:
        place.unlink(missing_ok=True)
