"""``history``: commits of a real repository are ported one by one; each needs the current state of its files.

The trap: real commits determine which files return, how soon, and how often they change. Old states are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from random import Random

from msgspec import Struct, json

from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.lab.worlds.kernel import Size, UnitList, WorldDraft, WorldFamily

_TRACKED, _EACH = 40, 3
_NOW = "tree/now.md"
# limits for a user's repository: newest commits used, fewest commits needed, timeout for git
_MAX_COMMITS, _MIN_COMMITS, _SECONDS = 3_000, 10, 60.0


class Commit(Struct, frozen=True, array_like=True):
    """A commit: its subject, and for each changed file the path, the blob before and the blob after."""

    subject: str
    files: tuple[tuple[str, str, str], ...]


@lru_cache(maxsize=1)
def own_commits() -> tuple[Commit, ...]:
    """Return the commits of this project, oldest first."""
    return json.decode(resources.files(__package__).joinpath("history.json").read_bytes(), type=tuple[Commit, ...])


def commits_of(folder: Path) -> tuple[Commit, ...]:
    """Return the commits of the repository that contains ``folder``, oldest first, without merges.

    Raise UsageError if the folder is not in a readable repository, or the repository has too few commits.
    """
    from stackmem.history.origin import find_origin, work_tree_of  # needed only with --repository

    try:
        root = work_tree_of(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read ({error.strerror}); name a folder with --repository") from error
    if root is None:
        raise UsageError(f"{folder} is not in a git repository; name one with --repository")
    origin = find_origin(root)
    words = ("log", "--reverse", "--no-merges", "--no-renames", "--raw", "-z", "--abbrev=10", "--format=%x1e%s", "-n")
    try:
        log = origin.ask(*words, str(_MAX_COMMITS), "--end-of-options", origin.head or "HEAD", seconds=_SECONDS)
    except WorkspaceError as error:
        raise UsageError(f"git cannot list the commits of {root} ({error}); name another one") from error
    commits = [commit for text in log.decode("utf-8", "replace").split("\x1e") if (commit := _commit(text)) is not None]
    if len(commits) < _MIN_COMMITS:
        raise UsageError(f"{root} has {len(commits)} commits that change files; at least {_MIN_COMMITS} are needed")
    return tuple(commits)


def _commit(text: str) -> Commit | None:
    """Parse a commit from git's output: the subject, then a header and a path for each file."""
    subject, *rest = text.replace("\n", "\0").split("\0")
    rest = [piece for piece in rest if piece]
    files = []
    for head, path in zip(rest[::2], rest[1::2], strict=False):
        words = head.split()
        if head.startswith(":") and len(words) == 5:  # two modes, two blobs and the kind of change
            files.append((path, words[2][:10], words[3][:10]))
    return Commit(subject, tuple(files)) if files else None


def build(rng: Random, size: Size, units: int) -> WorldDraft:
    return build_from(own_commits(), rng, size, units)


def build_from(commits: Sequence[Commit], rng: Random, size: Size, units: int) -> WorldDraft:
    """Return the world of these commits, oldest first. They repeat if there are fewer commits than units."""
    start = rng.randrange(max(1, len(commits) - size.horizon))
    near = [commits[(start + at) % len(commits)] for at in range(min(len(commits), size.horizon))]
    touched = Counter(path for commit in near for path, _, _ in commit.files)
    tracked = {path: key for path, key in _keys(sorted(touched)).items() if path in dict(touched.most_common(_TRACKED))}
    blobs = {path: before for commit in reversed(near) for path, before, _ in commit.files if path in tracked}
    work = UnitList()
    for topic in sorted({key.partition(".")[0] for key in tracked.values()}):
        facts = {tracked[path]: _state(blob) for path, blob in blobs.items() if tracked[path].startswith(f"{topic}.")}
        work.read(rng, size, f"tree/{topic}.md", f"Files of {topic} at the start", dict(sorted(facts.items())), 60)
    at = 0
    while len(work.units) < units:
        commit = near[at % len(near)]
        at += 1
        files = [(tracked[path], after) for path, _, after in commit.files if path in tracked][:_EACH]
        if files:
            gives = {key: _state(after) for key, after in files}
            work.do(_plain(commit.subject), *gives, gives=gives, noted=_NOW)
    return work.draft(
        "Carry the commits of a repository over",
        "Each unit carries one commit over and needs the state of the files that it changes, as ten digits; the files "
        "under `tree/` have them as they were at the start. Its output tells their new state with the unit's number, "
        f"and `{_NOW}` has the newest of each file.",
        extras={"commits": len(commits), "files": len(tracked)},
    )


def _state(blob: str) -> str:
    return blob if blob.strip("0") else "none"


def _keys(paths: Sequence[str]) -> dict[str, str]:
    """Map each path to a unique key for its state: the top folder and the rest in lowercase."""
    keys: dict[str, str] = {}
    for path in paths:
        top, slash, rest = path.partition("/")
        topic = re.sub(r"[^a-z]+", "_", top.lower()).strip("_") if slash else ""
        item = re.sub(r"[^a-z0-9]+", "-", (rest or top).lower()).strip("-")[-36:].strip("-")
        key = f"{topic or 'top'}.{item or 'file'}"
        keys[path] = key if key not in keys.values() else f"{key}-{len(keys)}"
    return keys


def _plain(subject: str) -> str:
    return " ".join(re.sub(r"[^A-Za-z0-9 ,.:;'()/_-]+", " ", subject).split())[:72] or "a commit"


FAMILY = WorldFamily(
    build, hurts=("letta", "notes", "memory_dir", "mem1", "agentfold", "stackheap", "adaptive"), fleeting=True
)
