"""The image of a task: what it is built from, whether it is built, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from stackmem.errors import UsageError
from stackmem.tasks.reader import Task
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.images.build import ImageSource, source_digest
from stackmem.workspace.images.compose import read_compose
from stackmem.workspace.images.room import image_store, open_in_image
from stackmem.workspace.images.store import Image, ImageConfig, text_digest
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.workspace import Workspace

ROOT = "root"
"""The folder, beside a workspace, that holds what was written outside of it."""


class TaskSources(Struct, frozen=True):
    """What a task's image and its services are built from.

    Attributes:
        services: Name to source, with the command and the health check that the compose file gives.
        hindrances: What of the compose file cannot be had, a sentence each.
    """

    main: ImageSource
    services: Mapping[str, tuple[ImageSource, ImageConfig]] = {}
    hindrances: tuple[str, ...] = ()


def task_sources(task: Task) -> TaskSources | None:
    """What the task's image is built from; None where it runs on this machine's tools.

    Raises:
        UsageError: Its compose file is none.
    """
    own = task.image
    if own is None:
        return None
    main, others = read_compose(own.compose) if own.compose else (None, ())
    env = {**(main.env if main else {}), **own.env}
    context, recipe, named = own.context, own.recipe, own.named
    if main is not None and not named:
        context, recipe, named = main.context or context, main.recipe or recipe, "" if recipe else main.named
    source = ImageSource(context, recipe, named, own.workdir or (main.workdir if main else ""), env)
    services = {
        each.name: (
            ImageSource(each.context or own.context, each.recipe, each.named, each.workdir, each.env),
            ImageConfig(command=each.command or (), health=each.health),
        )
        for each in others
    }
    said = tuple(why for each in (*((main,) if main else ()), *others) for why in each.hindrances)
    return TaskSources(source, services, said)


def sources_digest(sources: TaskSources) -> str:
    """What the image of a task is kept under."""
    store, words = image_store(), []
    for name, (source, config) in sources.services.items():
        words += [name, source_digest(store, source), *config.command, config.health]
    own = source_digest(store, sources.main)
    return text_digest("task", own, *words) if words else own


def built_image(task: Task) -> Image | None:
    """The task's image; None where it runs on this machine's tools.

    Raises:
        UsageError: It has one of its own, and that is not built.
    """
    sources = task_sources(task)
    if sources is None:
        return None
    image = image_store().image(sources_digest(sources))
    if image is None:
        raise UsageError(
            f"the image of {task.short_name} is not built; run `stackmem tasks build {task.folder}`, or let the task "
            'run on this machine\'s tools: image = "host" under [metadata.stackmem] of its task.toml'
        )
    return image


def in_its_image(task: Task) -> tuple[Task, Image | None]:
    """The task with the files that its image begins with, and that image; the task as it is where it has none.

    Raises:
        UsageError: The image is not built.
    """
    image = built_image(task)
    return (task, None) if image is None else (replace(task, workspace=Path(image.files)), image)


class _RoomRules(TypedDict):
    shell: str
    holds: bool


def room_of(image: Image | None) -> _RoomRules:
    """What a room of checks has in an image, which need hold neither bash nor our Python."""
    return {"shell": image.shell[0] if image else "bash", "holds": image is None}


class ImageRoom(Struct, frozen=True):
    """Where a task in its own image is worked on, and judged.

    Attributes:
        scratch: Holds the agent's workspace, and beside it what the agent wrote outside of it.
    """

    task: Task
    image: Image
    isolation: str
    profile: Profile
    scratch: Path

    def open(
        self,
        view: WorkspaceView,
        mounts: tuple[Mount, ...],
        env: Mapping[str, str],
        *,
        scrub: Callable[[str], str] = str,
        network_list: NetworkList | None = None,
    ) -> Workspace:
        """The agent's workspace, or a copy of it to be judged, which sees what the agent wrote and leaves it as it is.

        Raises:
            WorkspaceError: The root cannot be mounted.
        """
        place = view.root.parent / ROOT
        apart = self.task.image is not None and self.task.image.apart
        seen = None if apart or place == self.scratch / ROOT else self.scratch / ROOT
        return open_in_image(
            self.image, self.isolation, view, place, self.profile, mounts, env,
            seen=seen, scrub=scrub, network_list=network_list,
        )  # fmt: skip
