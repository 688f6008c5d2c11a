"""A trial by an agent that is not ours: a command in the trial's sandbox, whose only network is a gateway.

Its run is one of ours, in which a script gives that command and takes its end: so workspace, limits, checks and patch
are those of every trial. What the agent asked of its provider stands in the runs of the gateway beside it.
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

from stackmem.core.facts import ToolReturned
from stackmem.doors.listening.token import TOKEN_HEADER
from stackmem.errors import UsageError
from stackmem.lab.bench.plan import Trial
from stackmem.run.prepare import Prepared
from stackmem.run.result import RunResult
from stackmem.run.solve import solve
from stackmem.trace.lineage import RunReader
from stackmem.workspace.egress.door import PORT
from stackmem.workspace.profile import Profile, read_profile
from stackmem.workspace.project.installations import find_program, runnable
from stackmem.workspace.project.project import Project

from .agents import agent_command, gateway_variables
from .framing import cutter_of
from .serving import GatewayTerms, serving
from .upstream import own_keys, upstreams

_HARBOR = "harbor:"
INSTRUCTION, MODEL, PROVIDER = "{instruction}", "{model}", "{provider}"
HONOURED = frozenset({
    "isolation", "network", "allow", "credentials", "max_usd", "max_seconds", "profile", "base_url", "fsync",
})  # fmt: skip
"""The settings that mean something for an agent that is not ours."""

_URL = f"http://127.0.0.1:{PORT}"
_TOKEN = "TRIAL_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_SECONDS = 3_600.0
_SENT_MIB = 16 * 1024
_NO_KEY = "stackmem"
_PROVIDERS = {"anthropic": "anthropic", "openai": "openai", "responses": "openai"}
_SHOWN_CHARS = 500
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class AgentTrial(Struct, frozen=True):
    """What came of it."""

    result: RunResult  # of the run in which the agent was a command: the verdict is there
    conversations: tuple[Path, ...]  # the gateway's runs, in the order in which they began
    failure: str  # why nobody can say what the agent would have come to; empty where one can


def read_agent(text: str, cwd: Path, search: str) -> tuple[str, ...]:
    """The words of an agent's command; its program, and each file of the person's in it, by the whole path.

    What stands before the program as NAME=VALUE is kept as it is. ``harbor:NAME PROGRAM ...`` is that agent of Harbor,
    with the programs that it runs where they do not lie beside Harbor's own.
    """
    try:
        variables, words = _parted(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--agent {text[:80]!a} is no command ({error}); write it as in a shell") from error
    if words and words[0].startswith(_HARBOR):
        words = _of_harbor(words, search)
    if not any(INSTRUCTION in word for word in words[1:]):
        raise UsageError(
            f"--agent takes a command with {INSTRUCTION} where the task's text goes: mini -t {INSTRUCTION}"
        )
    place = shutil.which(words[0], path=search) or shutil.which(cwd / words[0])
    if place is None:
        raise UsageError(f"--agent: there is no program {words[0][:80]!a} on your PATH; install it, or name its file")
    files = (str(cwd / word) if (cwd / word).is_file() else word for word in words[1:])
    return (*variables, str(runnable(cwd / place)), *files)


def _of_harbor(words: tuple[str, ...], search: str) -> tuple[str, ...]:
    """The command that runs an agent of Harbor in the sandbox, by the Python that Harbor is installed for."""
    name, programs = words[0].removeprefix(_HARBOR), [shutil.which(word, path=search) for word in words[1:]]
    harbor = shutil.which("harbor", path=search)
    if harbor is None:
        raise UsageError(
            f"--agent {_HARBOR}{name[:80]}: there is no harbor on your PATH; pip install harbor (Python 3.12 or later)"
        )
    for word, program in zip(words[1:], programs, strict=True):
        if program is None:
            raise UsageError(f"--agent {_HARBOR}{name[:80]}: there is no program {word[:80]!a} on your PATH")
    python = Path(harbor).resolve().with_name("python")
    script = Path(__file__).with_name("harbor_agent.py")
    found = (str(runnable(Path(program))) for program in programs if program)
    return (str(python), str(script), name, f"{PROVIDER}/{MODEL}", INSTRUCTION, *found)


def _parted(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that stand before a program, and the program with its words."""
    begin = next((place for place, word in enumerate(words) if not _VARIABLE.match(word)), len(words))
    return tuple(words[:begin]), tuple(words[begin:])


