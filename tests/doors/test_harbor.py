"""stackmem as Harbor's agent: one sentence without Harbor, and a real run in a real process with its interface."""

import asyncio
import importlib
import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackmem.core.errors import ModelError, UsageError, WorkspaceError
from stackmem.doors.harbor import VERSION, read_result, setup_command, solve_command
from tests.stage import ROOT, Stage, call, pop

HARBORS = """
from abc import ABC, abstractmethod

class BaseAgent(ABC):
    SUPPORTS_ATIF = False

    def __init__(self, logs_dir, model_name=None, logger=None, mcp_servers=None, skills_dir=None, *args,
                 extra_env=None, **kwargs):
        self.logs_dir, self.model_name, self._extra_env = logs_dir, model_name, dict(extra_env or {})
        if kwargs:
            raise TypeError(f"unknown arguments: {kwargs}")

    @property
    def extra_env(self):
        return dict(self._extra_env)

    @staticmethod
    @abstractmethod
    def name(): ...
    @abstractmethod
    def version(self): ...
    @abstractmethod
    async def setup(self, environment): ...
    @abstractmethod
    async def run(self, instruction, environment, context): ...
"""
CAPABLE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class AgentCapabilities:
    atif: bool = False
"""


class Process:
    """An environment whose commands are processes of this machine, in a private folder."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.folder, self.path = folder, path
        self.commands: list[str] = []
        self.uploaded: list[tuple[str, str]] = []

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        self.commands.append(command)
        environ = {"PATH": f"{self.path}:{os.environ['PATH']}", "HOME": str(self.folder), **(env or {})}
        run = await asyncio.create_subprocess_shell(
            command, cwd=cwd or self.folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await run.communicate()
        return SimpleNamespace(stdout=out.decode(), stderr=err.decode(), return_code=run.returncode)

    async def upload_file(self, source_path, target_path):
        self.uploaded.append((source_path, target_path))


@pytest.fixture
def agent_class(tmp_path, monkeypatch):
    """Return the class, built on a stand-in for Harbor's base class."""
    package = tmp_path / "harbors" / "harbor" / "agents"
    package.mkdir(parents=True)
    for name, text in {"../__init__": "", "__init__": "", "base": HARBORS, "capabilities": CAPABLE}.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "harbors"))
    for name in [name for name in sys.modules if name == "harbor" or name.startswith("harbor.")]:
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("stackmem.doors.harbor")
    yield module.StackmemAgent
    del module.StackmemAgent
    for name in [name for name in sys.modules if name == "harbor" or name.startswith("harbor.")]:
        del sys.modules[name]


@pytest.fixture
def container(stage: Stage):
    """A working directory with one file, and stackmem on the path."""
    (stage.root / "bin").mkdir()
    program = stage.root / "bin" / "stackmem"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {sys.executable} -m stackmem "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (stage.root / "app").mkdir()
    (stage.root / "app" / "a.txt").write_text("old\n")
    return Process(stage.root / "app", stage.root / "bin")


def context():
    return SimpleNamespace(n_input_tokens=None, n_cache_tokens=None, n_output_tokens=None, cost_usd=None, metadata=None)


def worked(agent_class, stage, container, *replies, **settings):
    """Return the agent and the context after all its work."""
    logs = stage.root / "logs"
    agent = agent_class(logs, stage.script(*replies), logs=str(logs), **settings)
    told = context()

    async def work():
        await agent.setup(container)
        await agent.run("Make a.txt new; don't ask 'why'.", container, told)

    asyncio.run(work())
    return agent, told


CHANGE = call("write_file", path="a.txt", content="new\n")


def test_without_harbor_the_module_loads_and_the_class_says_what_is_missing():
    import stackmem.doors.harbor

    with pytest.raises(UsageError, match="needs Harbor, which is not installed here; in the environment"):
        _ = stackmem.doors.harbor.StackmemAgent
    with pytest.raises(AttributeError):
        _ = stackmem.doors.harbor.Surprise


