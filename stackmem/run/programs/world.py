"""What a program's effects are performed with, and the program as its run begins with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from stackmem.errors import WorkspaceError
from stackmem.history.ignored import IgnoreRules
from stackmem.run.assemble import Parts, RunPlaces
from stackmem.run.perform import ProgramWorld
from stackmem.run.request import ProgramRequest
from stackmem.run.run_folder import HISTORY
from stackmem.tools.own_tools import TOOLS
from stackmem.trace.program import keep_source
from stackmem.workspace.secrets import scrub_value
from stackmem.workspace.workspace import Workspace

from .edited_sources import EditedSources
from .prepare import reachable
from .sources import Loader, as_read, keeping
from .tools import ToolContext


def without_secrets(request: ProgramRequest, scrub: Callable[[str], str]) -> ProgramRequest:
    """The request as it is kept, and as the program is given it."""
    return replace(request, inputs=scrub_value(request.inputs, scrub), options=scrub_value(request.options, scrub))


def program_world(
    parts: Parts, places: RunPlaces, request: ProgramRequest, ask: Callable[[str], str | None]
) -> ProgramWorld:
    """The world of a program over the run's workspace.

    Args:
        ask: The person's answer to a question, or None where nobody answers.

    """
    world, workspace = parts.world, parts.workspace
    if not isinstance(workspace, Workspace):
        raise WorkspaceError("a program needs a workspace on the disk; choose another level with --isolation")
    loader = Loader(Path(request.path), reachable(request, None), (workspace.path, workspace.files))
    rules = partial(IgnoreRules, places.run / HISTORY, workspace.root)
    seen = (workspace.path, places.run / HISTORY)
    instead = EditedSources(request, request.edited, seen, world.scrub).instead if request.edited else as_read
    return ProgramWorld(
        context=ToolContext(workspace, world.snapshot, world.scrub, world.command_seconds, rules, parts.literal_bytes),
        load=keeping(loader, lambda text: keep_source(places.run, text), world.scrub, instead),
        ask_user=ask,
        own_tools=dict(TOOLS),
        parallel=frozenset(name for name, tool in TOOLS.items() if tool.parallel),
    )
