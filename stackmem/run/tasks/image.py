"""The image of a task: what it is built from, whether it is built, and why it cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from stackmem.errors import UsageError
from stackmem.tasks.reader import Task
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.images.build import BuildFailed, ImageSource, source_digest
from stackmem.workspace.images.room import image_store, open_in_image
from stackmem.workspace.images.store import Image
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.workspace import Workspace

ROOT = "root"
"""Folder next to a workspace that contains what was written outside the workspace."""


def task_source(task: Task) -> ImageSource | None:
    """Return what the task's image is built from, or None if the task uses this machine's tools."""
    own = task.image
    if own is None:
        return None
    if own.compose is not None:
        raise BuildFailed(
            f"{own.compose.name} of {task.short_name} needs services, which the sandbox does not start; put everything "
            'into one Dockerfile, or use this machine\'s tools: set image = "host" under '
            "[metadata.stackmem] of its task.toml"
        )
    return ImageSource(own.context, own.recipe, own.named, own.workdir, own.env)


def built_image(task: Task) -> Image | None:
    """Return the task's image, or None if the task uses this machine's tools."""
    source = task_source(task)
    if source is None:
        return None
    store = image_store()
    image = store.image(source_digest(store, source))
    if image is None:
        raise UsageError(
            f"the image of {task.short_name} is not built; run `stackmem tasks build {task.folder}`, or use "
            'this machine\'s tools: set image = "host" under [metadata.stackmem] of its task.toml'
        )
    return image


def in_its_image(task: Task) -> tuple[Task, Image | None]:
    """Return the task with the initial files of its image, and the image. Without an image, the task is unchanged."""
    image = built_image(task)
    return (task, None) if image is None else (replace(task, workspace=Path(image.files)), image)


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
        """
        place = view.root.parent / ROOT
        apart = self.task.image is not None and self.task.image.apart
        seen = None if apart or place == self.scratch / ROOT else self.scratch / ROOT
        return open_in_image(
            self.image, self.isolation, view, place, self.profile, mounts, env,
            seen=seen, scrub=scrub, network_list=network_list,
        )  # fmt: skip
