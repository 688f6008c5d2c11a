"""Examines this machine's isolation levels and directories, and the abilities of a model server."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stackmem.core.budgets import Budgets
from stackmem.core.errors import UsageError, WorkspaceError
from stackmem.core.log import Log
from stackmem.core.messages import Message, Text, View
from stackmem.core.strategy import budgets_of
from stackmem.core.text import fill
from stackmem.core.tool_schemas import prompt_slots
from stackmem.history.repository import shares_blocks
from stackmem.memory import open_strategy
from stackmem.memory.small import small_offer
from stackmem.models.endpoint import without_login
from stackmem.models.local_servers import LOCAL_SERVERS
from stackmem.models.registry import introduced, open_model, unready
from stackmem.models.tokens import CHARS_PER_TOKEN
from stackmem.providers.openai import OpenAIModel
from stackmem.review.doctor.isolation_probe import LevelReport, survey
from stackmem.review.doctor.probe import ServerProbes, probe_server
from stackmem.run.companion.git_inside import history_told, place_of
from stackmem.run.companion.keys import key_problem
from stackmem.run.folder_choice import layer_over
from stackmem.run.models import asked_of, is_small
from stackmem.run.plan import tool_specs
from stackmem.run.plugins.loading import plugin_problems
from stackmem.run.prepare import profile_of
from stackmem.run.prompts import prompt_text
from stackmem.run.run_folder import TRACE
from stackmem.settings.directories import runs_dir, sandbox_dir
from stackmem.settings.settings import Resolved, resolve
from stackmem.workspace.project.instructions import Instructions, find_instructions
from stackmem.workspace.project.project import Project, find_project

_AUTO = ("bubblewrap", "namespaces")
_STRATEGIES = ("full", "adaptive", "stackheap")
_TASK = "Fix the failing test in this project."
_COMMAND_SECONDS = 30.0
_REPLY_TOKENS = 40  # the mean of 76 replies of Qwen2.5-Coder 1.5B was 43
_CHAT = ("openai/", *(f"{kind}/" for kind in LOCAL_SERVERS))


class Examined(Struct, frozen=True):
    """What ``stackmem doctor`` found."""

    active: str  # level that ``--isolation auto`` selects; empty if none is available
    runs_dir: str
    sandbox_dir: str
    levels: tuple[LevelReport, ...]
    warnings: tuple[str, ...]
    no_layer: str  # why a run would use a copy instead of an overlay over the folder; empty if it would use an overlay
    models: Mapping[str, str]  # maps each provider's model prefix to why its models cannot be used; empty if they can
    shares_blocks: bool = False  # whether such a copy shares disk blocks with the folder's files
    project: Project | None = None
    instructions: str = ""
    git: str = ""


def examine(flags: Mapping[str, object], folder: Path | None = None) -> Examined:
    """Try every isolation level with its real arguments, and inspect a folder to work on.

    Raise UsageError if a folder does not exist or cannot be written, or the profile is broken.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"no folder {folder}; name an existing one")
    warnings = list(plugin_problems())
    cwd = Path.cwd()
    resolved = resolve(flags, os.environ, cwd)
    settings = resolved.settings
    profile = profile_of(settings, cwd)
    root, location, notes = place_of(folder.resolve(), settings) if folder else (None, "", ())
    warnings += notes
    granted = tuple(mount.host for mount in profile.mounts)
    levels = tuple(survey(profile))
    active = next((level.level for level in levels if level.available and level.isolation in _AUTO), "")
    runs = runs_dir(settings, cwd, os.environ)
    if problem := key_problem(os.environ):
        warnings.append(f"runs are not signed: {problem}")
    if wide := sum(run.stat().st_mode & 0o077 > 0 for run in runs.glob("*") if (run / TRACE).exists()):
        warnings.append(
            f"other users of this machine can read {wide} of the runs in {runs}; chmod -R go= makes them private"
        )
    if os.geteuid() == 0:
        warnings.append("you are root: a bug in the sandbox would have full rights; an ordinary user is safer")
    instructions = find_instructions(folder) if folder else Instructions()
    warnings += instructions.notes
    sandbox = sandbox_dir(settings, cwd, os.environ)
    no_layer = _no_layer(root, resolved, cwd, (runs, sandbox))
    return Examined(
        active,
        str(runs),
        str(sandbox),
        levels,
        tuple(warnings),
        no_layer,
        unready(os.environ),
        bool(no_layer) and root is not None and shares_blocks(root, sandbox),
        find_project(root, settings.include, os.environ.get("PATH", ""), granted, location) if root else None,
        instructions.text,
        history_told(root, settings) if root else "",
    )