def test_the_class_is_what_harbor_makes_agents_of(agent_class):
    assert agent_class.__mro__[2].__name__ == "BaseAgent"
    assert (agent_class.name(), agent_class.SUPPORTS_ATIF, agent_class.capabilities.atif) == ("stackmem", True, True)
    assert f"{agent_class.__module__}:{agent_class.__name__}" == "stackmem.doors.harbor:StackmemAgent"
    assert agent_class(Path("logs"), "anthropic/x").version() == VERSION
    with pytest.raises(TypeError, match="unknown arguments"):
        agent_class(Path("logs"), surprise=1)


def test_it_solves_in_the_working_directory_and_leaves_its_trajectory_where_harbor_looks_for_it(
    agent_class, stage, container
):
    _, told = worked(agent_class, stage, container, CHANGE, pop("It is new."))
    assert (container.folder / "a.txt").read_text() == "new\n"
    assert told.n_output_tokens > 0
    assert told.n_input_tokens > 0
    assert (told.n_cache_tokens, told.cost_usd) == (0, None)
    ours = told.metadata["stackmem"]
    assert (ours["outcome"], ours["steps"], ours["result"]) == ("finished", 2, "It is new.")
    trajectory = json.loads((stage.root / "logs" / "trajectory.json").read_text())
    assert (trajectory["schema_version"], trajectory["session_id"]) == ("ATIF-v1.8", ours["run"])
    assert "don't ask 'why'" in trajectory["steps"][1]["message"]


class Answering(Process):
    """An environment in which no command runs and every command prints the same."""

    def __init__(self, said: str, code: int = 0) -> None:
        super().__init__(Path(), Path())
        self.said, self.code = said, code
        self.environs: list[dict[str, str]] = []

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        self.commands.append(command)
        self.environs.append(env or {})
        return SimpleNamespace(stdout=self.said, stderr=None, return_code=self.code)


SAYS = '{"run": "r", "outcome": "solved", "usage": {"uncached": 1, "cache_read": 2, "cache_write_5m": 4}}'


