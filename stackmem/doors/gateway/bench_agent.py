"""Runs a bench trial with another agent: its command runs in the trial's sandbox and can reach only a gateway.

The trial is an ordinary run of ours whose script starts that command and waits for it. So the workspace, limits,
checks and patch work as in every trial. The gateway's runs next to it record what the agent requested from its
provider.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stackmem.core.errors import UsageError
from stackmem.core.facts import ToolReturned
from stackmem.doors.listening.token import TOKEN_HEADER
from stackmem.lab.bench.plan import Trial
from stackmem.run.request import Request
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from stackmem.settings.frame_key import BELOW_HOME, new_frame_key
from stackmem.trace.lineage import RunReader
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.profile import Profile, read_profile
from stackmem.workspace.project.installations import find_program, runnable
from stackmem.workspace.project.project import Project

from .agents import agent_command, gateway_variables
from .framing import FRAMES, cutter_of
from .serving import GatewayTerms, serving
from .upstream import own_keys, upstreams

_HARBOR = "harbor:"
INSTRUCTION, MODEL, PROVIDER = "{instruction}", "{model}", "{provider}"
HONOURED = frozenset({
    "isolation", "network", "allow", "credentials", "max_usd", "max_seconds", "profile", "base_url", "fsync",
})  # fmt: skip
"""Settings that apply to other agents; all others are refused."""

_URL = f"http://127.0.0.1:{PORT}"
_TOKEN = "TRIAL_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_WITH_FRAME_KEY = f'mkdir -p "$HOME/{Path(BELOW_HOME).parent}"; cp "$1" "$HOME/{BELOW_HOME}"; shift; exec "$@"'
"""Copies the trial's key to where a memory server in the sandbox looks for it, and starts the agent."""
_SECONDS = 3_600.0
_SENT_MIB = 16 * 1024
_NO_KEY = "stackmem"
_PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "responses": "openai", "gemini": "gemini"}
_SHOWN_CHARS = 500
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class AgentTrial(Struct, frozen=True):
    """The result of a trial by another agent."""

    result: RunResult  # of the run that contains the agent as a command, with the verdict
    conversations: tuple[Path, ...]  # the gateway's runs, in the order they began
    failure: str  # why the trial is not a valid measurement; empty if it is


