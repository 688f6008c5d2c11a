"""Decides how a run will be played. A plan is complete and validated before anything is created.

``open_run`` opens a plan of any kind, for agents and programs alike; ``Plan.begins`` contains the differences. This is
the only module that reads prompt files.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from stackmem.core.budgets import Budgets, Limits, SmallSize
from stackmem.core.errors import UsageError
from stackmem.core.facts import RunResumed, RunStarted
from stackmem.core.guidance.program_calls import SPEC
from stackmem.core.guidance.skills import Skill
from stackmem.core.jobs.offers import job_tools, with_command_fields
from stackmem.core.log import Log
from stackmem.core.messages import Message, PromptText, Text, ToolSpec, View
from stackmem.core.state import State
from stackmem.core.strategy import MemoryStrategy, budgets_of
from stackmem.core.text import fill
from stackmem.core.tool_schemas import optional_offers, prompt_slots, spec, with_images
from stackmem.core.tools import EditFile, HeapRead, Tool
from stackmem.foreign.files import read_regular_text
from stackmem.memory import open_strategy
from stackmem.memory.small import small_offer
from stackmem.models.registry import NOBODY, HasTokenizer, Model, introduced, open_model
from stackmem.models.tokens import CHARS_PER_TOKEN
from stackmem.run.prompts import prompt_text
from stackmem.run.tasks.reader import Task
from stackmem.settings.network import network_kept, network_of
from stackmem.settings.settings import Settings
from stackmem.trace.imported import refuse_imported
from stackmem.trace.open_run import Run
from stackmem.workspace.egress.network_list import NetworkList
from stackmem.workspace.image import must_have_roots
from stackmem.workspace.profile import Mount, Profile
from stackmem.workspace.project.instructions import Instructions

from .companion import programs as companion_programs
from .companion import skills as companion_skills
from .companion.programs import FoundPrograms
from .folder_choice import profile_in_force
from .in_memory import MEMORY
from .limits import first_limits
from .models import Nobody, asked_of, is_small, open_other, refuse_other_provider, vision_in_force
from .parallel.offer import parallel_offer, refuse_small
from .request import ProgramRequest, Request
from .stopped import Stopped
from .stored_request import StoredRequest

_WINDOW_SHARE = 8
"""The project's instructions may take this part of the model's window."""
_MAX_PROMPT_BYTES = 16 << 20
_TOOLCHAIN_PLACES = (Path("/usr"), Path("/opt"))


class Fresh(Struct, frozen=True):
    """A new run of a task, of a folder with a prompt, or of a program."""

    program: ProgramRequest | None = None


class Resumed(Struct, frozen=True):
    """A stopped run that continues under its own name."""

    stored: StoredRequest
    run_dir: Path
    stopped: Stopped
    reopening: RunResumed  # the event that resumes the run, with the limits and isolation level from here on

    @property
    def is_parallel(self) -> bool:
        """Whether the run is a parallel frame of another one."""
        return bool(self.stopped.state.parallel.child)


class _FromState(Struct, frozen=True):
    """Base for runs that begin in a state of another run."""

    stored: StoredRequest
    run: Run
    state: State


class Forked(_FromState, frozen=True):
    """A new run from a state of another run; it shares the other run's records up to that state."""

    at: int  # number of the last shared record
    digest: str  # digest of that record
    folder_name: str = ""  # name of the run directory, for a parallel frame; empty otherwise

    @property
    def is_parallel(self) -> bool:
        return bool(self.folder_name)


class Edited(_FromState, frozen=True):
    """A new run of an edited program, from the point where it first behaves differently from the recorded run."""


class Rehearsed(_FromState, frozen=True):
    """A recorded state that is reopened temporarily for inspection. Nothing is kept afterwards."""

    at: int  # number of the last record included in the state