def _no_layer(folder: Path | None, resolved: Resolved, cwd: Path, folders: tuple[Path, Path]) -> str:
    """Return why no overlay is possible over the folder, or over an empty one if ``folder`` is None."""
    with tempfile.TemporaryDirectory() as empty:
        try:
            return layer_over(folder or Path(empty), (), resolved, cwd, folders)[1]
        except WorkspaceError as error:
            return str(error)


class FirstPrompt(Struct, frozen=True):
    """Size of a strategy's first prompt."""

    strategy: str
    # size by the server's tokenizer if ``counted``, otherwise characters / 2.5. The task, the folder's files and its
    # instructions come on top
    tokens: int
    counted: bool
    seconds: float | None  # time to process it at the speed measured by the probes; None if that is not known
    small: bool = False  # whether a run with this model gets the small size
    # time until a first reply of 40 tokens is complete; None if a speed is not known
    reply_seconds: float | None = None


class ModelReport(Struct, frozen=True):
    """What ``stackmem doctor`` found out about a model."""

    model: str
    address: str
    window_tokens: int
    window_source: str  # where the window size comes from
    probes: ServerProbes
    use: str  # form of tool calls that a run will use, with the option for it; empty if none works
    first_prompts: tuple[FirstPrompt, ...]


def examine_model(name: str, flags: Mapping[str, object]) -> ModelReport:
    """Probe the server of a model."""
    settings = resolve(flags, os.environ, Path.cwd()).settings
    options = asked_of(settings, os.environ)
    if not name.startswith(_CHAT):
        raise UsageError(
            f"doctor probes Chat Completions servers, not {name[:80]!r}; name openai/NAME or llamacpp/NAME"
        )
    model = open_model(
        name, os.environ, base_url=settings.base_url, window_tokens=settings.window_tokens, asked=options
    )
    if not isinstance(model, OpenAIModel):
        raise UsageError(f"{name[:80]!r} is not a Chat Completions server; name openai/NAME or llamacpp/NAME")
    introduced(model)
    probes = probe_server(model.address, model.served_name, options.headers)
    return ModelReport(
        model.name,
        without_login(model.address.url),
        model.window_tokens,
        model.window_source,
        probes,
        _use(probes),
        tuple(_first_prompt(spelled, model, probes) for spelled in _STRATEGIES),
    )


def _use(probes: ServerProbes) -> str:
    if probes.native.form == "native call":
        return "native calls"
    if probes.native.form == "call in the text" and not probes.ignores_tools:
        return "calls read from the text"
    if probes.text.form == "call in the text":
        return "calls read from the text, with --text-calls prompt"
    return ""


def _first_prompt(spelled: str, model: OpenAIModel, probes: ServerProbes) -> FirstPrompt:
    small = is_small("auto", model, open_strategy(spelled))
    view = first_view(spelled, small=small)
    counted = model.count_prompt(view)
    chars = len(view.system) + len(_TASK) + sum(len(tool.description) + len(tool.schema) for tool in view.tools)
    tokens = math.ceil(chars / CHARS_PER_TOKEN) if counted is None else counted
    reading, writing = probes.prompt_speed, probes.reply_speed
    seconds = tokens / reading if reading else None
    reply = seconds + _REPLY_TOKENS / writing if seconds is not None and writing else None
    return FirstPrompt(spelled, tokens, counted is not None, seconds, small, reply)


def first_view(spelled: str, *, small: bool = False) -> View:
    """Return the first prompt of a run with a short task under a strategy."""
    strategy = open_strategy(spelled)
    prompt, tools = strategy.prompt, strategy.tools
    if small:
        offer = small_offer(strategy, ())
        prompt, tools = offer.prompt, offer.tools
    slots = prompt_slots(budgets_of(strategy, Budgets()), _COMMAND_SECONDS)
    task = Log((Message("user", (Text(_TASK),)),))
    return View(fill(prompt_text(prompt), slots), tool_specs(tools, tuple(slots.items())), task)
