"""The image of a task: what it is built from, whether it is built, and why it cannot be used."""

from __future__ import annotations

from stackmem.core.errors import UsageError
from stackmem.formats.images.build import BuildFailed, ImageSource, source_digest
from stackmem.formats.images.store import image_store
from stackmem.run.tasks.reader import Task
from stackmem.workspace.image import Image


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
    """Return the task's image, or None if the task uses this machine's tools.

    Raise UsageError if the task's image is not built.
    """
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
