"""Assembles a run. This is the only module that names concrete classes and reads prompt files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits, SmallSize
from stackmem.core.facts import RunStarted
from stackmem.core.guidance.program_calls import SPEC
from stackmem.core.heap import KeptHeap
from stackmem.core.jobs.offers import job_tools, with_command_fields
from stackmem.core.log import Log
from stackmem.core.messages import Message, PromptText, Text, ToolSpec, View
from stackmem.core.skills import Skill
from stackmem.core.strategy import MemoryStrategy, budgets_of, clearing_of, keeps_thinking
from stackmem.core.text import fill
from stackmem.core.tool_schemas import optional_offers, prompt_slots, spec, with_images
from stackmem.core.tools import EditFile, HeapRead, Tool
from stackmem.errors import UsageError
from stackmem.foreign.files import read_regular_text
from stackmem.history.history import History
from stackmem.history.ignored import IgnoreRules
from stackmem.history.inner_packs import LENT_AT
from stackmem.history.layer import LENT
from stackmem.memory import open_strategy
from stackmem.memory.small import small_offer
from stackmem.models.openai import OpenAIModel
from stackmem.models.registry import NOBODY, Model, introduced, is_served, open_model
from stackmem.models.tokens import CHARS_PER_TOKEN
from stackmem.prompts import prompt_text
from stackmem.settings.kept_heap import HeapKeeper, heap_store
from stackmem.settings.network import network_of, secrets_of, spelled
from stackmem.settings.options import PREFIX
from stackmem.settings.settings import Settings
from stackmem.tasks.find import shipped_tasks
from stackmem.tasks.reader import Task
from stackmem.tools.own_tools import NOTES
from stackmem.version import VERSION
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.images.room import must_have_roots
from stackmem.workspace.memory import MemoryWorkspace
from stackmem.workspace.overlay.view import WorkspaceView
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.project.instructions import Instructions
from stackmem.workspace.secrets import Scrubber
from stackmem.workspace.workspace import Workspace, open_workspace

from .checking.checks import CheckRoom, CommandCheck, task_checks
from .checking.image_room import ImageRoom, room_of
from .companion import programs as companion_programs
from .companion import skills as companion_skills
from .companion.conversations import search_earlier
from .companion.hooks import HookRunner
from .companion.images import eyes_of, image_bytes
from .companion.learning import own_specs, own_tool_calls
from .companion.programs import FoundPrograms
from .first_look import first_look
from .folder_choice import profile_in_force
from .in_memory import MEMORY, NoHistory, WorldChecks, open_in_memory
from .limits import first_limits
from .models import (
    Models,
    Nobody,
    asked_of,
    checkpoints_of,
    is_small,
    open_other,
    refuse_other_provider,
    vision_in_force,
)  # fmt: skip
from .opened import RunPlaces
from .parallel.offer import most_frames, parallel_offer
from .perform import World
from .ports import Checks, WorkspacePort
from .prepare import Prepared
from .run_folder import HISTORY

CHECK_SECONDS = 600.0
_NAMED = 8
_WINDOW_SHARE = 8
"""The project's instructions may take this part of the model's window."""
_MAX_PROMPT_BYTES = 16 << 20
_TOOLCHAIN_PLACES = (Path("/usr"), Path("/opt"))


class RunPlan(Struct, frozen=True):
    """Everything that can be determined and validated before any directory is created."""

    model: Model
    strategy: MemoryStrategy
    limits: Limits
    budgets: Budgets
    profile: Profile
    system: str
    tools: tuple[ToolSpec, ...]
    texts: tuple[PromptText, ...] = ()
    network: NetworkList | None = None
    small: SmallSize | UnsetType = UNSET
    instructions: Instructions = Instructions()
    skills: tuple[Skill, ...] = ()  # those on the heap
    skill_advice: str = ""  # what the agent reads about skills and programs
    programs: FoundPrograms = FoundPrograms()


def plan_run(prepared: Prepared, environ: Mapping[str, str]) -> RunPlan:
    """Validate the request and return the plan. All user errors are detected here, as ``UsageError``."""
    resolved, subject = prepared.resolved, prepared.subject
    settings = resolved.settings
    if subject.image is not None:
        must_have_roots(settings.isolation)
    strategy = open_strategy(settings.strategy)
    demo = subject.task.demo if subject.task else None
    model = _model(prepared, environ, demo)
    limits = first_limits(resolved, model.name, model.price)
    for name in prepared.others:
        open_other(name, settings, prepared.cwd, limits, environ)
    budgets = budgets_of(strategy, settings.budgets)
    profile = _profile(prepared, environ)
    slots = prompt_slots(budgets, profile.command_seconds)
    reads = HeapRead in strategy.tools
    wanted = optional_offers(prepared.tools, reads=reads, earlier=prepared.earlier)
    tools, prompt, small = _shown(prepared, model, strategy, wanted, slots)
    system = _system(settings, prompt, slots)
    instructions = prepared.instructions.fitted(int(model.window_tokens * CHARS_PER_TOKEN) // _WINDOW_SHARE)
    skills, advice = companion_skills.offered(prepared.skills.skills, strategy, small=small is not UNSET)
    programs = prepared.programs if small is UNSET and settings.isolation != MEMORY else FoundPrograms()
    entries, more = companion_programs.for_agent(programs, strategy)
    skills, advice = (*skills, *entries), "\n\n".join(filter(None, (advice, more)))
    tools = (*tools, *([SPEC] if companion_programs.is_offered(programs) else []))
    refuse_other_provider(model, strategy)
    _refuse_small_window(model, system, tools, subject.text + instructions.text + advice)
    texts = tuple(PromptText(name, prompt_text(name)) for name in getattr(strategy, "texts", ()))
    network = network_of(resolved, profile, environ, prepared.cwd)
    return RunPlan(
        model, strategy, limits, budgets, profile, system, tools, texts, network, small, instructions, skills, advice,
        programs,
    )  # fmt: skip


def _shown(
    prepared: Prepared, model: Model, strategy: MemoryStrategy, optional: tuple[Tool, ...], slots: Mapping[str, str]
) -> tuple[tuple[ToolSpec, ...], str, SmallSize | UnsetType]:
    """Return the tools as the model sees them, the name of its prompt, and what the small size adds."""
    filled, resolved = tuple(slots.items()), prepared.resolved
    if not is_small(resolved.settings.size, model, strategy):
        jobs = job_tools(strategy.tools) if prepared.jobs else ()
        own = with_command_fields(strategy.tools, prepared.long_commands, bool(jobs))
        more = (*jobs, *parallel_offer(resolved.settings, strategy))
        own = own if vision_in_force(model, prepared) is None else with_images(own)
        return tool_specs((*own, *optional, *more), filled), strategy.prompt, UNSET
    if not resolved.is_given("extra_tools"):
        # Qwen2.5-Coder 1.5B solved 6 of 12 tasks by writing whole files, and fewer with edits (docs/experiments.md).
        optional = tuple(tool for tool in optional if tool is not EditFile)
    offer = small_offer(strategy, optional)
    return tool_specs(offer.tools, filled), offer.prompt, SmallSize(later=tool_specs(offer.later, filled))


def _model(prepared: Prepared, environ: Mapping[str, str], demo: Path | None) -> Model:
    settings = prepared.resolved.settings
    if prepared.model == NOBODY:
        return Nobody()
    model = open_model(
        prepared.model,
        environ,
        base_url=settings.base_url,
        window_tokens=settings.window_tokens,
        seed=settings.seed,
        demo=demo,
        price=settings.price,
        asked=asked_of(settings, environ),
    )
    return introduced(model)


def window_source(model: Model) -> str | UnsetType:
    """Return where the window size came from, if it was looked up."""
    return getattr(model, "window_source", "") or UNSET


@lru_cache(maxsize=64)
def tool_specs(tools: tuple[Tool, ...], slots: tuple[tuple[str, str], ...]) -> tuple[ToolSpec, ...]:
    """Return the tool specifications for a provider.

    Cached, because deriving the schemas takes longer than many steps.
    """
    return tuple(spec(tool, dict(slots)) for tool in tools)


def _refuse_small_window(model: Model, system: str, tools: tuple[ToolSpec, ...], task: str) -> None:
    chars = len(system) + len(task) + sum(len(tool.description) + len(tool.schema) for tool in tools)
    tokens = chars / CHARS_PER_TOKEN
    # the character-based estimate is about 45 % too high, so count exactly before refusing
    if tokens > model.window_tokens / 2 and isinstance(model, OpenAIModel):
        tokens = model.count_prompt(View(system, tools, Log((Message("user", (Text(task),)),)))) or tokens
    if tokens > model.window_tokens / 2:
        source = getattr(model, "window_source", "")
        origin = f" ({source})" if source else ""
        raise UsageError(
            f"the window of {model.window_tokens:,} tokens{origin} is too small: "
            f"the prompt and the task take about {tokens:,.0f} of it, more than half; give {model.name} a larger "
            "window (pass its size with --window-tokens), or use --strategy full or a shorter --prompt"
        )


def scrubber_of(environ: Mapping[str, str], network: NetworkList | None = None) -> Scrubber:
    """Return a scrubber for secrets from the caller's environment and for credentials added to network requests."""
    own = {name: value for name, value in environ.items() if not name.startswith(PREFIX)}
    return Scrubber(own | secrets_of(network))


