"""Opens the workspaces of a task in its image: the folder is at the image's working directory, in a root that receives
other writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from stackmem.run.tasks.reader import Task
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.image import Image, must_have_roots
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.workspace import Workspace, open_workspace

from .root import UPPER, open_root
from .rooted import Rooted
from .store import image_store

_SEARCHED = "/workspace"
_ROOT = "root"
"""Folder next to a workspace that contains what was written outside the workspace."""


class ImageRoom(Struct, frozen=True):
    """Opens the workspaces of a task that runs in its own image."""

    task: Task
    image: Image
    isolation: str
    profile: Profile
    scratch: Path  # contains the agent's workspace and, next to it, what the agent wrote outside of it

    def open(
        self,
        view: WorkspaceView,
        mounts: tuple[Mount, ...],
        env: Mapping[str, str],
        *,
        scrub: Callable[[str], str] = str,
        network_list: NetworkList | None = None,
    ) -> Workspace:
        """Open the agent's workspace, or a copy to be judged.

        A judged copy sees what the agent wrote outside the workspace, but cannot change it. Raise UsageError if the
        isolation level does not support roots, and WorkspaceError if the root cannot be mounted.
        """
        must_have_roots(self.isolation)
        path, agents = view.root.parent / _ROOT, self.scratch / _ROOT
        is_isolated = self.task.image is not None and self.task.image.apart
        lower = () if is_isolated or path == agents or not (agents / UPPER).is_dir() else (agents / UPPER,)
        inside = self.image.inside
        with ExitStack() as stack:
            own = Mount(str(view.root), inside, writable=True)
            root = open_root(image_store(), self.image, path, self.profile.network, (own, *mounts), lower)
            stack.callback(root.close)
            searcher = open_workspace(self.isolation, view, _SEARCHED, Profile(), scrub=scrub)
            stack.callback(searcher.close)
            workspace = open_workspace(
                Rooted(root), view, inside, self.profile, mounts, env, scrub=scrub, network_list=network_list
            )
            workspace.searcher = searcher
            workspace.with_it.push(stack.pop_all())
        return workspace