def test_its_settings_are_flags_its_wheel_is_uploaded_and_only_keys_go_along(agent_class, stage, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("SOMETHING_ELSE", "x")
    container = Answering(SAYS)
    _, told = worked(
        agent_class, stage, container, pop(), strategy="full", max_steps=9, wheel="/dist/stackmem-1.whl",
        extra_env={"OPENAI_API_KEY": "own"},
    )  # fmt: skip
    assert container.uploaded == [("/dist/stackmem-1.whl", "/tmp/stackmem-1.whl")]
    assert "pip install --quiet /tmp/stackmem-1.whl" in container.commands[0]
    assert "--strategy full --max-steps 9" in container.commands[1]
    assert container.environs == [{}, {"ANTHROPIC_API_KEY": "sk-test", "OPENAI_API_KEY": "own"}, {}]
    assert (told.n_input_tokens, told.n_cache_tokens, told.n_output_tokens) == (7, 2, 0)


def test_results_of_a_run_ended_by_a_limit_are_copied_back_too(agent_class, stage, container):
    _, told = worked(agent_class, stage, container, CHANGE, *[call("list_files")] * 5, max_steps=3)
    assert told.metadata["stackmem"]["ending"] == "limit:steps"
    assert (container.folder / "a.txt").read_text() == "new\n"


def test_a_provider_that_fails_is_an_error_of_the_trial_with_its_context(agent_class, stage, container):
    with pytest.raises(ModelError, match="ended early: script: "):
        worked(agent_class, stage, container, CHANGE)


def test_a_program_that_does_not_start_is_an_error_with_its_words(agent_class, stage, container):
    with pytest.raises(ModelError, match="no strategy 'nonsense'"):
        worked(agent_class, stage, container, pop(), strategy="nonsense")


def test_a_container_without_installers_is_reported(agent_class, stage):
    with pytest.raises(WorkspaceError, match=r"needs Python 3.11 or later with pip: no pip here"):
        worked(agent_class, stage, Answering("no pip here", 1), pop())


@pytest.mark.parametrize("text", ["it's", "$(rm -rf x) `y` \\", "-t --help", "two\nlines", "", "é\u202e"])
def test_an_instruction_reaches_the_program_whole(text):
    words = shlex.split(solve_command(text, None, {}).removesuffix(" </dev/null"))
    assert words[3] == f"--text={text}"
    assert "--model" not in words


@pytest.mark.parametrize(
    ("stdout", "found"),
    [
        (None, None),
        ("", None),
        ("no JSON\n{", None),
        ("7\n[]\n{}", None),
        ('{"outcome": "solved"}\nlast words', {"outcome": "solved"}),
    ],
)
def test_the_result_is_the_last_object_with_an_outcome(stdout, found):
    assert read_result(stdout) == found


def test_without_a_wheel_nothing_is_installed_and_the_message_says_what_to_pass(tmp_path: Path):
    """stackmem is not on the package index, so an index install would run the code of whoever takes the name."""
    said = setup_command(None, "no-such-stackmem")
    ran = subprocess.run(["/bin/sh", "-c", said], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "stackmem is not installed in the container; pass a wheel: --ak wheel=PATH\n"
    assert "pip" not in said


HARBOR_LOADS = """
import asyncio, sys
from pathlib import Path
from harbor.agents.base import BaseAgent
from harbor.models.agent.context import AgentContext
from stackmem.doors.harbor import StackmemAgent, fill_context
assert issubclass(StackmemAgent, BaseAgent)
agent = StackmemAgent(logs_dir=Path(sys.argv[1]), model_name="anthropic/claude-haiku-4-5", strategy="full")
assert agent.to_agent_info().name == "stackmem"
assert StackmemAgent.import_path() == "stackmem.doors.harbor:StackmemAgent"
context = AgentContext()
fill_context(context, {"usage": {"uncached": 3, "output": 1}, "cost_usd": 0.1, "run": "r", "outcome": "solved"})
assert (context.n_input_tokens, context.n_output_tokens, context.cost_usd) == (3, 1, 0.1)
print(AgentContext.model_validate_json(context.model_dump_json()).metadata["stackmem"]["outcome"])
"""


@pytest.mark.campaign
@pytest.mark.skipif(
    "HARBOR_PYTHON" not in os.environ, reason="run scripts/harbor.sh, which creates the environment and prints its name"
)
def test_harbor_itself_makes_the_agent_and_takes_its_context(tmp_path):
    command = [os.environ["HARBOR_PYTHON"], "-c", HARBOR_LOADS, str(tmp_path)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "solved\n"), ran.stderr


HARBOR_INSTALLS = """
import asyncio, os, shutil, subprocess, sys
from pathlib import Path
from types import SimpleNamespace
from harbor.models.agent.context import AgentContext
from stackmem.doors.harbor import StackmemAgent

place, wheel, model = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
app, logs = place / "app", place / "logs"

class Container:
    async def upload_file(self, source_path, target_path):
        shutil.copy(source_path, target_path)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        own = {"PATH": f"{place / 'python' / 'bin'}:/usr/bin:/bin", "HOME": str(place), **kept, **(env or {})}
        run = subprocess.run(command, shell=True, cwd=app, env=own, capture_output=True, text=True)
        return SimpleNamespace(stdout=run.stdout, stderr=run.stderr, return_code=run.returncode)

async def work():
    agent, context = StackmemAgent(logs, model, wheel=wheel, logs=str(logs)), AgentContext()
    await agent.setup(Container())
    await agent.run("Make a.txt new.", Container(), context)
    return context.metadata["stackmem"]["outcome"]

print(asyncio.run(work()), (app / "a.txt").read_text(), (logs / "trajectory.json").is_file())
"""


@pytest.mark.campaign
@pytest.mark.skipif(
    "HARBOR_WHEEL" not in os.environ, reason="run scripts/harbor.sh, which builds the wheel and prints its name"
)
def test_harbors_agent_installs_the_wheel_it_is_given_and_works(stage, tmp_path):
    python, wheel = os.environ["HARBOR_PYTHON"], os.environ["HARBOR_WHEEL"]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a.txt").write_text("old")
    subprocess.run([python, "-m", "venv", tmp_path / "python"], check=True)
    command = [python, "-c", HARBOR_INSTALLS, str(tmp_path), wheel, stage.script(CHANGE, pop())]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.split()) == (0, ["finished", "new", "True"]), ran.stdout + ran.stderr