def assemble(
    plan: RunPlan,
    prepared: Prepared,
    places: RunPlaces,
    scrubber: Scrubber,
    environ: Mapping[str, str],
    history: History | NoHistory,
) -> tuple[RunStarted, World, Workspace | MemoryWorkspace, HeapKeeper | None]:
    """Open the workspace, or raise ``WorkspaceError``, and assemble the run. Sync no file before the trace exists.

    Returns the start event, the world, its workspace, and the keeper of a persistent heap if there is one.
    """
    subject, settings = prepared.subject, prepared.resolved.settings
    history.withhold(scrubber.held_in)
    workspace, checks = _opened(plan, prepared, places, scrubber)
    if isinstance(workspace, Workspace):
        workspace.files.rules = partial(IgnoreRules, places.run / HISTORY, workspace.view)
    models = Models(plan.model, lambda name: open_other(name, settings, prepared.cwd, plan.limits, environ))
    hooks = HookRunner(prepared.hooks, subject.begins, workspace, history.snapshot, scrubber.scrub, environ, places.run)
    learn = settings.learn if subject.folder is not None else "off"
    world = World(
        models, workspace, checks, scrubber.scrub, bool, plan.profile.command_seconds,
        snapshot=history.snapshot, own_tool=own_tool_calls(learn, places.run, workspace, scrubber.scrub),
        own_digest=companion_skills.own_digests(plan.skills, environ),
        earlier=partial(search_earlier, places.run, subject.folder, scrubber.scrub), hook=hooks,
        image=image_bytes(places.run), eyes=eyes_of(workspace, vision_in_force(plan.model, prepared), places.run),
    )  # fmt: skip
    own, keeper = own_specs(learn), heap_keeper(prepared, scrubber, environ)
    start = RunStarted(
        task=scrubber.scrub(subject.text), task_name=subject.name,
        model=plan.model.name, strategy=plan.strategy.name,
        system=scrubber.scrub(plan.system),
        tools=(*plan.tools, *own),
        workspace=workspace.path,
        isolation=workspace.level, network=plan.profile.network,
        budgets=plan.budgets, limits=plan.limits,
        window_tokens=plan.model.window_tokens, price=plan.model.price, checked=checks is not None,
        command_seconds=plan.profile.command_seconds, version=VERSION,
        thinking="kept" if keeps_thinking(plan.strategy) else "dropped", tree=history.snapshot(),
        own_tools=tuple(tool.name for tool in own) or UNSET,
        texts=plan.texts or UNSET,
        instructions=scrubber.scrub("\n\n".join(filter(None, (plan.instructions.text, plan.skill_advice)))) or UNSET,
        several_calls="first", small=_with_look(plan.small, workspace, subject.text, scrubber),
        circles="refused" if is_served(plan.model.name) else UNSET,
        text_calls="prompt" if settings.text_calls == "prompt" and is_served(plan.model.name) else UNSET,
        project=scrubber.scrub(prepared.project.text) or UNSET,
        place=subject.place or UNSET, window_source=window_source(plan.model),
        session=prepared.session or UNSET, permissions=prepared.permissions or UNSET, hooks=hooks.recorded() or UNSET,
        questions="end", read_calls="many" if settings.read_calls == "many" else UNSET,
        heap=UNSET if keeper is None else _kept(keeper, prepared, plan, workspace),
        allowed=spelled(plan.network),
        index="escaped", guards="programs" if prepared.permissions or prepared.hooks.hooks else UNSET,
        unseen=tuple(scrubber.scrub(line) for line in _unseen(prepared, plan)) or UNSET,
        checkpoints=checkpoints_of(settings.checkpoints, plan.strategy, plan.model.name),
        skills=tuple(companion_skills.scrubbed(skill, scrubber.scrub) for skill in plan.skills) or UNSET,
        programs=companion_programs.recorded(plan.programs, workspace.path, places.run, scrubber.scrub) or UNSET,
        vision=(world.eyes and world.eyes.vision) or UNSET, clearing=clearing_of(plan.strategy),
        parallel=most_frames(settings, plan.tools),
    )  # fmt: skip
    return start, world, workspace, keeper