class Plan(Struct, frozen=True):
    """What was decided: everything that is determined and validated before any directory is created."""

    request: Request
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
    begins: Fresh | Resumed | Forked | Edited | Rehearsed = Fresh()  # how the run begins

    @property
    def name_parts(self) -> tuple[str, str]:
        """The name parts of a new run directory: the task, and the strategy or language."""
        match self.begins:
            case Fresh(program):
                return self.request.subject.name, program.language if program else self.strategy.name
            case Edited(stored, _, state):
                return state.begun.task_name, stored.program.language if stored.program else ""
            case Forked(state=state):
                return state.begun.task_name, self.strategy.name
            case Resumed() | Rehearsed():
                raise TypeError("this run gets no new directory")


def plan_run(request: Request, environ: Mapping[str, str]) -> Plan:
    """Validate the request and return the plan. All user errors are detected here, as ``UsageError``."""
    resolved, subject = request.resolved, request.subject
    settings = resolved.settings
    if subject.image is not None:
        must_have_roots(settings.isolation)
    strategy = open_strategy(settings.strategy)
    demo = subject.task.demo if subject.task else None
    model = _model(request, environ, demo)
    limits = first_limits(resolved, model.name, model.price)
    for name in request.others:
        open_other(name, settings, request.cwd, limits, environ)
    budgets = budgets_of(strategy, settings.budgets)
    profile = _profile(request, environ)
    slots = prompt_slots(budgets, profile.command_seconds)
    reads = HeapRead in strategy.tools
    optional = optional_offers(request.tools, reads=reads, earlier=request.earlier)
    tools, prompt, small = _model_offer(request, model, strategy, optional, slots)
    system = _system(settings, prompt, slots)
    instructions = request.instructions.fitted(int(model.window_tokens * CHARS_PER_TOKEN) // _WINDOW_SHARE)
    skills, advice = companion_skills.offered(request.skills.skills, strategy, small=small is not UNSET)
    programs = request.programs if small is UNSET and settings.isolation != MEMORY else FoundPrograms()
    programs = companion_programs.with_own(programs, strategy, sandboxed=settings.isolation != MEMORY)
    entries, more = companion_programs.for_agent(programs, strategy)
    skills, advice = (*skills, *entries), "\n\n".join(filter(None, (advice, more)))
    tools = (*tools, *([SPEC] if companion_programs.is_offered(programs) else []))
    refuse_other_provider(model, strategy)
    _refuse_small_window(model, system, tools, subject.text + instructions.text + advice)
    texts = tuple(PromptText(name, prompt_text(name)) for name in getattr(strategy, "texts", ()))
    network = network_of(resolved, profile, environ, request.cwd)
    return Plan(
        request, model, strategy, limits, budgets, profile, system, tools, texts, network, small, instructions,
        skills, advice, programs,
    )  # fmt: skip


def _model_offer(
    request: Request, model: Model, strategy: MemoryStrategy, optional: tuple[Tool, ...], slots: Mapping[str, str]
) -> tuple[tuple[ToolSpec, ...], str, SmallSize | UnsetType]:
    """Return the tools as the model sees them, the name of its prompt, and what the small size adds."""
    filled, resolved = tuple(slots.items()), request.resolved
    if not is_small(resolved.settings.size, model, strategy):
        jobs = job_tools(strategy.tools) if request.jobs else ()
        own = with_command_fields(strategy.tools, request.long_commands, bool(jobs))
        more = (*jobs, *parallel_offer(resolved.settings, strategy))
        own = own if vision_in_force(model, request) is None else with_images(own)
        return tool_specs((*own, *optional, *more), filled), strategy.prompt, UNSET
    refuse_small(resolved.settings, model.name)
    if not resolved.is_given("extra_tools"):
        # Qwen2.5-Coder 1.5B solved 6 of 12 tasks by writing whole files, and fewer with edits (docs/experiments.md).
        optional = tuple(tool for tool in optional if tool is not EditFile)
    offer = small_offer(strategy, optional)
    return tool_specs(offer.tools, filled), offer.prompt, SmallSize(later=tool_specs(offer.later, filled))


def _model(request: Request, environ: Mapping[str, str], demo: Path | None) -> Model:
    settings = request.resolved.settings
    if request.model == NOBODY:
        return Nobody()
    model = open_model(
        request.model,
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
    if tokens > model.window_tokens / 2 and isinstance(model, HasTokenizer):
        tokens = model.count_prompt(View(system, tools, Log((Message("user", (Text(task),)),)))) or tokens
    if tokens > model.window_tokens / 2:
        source = getattr(model, "window_source", "")
        origin = f" ({source})" if source else ""
        raise UsageError(
            f"the window of {model.window_tokens:,} tokens{origin} is too small: "
            f"the prompt and the task take about {tokens:,.0f} of it, more than half; give {model.name} a larger "
            "window (pass its size with --window-tokens), or use --strategy full or a shorter --prompt"
        )


def plan_kept(request: Request, stored: StoredRequest, base: RunStarted, environ: Mapping[str, str]) -> Plan:
    """Return the plan for a run that continues from ``base``, with the recorded sandbox profile.

    The caller sets how it begins. Raise UsageError as ``plan_run`` does.
    """
    plan = plan_run(request, environ)
    if stored.program is not None:
        plan = with_mounts(plan, stored.program, Path(stored.subject))
    profile = replace(plan.profile, network=base.network, command_seconds=base.command_seconds)
    return replace(plan, profile=profile, network=network_kept(plan.network, base))


def with_mounts(plan: Plan, program: ProgramRequest, folder: Path | None) -> Plan:
    """Return the plan with read-only mounts for ``--mount`` and for the program's folder if it is outside the
    workspace.
    """
    path = Path(program.path)
    outside = folder is None or not path.is_relative_to(folder)
    paths = [*([str(path.parent)] if outside else []), *program.mounts]
    mounts = tuple(Mount(each, each) for each in dict.fromkeys(paths))
    return replace(plan, profile=replace(plan.profile, mounts=(*plan.profile.mounts, *mounts)))


def must_be_original(run: Run, doing: str) -> None:
    """Raise if the run is imported or redacted: its texts are not the ones that were sent.

    ``doing`` is the operation as a participle, for the message: ``forked``. Raise UsageError if the run was imported,
    or is a redacted copy. Raise TraceError if the first record of the trace is broken.
    """
    refuse_imported(run.start, doing)
    if run.start.redacted is not UNSET:
        raise UsageError(f"{run.id} is a redacted copy and cannot be {doing}: its texts were changed; use the original")


def _system(settings: Settings, prompt: str, slots: Mapping[str, str]) -> str:
    if settings.prompt is None:
        return fill(prompt_text(prompt), slots)
    try:
        return fill(read_regular_text(settings.prompt, _MAX_PROMPT_BYTES), slots).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"the prompt {settings.prompt} cannot be read ({reason}); name a text file") from error
    except KeyError as error:
        raise UsageError(
            f"the prompt {settings.prompt} has the unknown slot {error}; known: {', '.join(sorted(slots))}"
        ) from error


def _profile(request: Request, environ: Mapping[str, str]) -> Profile:
    """Return the profile with the settings' overrides, the task's toolchains and the files of the user's skills."""
    resolved = request.resolved
    profile = profile_in_force(resolved, request.cwd)
    task = request.subject.task
    toolchains = tuple(_toolchain(task, path) for path in task.toolchains) if task else ()
    skills = companion_skills.skill_mounts(request.skills.skills, request.subject.folder, environ)
    programs = companion_programs.program_mounts(request.programs.folders, request.subject.folder)
    return replace(profile, mounts=(*profile.mounts, *toolchains, *skills, *programs))


def _toolchain(task: Task, path: str) -> Mount:
    """Return the mount for a toolchain that a task requests.

    Tasks come from third parties, so they may mount only system program folders, never a user's files.
    """
    real = Path(path).resolve()
    if not any(real.is_relative_to(root) for root in _TOOLCHAIN_PLACES):
        places = ", ".join(map(str, _TOOLCHAIN_PLACES))
        raise UsageError(
            f"the task {task.short_name} needs the toolchain {path}, which is not under {places}; "
            "grant it with a mount in a profile (--profile FILE)"
        )
    return Mount(str(real), path)
