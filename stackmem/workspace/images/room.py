"""Opens a workspace in an image: its folder is at the image's working directory, in a root that receives other
writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from stackmem.errors import UsageError
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.isolation.levels import state_folder
from stackmem.workspace.isolation.rooted import Rooted
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.workspace import Workspace, open_workspace

from .root import UPPER, open_root
from .store import Image, ImageStore

_LEVELS = ("auto", "bubblewrap")
_SEARCHED = "/workspace"


def image_store() -> ImageStore:
    return ImageStore(state_folder() / "images")


def must_have_roots(isolation: str) -> None:
    """Raise if the isolation level does not support root file systems."""
    if isolation not in _LEVELS:
        raise UsageError(
            f"a task with its own image needs isolation bubblewrap, not {isolation}; omit --isolation, or use "
            'this machine\'s tools: set image = "host" under [metadata.stackmem] of its task.toml'
        )


def open_in_image(
    image: Image,
    isolation: str,
    view: WorkspaceView,
    path: Path,  # receives writes outside the working directory
    profile: Profile,
    mounts: tuple[Mount, ...] = (),
    env: Mapping[str, str] | None = None,
    *,
    seen: Path | None = None,  # the place of another workspace, whose writes are visible but not changed
    scrub: Callable[[str], str] = str,
    network_list: NetworkList | None = None,
) -> Workspace:
    """Open a folder as a workspace in an image.

    Raises:
        UsageError: The isolation level does not support roots.
        WorkspaceError: The root cannot be mounted.
    """
    must_have_roots(isolation)
    store = image_store()
    inside = image.inside
    with ExitStack() as stack:
        own = Mount(str(view.root), inside, writable=True)
        below = (seen / UPPER,) if seen is not None and (seen / UPPER).is_dir() else ()
        root = open_root(store, image, path, profile.network, (own, *mounts), below)
        stack.callback(root.close)
        searcher = open_workspace(isolation, view, _SEARCHED, Profile(), scrub=scrub)
        stack.callback(searcher.close)
        workspace = open_workspace(
            Rooted(root), view, inside, profile, mounts, env, scrub=scrub, network_list=network_list
        )
        workspace.searcher = searcher
        workspace.with_it.push(stack.pop_all())
    return workspace