def _kept(keeper: HeapKeeper, prepared: Prepared, plan: RunPlan, workspace: WorkspacePort) -> KeptHeap:
    """Return what the run takes over from earlier runs; a conversation also takes over the user's standing words."""
    heap = keeper.taken_over(plan.budgets, workspace.digest)
    return heap if prepared.session is None else replace(heap, standing=keeper.kept_words())


def _unseen(prepared: Prepared, plan: RunPlan) -> tuple[str, ...]:
    """Return what the agent does not see or sees changed, one sentence each."""
    skipped = prepared.copy.skipped if prepared.copy is not None else ()
    more = f" and {len(skipped) - _NAMED:,} more" if len(skipped) > _NAMED else ""
    withheld = (
        (f"not in the workspace, although in the folder: {', '.join(skipped[:_NAMED])}{more}",) if skipped else ()
    )
    return (*prepared.unseen, *withheld, *plan.instructions.notes, *NOTES)


def _with_look(
    small: SmallSize | UnsetType, workspace: WorkspacePort, task: str, scrubber: Scrubber
) -> SmallSize | UnsetType:
    return small if small is UNSET else replace(small, look=first_look(workspace, task, scrubber.scrub))


def heap_keeper(prepared: Prepared, scrubber: Scrubber, environ: Mapping[str, str]) -> HeapKeeper | None:
    """Return the keeper of a persistent heap, or None if none was requested. Raises ``UsageError`` if it cannot be
    used.
    """
    named, subject = prepared.resolved.settings.heap, prepared.subject
    if named is None:
        return None
    return HeapKeeper(heap_store(named, subject.begins, prepared.cwd, environ), scrubber.scrub)


