"""Computes the content of files after a patch with git in a temporary store, without touching any folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from stackmem.core.errors import UsageError, WorkspaceError

from .git import git, store_environment
from .objects import Node, ObjectStore

_HEADER = b"diff --git "


def sections(patch: bytes) -> list[bytes]:
    """Split the patch into one part per path, in order; empty if it is not a git patch.

    Content cannot be mistaken for a header: each line starts with a sign, and binary lines contain no spaces. If a file
    became a link or the reverse, both headers are in one part.
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
    """Return the content of every path in ``after``; for a link, its target.

    Raise UsageError if the patch has a different result, or cannot be applied.

    Args:
        patch: A patch of exactly these paths.
        before: The existing nodes and their content. Missing paths are not in it.
        after: The exact result that the patch must have.
    """
    with tempfile.TemporaryDirectory(prefix="stackmem-apply-") as location:
        git_dir = Path(location)
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
                f"the patch does not fit the files it was made from ({error}); no file was changed"
            ) from error
        reached = git("ls-files", "-s", "-z", cwd=git_dir, environment=environment)
        if reached != b"".join(_staged(path, after[path]) for path in sorted(after)):
            raise UsageError("the patch was changed after the run; apply changes.patch manually with git apply")
        query = b"".join(node.id.encode() + b"\n" for node in after.values())
        answer = git("cat-file", "--batch", "--buffer", cwd=git_dir, environment=environment, stdin=query)
    return dict(zip(after, _contents(answer), strict=True))


def _staged(path: bytes, node: Node) -> bytes:
    return b"%s %s 0\t%s\0" % (node.mode.encode(), node.id.encode(), path)


def _contents(answer: bytes) -> list[bytes]:
    """Parse a sequence of ``ID blob LENGTH``, a newline, the content and a newline."""
    contents = []
    at = 0
    while at < len(answer):
        end = answer.index(b"\n", at)
        length = int(answer[at:end].rpartition(b" ")[2])
        contents.append(answer[end + 1 : end + 1 + length])
        at = end + length + 2
    return contents