def refuse_for_agent(models: Iterable[str], strategies: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Raises ``UsageError`` for what cannot be with an agent that is not ours."""
    for strategy in strategies:
        cutter_of(strategy)
    for model in models:
        _provider(model)
    for name in settings:
        if name not in HONOURED:
            known = ", ".join(sorted(HONOURED))
            raise UsageError(f"--agent: {name} means nothing to an agent that is not ours; what does: {known}")
    if settings.get("network", "list") != "list":
        raise UsageError("--agent: the gateway is the agent's only network; list more hosts with --allow, or none")
    if settings.get("isolation", "auto") not in ("auto", "bubblewrap", "namespaces"):
        raise UsageError("--agent needs a sandbox with a network of its own; take isolation bubblewrap or namespaces")


def solve_by_agent(
    trial: Trial,
    prepare_with: Callable[[Mapping[str, Any]], Prepared],  # the task's run under settings
    places: tuple[Path, Path],  # where runs are kept, and a folder for what is made meanwhile
    environ: Mapping[str, str],
) -> AgentTrial:
    """Let the agent work on a task, behind a gateway that applies the trial's strategy."""
    runs, scratch = places
    scratch.mkdir(parents=True, exist_ok=True)
    given = trial.settings
    to = replace(upstreams(given.get("base_url"), environ), keys=own_keys(environ), replaces=True)
    terms = GatewayTerms(
        to, runs, max_usd=given.get("max_usd"), strategy=trial.variant.strategy, names=(_URL.partition("//")[2],)
    )
    script = scratch / "agent.json"
    with serving(terms, environ) as served:
        here = f"{_URL}=127.0.0.1:{served.port},POST"
        brings = f"127.0.0.1:{TOKEN_HEADER}=${_TOKEN}"  # the sandbox's proxy does: neither agent nor record has it
        prepared = prepare_with({
            "max_usd": None, "base_url": None, "network": "list", "allow": (*given.get("allow", ()), here),
            "credentials": (*given.get("credentials", ()), brings),
            "strategy": "full", "model": f"script:{script}", "max_seconds": None,
            "command_seconds": given.get("max_seconds") or _SECONDS,
            "profile": str(_write_profile(trial.agent, given.get("profile"), scratch)),
        })  # fmt: skip
        script.write_text(json.dumps(_script(trial, prepared.subject.text)), encoding="utf-8")
        result = solve(replace(prepared, project=_shown(trial.agent)), {**environ, _TOKEN: served.token})
    folders = tuple(served.gateway.recording.folders)
    return AgentTrial(result, folders, "" if folders else _silence(result, served.gateway.notes))


def _provider(model: str) -> tuple[str, str]:
    """Who is asked for the model, and its name there."""
    prefix, slash, name = model.partition("/")
    if model.startswith("claude-"):
        return "anthropic", model
    if not slash or prefix not in _PROVIDERS:
        raise UsageError(
            f"--agent: an agent asks a provider; name its model anthropic/NAME or openai/NAME, not {model}"
        )
    return _PROVIDERS[prefix], name


def _script(trial: Trial, instruction: str) -> dict[str, Any]:
    """The replies that give the agent's command and take its end."""
    provider, model = _provider(trial.model)
    slots = {INSTRUCTION: instruction, MODEL: model, PROVIDER: provider}
    given, program = _parted(trial.agent)
    keys = {f"{name.upper()}_API_KEY": _NO_KEY for name in ("anthropic", "openai")}  # the gateway has the real ones
    variables = [*(f"{name}={value}" for name, value in {**gateway_variables(_URL), **keys}.items()), *given]
    command = shlex.join(["env", *variables, *(_filled(word, slots) for word in agent_command(program, _URL))])
    return {"replies": [
        {"call": "run_command", "args": {"command": command}},
        {"call": "pop_frame", "args": {"result": "The agent's command has ended."}},
    ]}  # fmt: skip


def _filled(word: str, slots: Mapping[str, str]) -> str:
    """One word with what its slots stand for; what comes in is not looked through again."""
    return re.sub("|".join(map(re.escape, slots)), lambda found: slots[found[0]], word)


def _write_profile(agent: tuple[str, ...], named: str | None, scratch: Path) -> Path:
    """The person's profile with the agent's folder on PATH, and room for what it sends."""
    profile = read_profile(Path(named)) if named else Profile()
    path, room = (*profile.path, str(Path(_parted(agent)[1][0]).parent)), max(_SENT_MIB, profile.network_up_mib)
    values = msgspec.to_builtins(replace(profile, path=path, network_up_mib=room))
    place = scratch / "profile.toml"
    place.write_text("".join(f"{name} = {_toml(value)}\n" for name, value in values.items()), encoding="utf-8")
    return place


def _shown(agent: tuple[str, ...]) -> Project:
    """What commands see of the person's machine: the agent, and what it runs from."""
    files = [Path(word) for word in agent if word.startswith("/") and Path(word).is_file()]
    return Project(installations=tuple(dict.fromkeys(path for file in files for path in find_program(file))))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _silence(result: RunResult, notes: Sequence[str]) -> str:
    """Why nothing is recorded of what an agent asked: what the gateway noticed, or what its command said at its end."""
    if notes:
        return f"nothing that the agent asked could be recorded: {'; '.join(notes)[:_SHOWN_CHARS]}"
    answers = [one.event for one in RunReader(Path(result.run_dir)) if isinstance(one.event, ToolReturned)]
    said = answers[0].text.strip()[-_SHOWN_CHARS:] if answers else result.failure or result.ending
    return f"the agent asked its provider for nothing; its command ended so: {said}"
