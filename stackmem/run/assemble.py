"""Assembles a run from its plan: the workspace, its checks, the world, and the first event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from stackmem.core.budgets import SmallSize
from stackmem.core.conversation.hook_facts import Hook
from stackmem.core.facts import RunStarted
from stackmem.core.heap import KeptHeap
from stackmem.core.neighbors import neighbor
from stackmem.core.strategy import clearing_of, keeps_thinking
from stackmem.core.version import VERSION
from stackmem.history.history import History
from stackmem.history.ignored import IgnoreRules
from stackmem.history.inner_packs import LENT_AT
from stackmem.history.layer import LENT
from stackmem.models.registry import is_served
from stackmem.run.companion.kept_heap import HeapKeeper, heap_store
from stackmem.run.tasks.find import shipped_tasks
from stackmem.settings.network import secrets_of, spelled
from stackmem.settings.options import NOT_SETTINGS, PREFIX
from stackmem.settings.tools.own_tools import NOTES
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.workspace import Workspace, open_workspace

from .checking.checks import CheckRoom, CommandCheck, room_of, task_checks
from .companion import programs as companion_programs
from .companion import skills as companion_skills
from .companion.conversations import search_earlier
from .companion.first_look import first_look
from .companion.hooks import HookRunner
from .companion.images import eyes_of, image_bytes
from .companion.learning import own_specs, own_tool_calls
from .in_memory import MEMORY, NoHistory, WorldChecks, open_in_memory
from .models import Models, checkpoints_of, open_other, vision_in_force
from .opened import RunPlaces
from .parallel.offer import most_frames
from .perform import World
from .plan import Plan, window_source
from .ports import Checks, WorkspacePort
from .request import Request
from .run_folder import HISTORY

CHECK_SECONDS = 600.0
_MAX_NAMES = 8


def scrubber_of(environ: Mapping[str, str], network: NetworkList | None = None) -> Scrubber:
    """Return a scrubber for secrets from the caller's environment and for credentials added to network requests.

    Settings do not count, even if one is named like a secret (STACKMEM_MAX_TOKENS). The tokens of our servers count.
    """
    others = {name: value for name, value in environ.items() if not name.startswith(PREFIX) or name in NOT_SETTINGS}
    return Scrubber(others | secrets_of(network))


def assemble(
    plan: Plan,
    places: RunPlaces,
    scrubber: Scrubber,
    environ: Mapping[str, str],
    history: History | NoHistory,
) -> tuple[RunStarted, World, Workspace | MemoryWorkspace, HeapKeeper | None]:
    """Open the workspace, or raise ``WorkspaceError``, and assemble the run. Sync no file before the trace exists.

    Returns the start event, the world, its workspace, and the keeper of a persistent heap if there is one.
    """
    request = plan.request
    subject, settings = request.subject, request.resolved.settings
    history.withhold(scrubber.held_in)
    workspace, checks = _opened(plan, places, scrubber)
    if isinstance(workspace, Workspace):
        workspace.files.rules = partial(IgnoreRules, places.run / HISTORY, workspace.view)
    models = Models(plan.model, lambda name: open_other(name, settings, request.cwd, plan.limits, environ))
    hooks = HookRunner(request.hooks, subject.begins, workspace, history.snapshot, scrubber.scrub, environ, places.run)
    world = World(
        models, workspace, checks, scrubber.scrub, bool, plan.profile.command_seconds,
        snapshot=history.snapshot, own_tool=own_tool_calls(_learn(request), places.run, workspace, scrubber.scrub),
        own_digest=companion_skills.own_digests(plan.skills, environ),
        earlier=partial(search_earlier, places.run, subject.folder, scrubber.scrub), hook=hooks,
        image=image_bytes(places.run), eyes=eyes_of(workspace, vision_in_force(plan.model, request), places.run),
    )  # fmt: skip
    keeper = heap_keeper(request, scrubber, environ)
    start = _started(plan, world, workspace, keeper, hooks.recorded(), (places.run, scrubber))
    return start, world, workspace, keeper


def _started(
    plan: Plan,
    world: World,
    workspace: Workspace | MemoryWorkspace,
    keeper: HeapKeeper | None,
    hooks: tuple[Hook, ...],
    here: tuple[Path, Scrubber],
) -> RunStarted:
    """Derive the first event of a run from its plan and from what was found when it was opened."""
    (run_dir, scrubber), request = here, plan.request
    subject, settings = request.subject, request.resolved.settings
    own = own_specs(_learn(request))
    return RunStarted(
        task=scrubber.scrub(subject.text),
        task_name=subject.name,
        model=plan.model.name,
        strategy=plan.strategy.name,
        system=scrubber.scrub(plan.system),
        tools=(*plan.tools, *own),
        workspace=workspace.path,
        isolation=workspace.level, network=plan.profile.network,
        budgets=plan.budgets, limits=plan.limits,
        window_tokens=plan.model.window_tokens, price=plan.model.price, checked=world.checks is not None,
        command_seconds=plan.profile.command_seconds,
        version=VERSION,
        thinking="kept" if keeps_thinking(plan.strategy) else "dropped",
        tree=world.snapshot(),
        own_tools=tuple(tool.name for tool in own) or UNSET,
        texts=plan.texts or UNSET,
        instructions=scrubber.scrub("\n\n".join(filter(None, (plan.instructions.text, plan.skill_advice)))) or UNSET,
        several_calls="first", small=_with_look(plan.small, workspace, subject.text, scrubber),
        circles="refused" if is_served(plan.model.name) else UNSET,
        text_calls="prompt" if settings.text_calls == "prompt" and is_served(plan.model.name) else UNSET,
        project=scrubber.scrub(request.project.text) or UNSET,
        place=subject.place or UNSET, window_source=window_source(plan.model),
        session=request.session or UNSET, permissions=request.permissions or UNSET, hooks=hooks or UNSET,
        questions="end", read_calls="many" if settings.read_calls == "many" else UNSET,
        heap=UNSET if keeper is None else _kept_heap(keeper, plan, workspace),
        allowed=spelled(plan.network),
        index="escaped", guards="programs" if request.permissions or request.hooks.hooks else UNSET,
        unseen=tuple(scrubber.scrub(line) for line in _visibility_notes(plan)) or UNSET,
        checkpoints=checkpoints_of(settings.checkpoints, plan.strategy, plan.model.name),
        skills=tuple(companion_skills.scrubbed(skill, scrubber.scrub) for skill in plan.skills) or UNSET,
        programs=companion_programs.recorded(plan.programs, workspace.path, run_dir, scrubber.scrub) or UNSET,
        vision=(world.eyes and world.eyes.vision) or UNSET, clearing=clearing_of(plan.strategy),
        parallel=most_frames(settings, plan.tools),
    )  # fmt: skip


def _learn(request: Request) -> Literal["off", "on"]:
    """Return whether the agent may write tools for later runs. A task has none, like skills."""
    return request.resolved.settings.learn if request.subject.folder is not None else "off"


def _kept_heap(keeper: HeapKeeper, plan: Plan, workspace: WorkspacePort) -> KeptHeap:
    """Return what the run takes over from earlier runs; a conversation also takes over the user's standing words."""
    names = {tool.name for tool in plan.tools}
    heap = keeper.taken_over(plan.budgets, workspace.digest) if "heap_read" in names else KeptHeap()
    heap = replace(heap, files=keeper.kept_files()) if "memory" in names else heap
    return heap if plan.request.session is None else replace(heap, standing=keeper.kept_words())