def read_agent(text: str, cwd: Path, search: str) -> tuple[str, ...]:
    """Split an agent's command into words; make its program and the user's files in it absolute paths.

    NAME=VALUE words before the program are kept. ``harbor:NAME PROGRAM ...`` runs that Harbor agent; the programs it
    needs are listed if they are not installed next to Harbor. ``search`` is the user's PATH. Raise UsageError if the
    text is not a command, does not take an instruction, or its program does not exist.
    """
    try:
        variables, words = _parted(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--agent {text[:80]!a} is not a valid command ({error}); write it as in a shell") from error
    if words and words[0].startswith(_HARBOR):
        words = _of_harbor(words, search)
    if not any(INSTRUCTION in word for word in words[1:]):
        raise UsageError(
            f"--agent needs a command with {INSTRUCTION} in place of the task's text: mini -t {INSTRUCTION}"
        )
    location = shutil.which(words[0], path=search) or shutil.which(cwd / words[0])
    if location is None:
        raise UsageError(f"--agent: no program {words[0][:80]!a} on your PATH; install it, or pass its path")
    files = (str(cwd / word) if (cwd / word).is_file() else word for word in words[1:])
    return (*variables, str(runnable(cwd / location)), *files)


def _of_harbor(words: tuple[str, ...], search: str) -> tuple[str, ...]:
    """Return the command that runs a Harbor agent in the sandbox, with the Python of the Harbor installation."""
    name, programs = words[0].removeprefix(_HARBOR), [shutil.which(word, path=search) for word in words[1:]]
    harbor = shutil.which("harbor", path=search)
    if harbor is None:
        raise UsageError(
            f"--agent {_HARBOR}{name[:80]}: harbor is not on your PATH; pip install harbor (Python 3.12 or later)"
        )
    for word, program in zip(words[1:], programs, strict=True):
        if program is None:
            raise UsageError(f"--agent {_HARBOR}{name[:80]}: no program {word[:80]!a} on your PATH")
    python = Path(harbor).resolve().with_name("python")
    script = Path(__file__).with_name("harbor_agent.py")
    paths = (str(runnable(Path(program))) for program in programs if program)
    return (str(python), str(script), name, f"{PROVIDER}/{MODEL}", INSTRUCTION, *paths)


def _parted(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the leading variables from the program and its arguments."""
    begin = next((position for position, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    return tuple(words[:begin]), tuple(words[begin:])


def refuse_for_agent(models: Iterable[str], strategies: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for models, strategies and settings that other agents cannot use."""
    for strategy in strategies:
        cutter_of(strategy)
    for model in models:
        _provider(model)
    for name in settings:
        if name not in HONOURED:
            names = ", ".join(sorted(HONOURED))
            raise UsageError(f"--agent: {name} does not apply to other agents; settings that do: {names}")
    if settings.get("network", "list") != "list":
        raise UsageError(
            "--agent: the agent can reach only the gateway; allow more hosts with --allow, or leave --network out"
        )
    if settings.get("isolation", "auto") not in ("auto", "bubblewrap", "namespaces"):
        raise UsageError("--agent needs a sandbox with a separate network; use --isolation bubblewrap or namespaces")


def solve_by_agent(
    trial: Trial,
    prepare_with: Callable[[Mapping[str, Any]], Request],  # prepares the task's run with these settings
    places: tuple[Path, Path],  # the folder for runs, and a scratch folder
    environ: Mapping[str, str],
) -> AgentTrial:
    """Let the agent work on a task, behind a gateway that applies the trial's strategy.

    Raises:
        UsageError, WorkspaceError, TraceError: As ``solve`` and ``serving``.
    """
    runs, scratch = places
    scratch.mkdir(parents=True, exist_ok=True)
    settings = trial.settings
    to = replace(upstreams(settings.get("base_url"), environ), keys=own_keys(environ), replaces=True)
    frame_key, key_file = new_frame_key(), scratch / "frames.key"
    terms = GatewayTerms(
        to, runs, max_usd=settings.get("max_usd"), strategy=trial.variant.strategy, names=(_URL.partition("//")[2],),
        frame_keys=(frame_key,),
    )  # fmt: skip
    script = scratch / "agent.json"
    with serving(terms, environ) as served:
        here = f"{_URL}=127.0.0.1:{served.port},POST"
        # added by the sandbox's proxy, so neither the agent nor the record contains the token
        brings = f"127.0.0.1:{TOKEN_HEADER}=${_TOKEN}"
        request = prepare_with({
            "max_usd": None, "base_url": None, "network": "list", "allow": (*settings.get("allow", ()), here),
            "credentials": (*settings.get("credentials", ()), brings),
            "strategy": "full", "model": f"script:{script}", "max_seconds": None,
            "command_seconds": settings.get("max_seconds") or _SECONDS,
            "profile": str(_write_profile(trial.agent, settings.get("profile"), scratch)),
        })  # fmt: skip
        if trial.variant.strategy == FRAMES:
            key_file.touch(0o600)
            key_file.write_bytes(frame_key)
        script.write_text(json.dumps(_script(trial, request.subject.text, key_file)), encoding="utf-8")
        result = solve(replace(request, project=_project_of(trial.agent, key_file)), {**environ, _TOKEN: served.token})
    folders = tuple(served.gateway.recording.folders)
    return AgentTrial(result, folders, "" if folders else _silence(result, served.gateway.notes))


def _provider(model: str) -> tuple[str, str]:
    """Return the provider of a model, and the model's name there."""
    prefix, slash, name = model.partition("/")
    if model.startswith("claude-"):
        return "anthropic", model
    if not slash or prefix not in _PROVIDERS:
        raise UsageError(
            f"--agent: an agent needs a provider's model; write anthropic/NAME, openai/NAME or gemini/NAME, not {model}"
        )
    return _PROVIDERS[prefix], name


def _script(trial: Trial, instruction: str, key_file: Path) -> dict[str, Any]:
    """Build the script whose replies start the agent's command and end the run."""
    provider, model = _provider(trial.model)
    slots = {INSTRUCTION: instruction, MODEL: model, PROVIDER: provider}
    assignments, program = _parted(trial.agent)
    # placeholders: the gateway has the real keys
    keys = {f"{name.upper()}_API_KEY": _NO_KEY for name in ("anthropic", "openai", "gemini")}
    variables = [*(f"{name}={value}" for name, value in {**gateway_variables(_URL), **keys}.items()), *assignments]
    words = ["env", *variables, *(_filled(word, slots) for word in agent_command(program, _URL))]
    if key_file.exists():
        words = ["sh", "-c", _WITH_FRAME_KEY, "sh", str(key_file), *words]
    command = shlex.join(words)
    return {"replies": [
        {"call": "run_command", "args": {"command": command}},
        {"call": "pop_frame", "args": {"result": "The agent's command has ended."}},
    ]}  # fmt: skip


def _filled(word: str, slots: Mapping[str, str]) -> str:
    """Replace the placeholders of one word; inserted values are not expanded again."""
    return re.sub("|".join(map(re.escape, slots)), lambda match: slots[match[0]], word)


def _write_profile(agent: tuple[str, ...], profile_path: str | None, scratch: Path) -> Path:
    """Write the user's profile with the agent's folder added to PATH and a higher upload limit."""
    profile = read_profile(Path(profile_path)) if profile_path else Profile()
    path, room = (*profile.path, str(Path(_parted(agent)[1][0]).parent)), max(_SENT_MIB, profile.network_up_mib)
    values = msgspec.to_builtins(replace(profile, path=path, network_up_mib=room))
    target = scratch / "profile.toml"
    target.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in values.items()), encoding="utf-8")
    return target


def _project_of(agent: tuple[str, ...], key_file: Path) -> Project:
    """Return the files of the user's machine that commands may see: the agent, its installation and the trial's key."""
    files = [Path(word) for word in agent if word.startswith("/") and Path(word).is_file()]
    paths = (path for file in files for path in find_program(file))
    return Project(installations=tuple(dict.fromkeys((*paths, *([str(key_file)] if key_file.exists() else ())))))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _silence(result: RunResult, notes: Sequence[str]) -> str:
    """Explain why the gateway recorded no request: its notes, or the end of the command's output."""
    if notes:
        return f"the agent's requests could not be recorded: {'; '.join(notes)[:_SHOWN_CHARS]}"
    answers = [record.event for record in RunReader(Path(result.run_dir)) if isinstance(record.event, ToolReturned)]
    output = answers[0].text.strip()[-_SHOWN_CHARS:] if answers else result.failure or result.ending
    return f"the agent sent no requests to its provider; its command ended with: {output}"
