"""What files hold after a patch, found by git in a store of its own, without touching any folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from stackmem.errors import UsageError, WorkspaceError

from .git import git, store_environment
from .objects import Node, ObjectStore

_HEADER = b"diff --git "


def sections(patch: bytes) -> list[bytes]:
    """The patch cut into one part for each path, in its order; empty where it is no patch of git's.

    No line of content can be taken for a header: it begins with a sign, and a line of binary content has no spaces.
    Where a file became a link, or the other way round, both of its headers are in one part.
    """
    if not patch.startswith(_HEADER):
        return []
    starts = [0]
    at = patch.find(b"\n" + _HEADER)
    while at >= 0:
        starts.append(at + 1)
        at = patch.find(b"\n" + _HEADER, at + 1)
    parts: list[bytes] = []
    header = b""
    for start, end in zip(starts, [*starts[1:], len(patch)], strict=True):
        this = patch[start : patch.find(b"\n", start)]
        if this == header:
            parts[-1] += patch[start:end]
        else:
            parts.append(patch[start:end])
        header = this
    return parts


def contents_after(
    patch: bytes, before: Mapping[bytes, tuple[Node, bytes]], after: Mapping[bytes, Node]
) -> dict[bytes, bytes]:
    """The content of every path of ``after``, of a link its target."""
    with tempfile.TemporaryDirectory(prefix="stackmem-apply-") as place:
        git_dir = Path(place)
        environment = store_environment(git_dir)
        store = ObjectStore(git_dir)
        for _, content in before.values():
            store.add("blob", content)
        index = b"".join(
            b"%s %s\t%s\0" % (node.mode.encode(), node.id.encode(), path) for path, (node, _) in before.items()
        )
        git("update-index", "-z", "--index-info", cwd=git_dir, environment=environment, stdin=index)
        try:
            quiet = ("--cached", "--binary", "--whitespace=nowarn", "-")
            git("apply", *quiet, cwd=git_dir, environment=environment, stdin=patch)
        except WorkspaceError as error:
            raise UsageError(
                f"the patch does not fit the files it was made from ({error}); nothing is changed"
            ) from error
        reached = git("ls-files", "-s", "-z", cwd=git_dir, environment=environment)
        if reached != b"".join(_staged(path, after[path]) for path in sorted(after)):
            raise UsageError("the patch was changed after the run; apply changes.patch by hand with git apply")
        asked = b"".join(node.id.encode() + b"\n" for node in after.values())
        answer = git("cat-file", "--batch", "--buffer", cwd=git_dir, environment=environment, stdin=asked)
    return dict(zip(after, _contents(answer), strict=True))


def _staged(path: bytes, node: Node) -> bytes:
    return b"%s %s 0\t%s\0" % (node.mode.encode(), node.id.encode(), path)


def _contents(answer: bytes) -> list[bytes]:
    """Read ``ID blob LENGTH``, a line feed, the content and a line feed, again and again."""
    found = []
    at = 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        length = int(answer[at:end].rpartition(b" ")[2])
        found.append(answer[end + 1 : end + 1 + length])
        at = end + length + 2
    return found