def _opened(
    plan: RunPlan, prepared: Prepared, places: RunPlaces, scrubber: Scrubber
) -> tuple[Workspace | MemoryWorkspace, Checks | None]:
    """Open the workspace, and the checks for it if there are any."""
    settings, subject = prepared.resolved.settings, prepared.subject
    if settings.isolation == MEMORY or places.layer is None:
        memory = open_in_memory(subject, settings.check, scrubber.scrub)
        return memory, WorldChecks(memory, subject.task.tests) if subject.task else None

    # Hide other tasks' tests and other runs' files, even if a profile or an installation would expose them.
    task = (subject.task.folder,) if subject.task else ()
    hidden = (shipped_tasks(), *task, *prepared.folders)

    ready, objects = places.layer.ready, places.scratch / LENT
    lent = [Mount(str(each), str(each)) for each in places.layer.granted]
    lent += [Mount(str(objects), LENT_AT)] if objects.is_dir() else []

    def open_at(view: WorkspaceView, mounts: tuple[Mount, ...], env: Mapping[str, str]) -> Workspace:
        if subject.task is not None and subject.image is not None:
            room = ImageRoom(subject.task, subject.image, settings.isolation, plan.profile, places.scratch)
            return room.open(view, mounts, env, scrub=scrubber.scrub, network_list=plan.network)
        return open_workspace(
            settings.isolation, view, subject.inside, plan.profile, (*lent, *mounts), env, scrub=scrubber.scrub,
            hidden=hidden, project=prepared.project, place=subject.place, network_list=plan.network,
            ready=ready,
        )  # fmt: skip

    workspace = open_at(places.layer.view, (), {})
    room = CheckRoom(places.layer, places.scratch, workspace.place, open_at, **room_of(subject.image))
    return workspace, _checks(prepared, room, places)


def _system(settings: Settings, prompt: str, slots: Mapping[str, str]) -> str:
    if settings.prompt is None:
        return fill(prompt_text(prompt), slots)
    try:
        return fill(read_regular_text(settings.prompt, _MAX_PROMPT_BYTES), slots).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the prompt {settings.prompt} cannot be read ({why}); name a text file") from error
    except KeyError as error:
        raise UsageError(
            f"the prompt {settings.prompt} has the unknown slot {error}; known: {', '.join(sorted(slots))}"
        ) from error


def _profile(prepared: Prepared, environ: Mapping[str, str]) -> Profile:
    """Return the profile with the settings' overrides, the task's toolchains and the files of the user's skills."""
    resolved = prepared.resolved
    profile = profile_in_force(resolved, prepared.cwd)
    task = prepared.subject.task
    toolchains = tuple(_toolchain(task, path) for path in task.toolchains) if task else ()
    skills = companion_skills.skill_mounts(prepared.skills.skills, prepared.subject.folder, environ)
    programs = companion_programs.program_mounts(prepared.programs.folders, prepared.subject.folder)
    return msgspec.structs.replace(profile, mounts=(*profile.mounts, *toolchains, *skills, *programs))


def _toolchain(task: Task, path: str) -> Mount:
    """Return the mount for a toolchain that a task requests.

    Tasks come from third parties, so they may mount only system program folders, never a user's files.
    """
    real = Path(path).resolve()
    if not any(real.is_relative_to(place) for place in _TOOLCHAIN_PLACES):
        places = ", ".join(map(str, _TOOLCHAIN_PLACES))
        raise UsageError(
            f"the task {task.short_name} needs the toolchain {path}, which is not under {places}; "
            "grant it with a mount in a profile (--profile FILE)"
        )
    return Mount(str(real), path)


def _checks(prepared: Prepared, room: CheckRoom, places: RunPlaces) -> Checks | None:
    check, task = prepared.resolved.settings.check, prepared.subject.task
    if check is not None:
        withheld = prepared.copy.skipped if prepared.copy is not None else ()
        return CommandCheck(room, check, CHECK_SECONDS, withheld)
    return None if task is None else task_checks(room, task, places.run / "verifier")