def _visibility_notes(plan: Plan) -> tuple[str, ...]:
    """Return what the agent does not see or sees changed, one sentence each."""
    request = plan.request
    skipped = request.copy.skipped if request.copy is not None else ()
    more = f" and {len(skipped) - _MAX_NAMES:,} more" if len(skipped) > _MAX_NAMES else ""
    withheld = (
        (f"not in the workspace, although in the folder: {', '.join(skipped[:_MAX_NAMES])}{more}",) if skipped else ()
    )
    return (*request.gaps, *withheld, *plan.instructions.notes, *NOTES)


def _with_look(
    small: SmallSize | UnsetType, workspace: WorkspacePort, task: str, scrubber: Scrubber
) -> SmallSize | UnsetType:
    return small if small is UNSET else replace(small, look=first_look(workspace, task, scrubber.scrub))


def heap_keeper(request: Request, scrubber: Scrubber, environ: Mapping[str, str]) -> HeapKeeper | None:
    """Return the keeper of a persistent heap, or None if none was requested. Raises ``UsageError`` if it cannot be
    used.
    """
    name, subject = request.resolved.settings.heap, request.subject
    if name is None:
        return None
    return HeapKeeper(heap_store(name, subject.begins, request.cwd, environ), scrubber.scrub)


def _opened(plan: Plan, places: RunPlaces, scrubber: Scrubber) -> tuple[Workspace | MemoryWorkspace, Checks | None]:
    """Open the workspace, and the checks for it if there are any."""
    request = plan.request
    settings, subject = request.resolved.settings, request.subject
    if settings.isolation == MEMORY or places.layer is None:
        memory = open_in_memory(subject, settings.check, scrubber.scrub)
        return memory, WorldChecks(memory, subject.task.tests) if subject.task else None

    # Hide other tasks' tests and other runs' files, even if a profile or an installation would expose them.
    task = (subject.task.folder,) if subject.task else ()
    hidden = (shipped_tasks(), *task, *request.folders)

    ready, objects = places.layer.ready, places.scratch / LENT
    lent = [Mount(str(each), str(each)) for each in places.layer.granted]
    lent += [Mount(str(objects), LENT_AT)] if objects.is_dir() else []

    def open_at(view: WorkspaceView, mounts: tuple[Mount, ...], env: Mapping[str, str]) -> Workspace:
        if subject.task is not None and subject.image is not None:
            room_type = neighbor("formats: workspaces in an image")
            inside = room_type(subject.task, subject.image, settings.isolation, plan.profile, places.scratch)
            opened: Workspace = inside.open(view, mounts, env, scrub=scrubber.scrub, network_list=plan.network)
            return opened
        return open_workspace(
            settings.isolation, view, subject.inside, plan.profile, (*lent, *mounts), env, scrub=scrubber.scrub,
            hidden=hidden, project=request.project, subfolder=subject.place, network_list=plan.network,
            ready=ready,
        )  # fmt: skip

    workspace = open_at(places.layer.view, (), {})
    room = CheckRoom(places.layer, places.scratch, workspace.place, open_at, **room_of(subject.image))
    return workspace, _checks(request, room, places)


def _checks(request: Request, room: CheckRoom, places: RunPlaces) -> Checks | None:
    check, task = request.resolved.settings.check, request.subject.task
    if check is not None:
        withheld = request.copy.skipped if request.copy is not None else ()
        return CommandCheck(room, check, CHECK_SECONDS, withheld)
    return None if task is None else task_checks(room, task, places.run / "verifier")
