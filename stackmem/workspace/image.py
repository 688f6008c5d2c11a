"""A built image, as a task's commands use it. ``formats`` builds images and opens workspaces in them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from stackmem.core.errors import UsageError

_LEVELS = ("auto", "bubblewrap")


class ImageConfig(Struct, frozen=True, omit_defaults=True):
    """Settings of a root for the programs in it."""

    env: Mapping[str, str] = {}
    workdir: str = "/"
    user: str = ""  # a name or number, as in the recipe; empty means root
    shell: tuple[str, ...] = ()  # the shell for shell lines; empty selects bash, or sh if the root has no bash


class Image(Struct, frozen=True):
    """A built root."""

    digest: str  # digest of its source
    layers: tuple[str, ...]  # folders in the store, topmost first
    config: ImageConfig
    files: str  # a copy of the working directory's content
    uid: int = 0  # the user, whose home folder is ``home``
    home: str = "/root"
    shell: tuple[str, ...] = ("/bin/sh", "-c")

    @property
    def inside(self) -> str:
        """Path of the workspace: the working directory, but never the root itself."""
        return "/workspace" if self.config.workdir == "/" else self.config.workdir


def must_have_roots(isolation: str) -> None:
    """Raise if the isolation level does not support root file systems."""
    if isolation not in _LEVELS:
        raise UsageError(
            f"a task with its own image needs isolation bubblewrap, not {isolation}; omit --isolation, or use "
            'this machine\'s tools: set image = "host" under [metadata.stackmem] of its task.toml'
        )
