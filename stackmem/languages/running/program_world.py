"""What a program reaches in a run: its tools, its sources and the user's own tools."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from stackmem.core.errors import WorkspaceError
from stackmem.core.program_facts import OfferedProgram
from stackmem.history.ignored import IgnoreRules
from stackmem.run.opened import RunPlaces
from stackmem.run.perform import ProgramWorld, World
from stackmem.run.programs.tools import ToolContext
from stackmem.run.request import ProgramRequest
from stackmem.run.run_folder import HISTORY
from stackmem.settings.tools.own_tools import TOOLS
from stackmem.trace.program import keep_source
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.workspace import Workspace

from .edited_sources import EditedSources
from .sources import Loader, as_read, reachable_folders, source_keeper


def program_world(
    world: World,
    workspace: Workspace | MemoryWorkspace,
    places: RunPlaces,
    request: ProgramRequest | None,
    offered: tuple[OfferedProgram, ...],
    literal_bytes: int,  # maximum size of a file or command output that a program receives
) -> ProgramWorld:
    """Return the world of a program that works in the run's workspace, or of those that an agent may call."""
    if not isinstance(workspace, Workspace):
        raise WorkspaceError("a program needs a workspace on disk; choose another level with --isolation")
    own = Path(workspace.path, "-") if request is None else Path(request.path)
    folders = reachable_folders(request, None) if request else tuple(Path(each.path).parent for each in offered)
    loader = Loader(own, folders, (workspace.path, workspace.files))
    rules = partial(IgnoreRules, places.run / HISTORY, workspace.view)
    seen = (workspace.path, places.run / HISTORY)
    edited = request.edited if request is not None else None
    read_source = EditedSources(request, edited, seen, world.scrub).current_source if request and edited else as_read
    return ProgramWorld(
        context=ToolContext(workspace, world.snapshot, world.scrub, world.command_seconds, rules, literal_bytes),
        load=source_keeper(loader, lambda text: keep_source(places.run, text), world.scrub, read_source),
        own_tools=dict(TOOLS),
        parallel=frozenset(name for name, tool in TOOLS.items() if tool.parallel),
    )
