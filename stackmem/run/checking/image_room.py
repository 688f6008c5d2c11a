"""Opens the workspaces of a task that runs in its own image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

from msgspec import Struct

from stackmem.tasks.reader import Task
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.images.room import open_in_image
from stackmem.workspace.images.store import Image
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.workspace import Workspace

ROOT = "root"
"""Folder next to a workspace that contains what was written outside the workspace."""


class _RoomRules(TypedDict):
    shell: str
    holds: bool


def room_of(image: Image | None) -> _RoomRules:
    """Return the ``CheckRoom`` options for an image, which may lack bash and our Python."""
    return {"shell": image.shell[0] if image else "bash", "holds": image is None}


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

        A judged copy sees what the agent wrote outside the workspace, but cannot change it.

        Raises:
            WorkspaceError: The root cannot be mounted.
        """
        path = view.root.parent / ROOT
        apart = self.task.image is not None and self.task.image.apart
        seen = None if apart or path == self.scratch / ROOT else self.scratch / ROOT
        return open_in_image(
            self.image, self.isolation, view, path, self.profile, mounts, env,
            seen=seen, scrub=scrub, network_list=network_list,
        )  # fmt: skip
