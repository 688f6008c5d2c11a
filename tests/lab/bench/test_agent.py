"""Benches of third-party agents: a command in the trial's sandbox, with a gateway as its only network."""

from __future__ import annotations

import json
import os
import shlex
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stackmem.core.errors import UsageError
from stackmem.core.facts import ToolReturned
from stackmem.doors.gateway.bench_agent import read_agent
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.lab.bench.plan import trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.suite import SuiteRequest, read_suite
from stackmem.lab.bench.trial import Job, Row, run_trial
from stackmem.trace.lineage import RunReader
from stackmem.trace.verify import verify
from tests.doors.gateway.simulated_upstream import SimulatedUpstream
from tests.doors.gateway.upstream import RawAnswer, RawUpstream
from tests.stage import ROOT, Stage, events

KEY = "sk-the-persons-own-key-1234"
OF_OTHERS = f"{sys.executable} {Path(__file__).with_name('agent_of_others.py')} {{model}} {{instruction}}"
ASKS = """
import json, os, sys, urllib.request
def ask(address, **more):
    body = json.dumps({"model": sys.argv[1], "messages": [{"role": "user", "content": sys.argv[2]}]}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    return urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=100).read().decode()
def ask_provider():
    return ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions")
"""
"""The first lines of small agents: how they call their provider using only Python's standard library."""
ANSWER = {
    "id": "1", "object": "chat.completion", "created": 0, "model": "sim",
    "usage": {"prompt_tokens": 9_000, "completion_tokens": 2},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}],
}  # fmt: skip


@pytest.fixture
def upstream() -> Iterator[RawUpstream]:
    whole = RawAnswer((json.dumps(ANSWER).encode(),), headers=(("content-type", "application/json"),))
    with RawUpstream(answer=lambda _: whole) as served:
        yield served


def small_agent(code: str) -> str:
    return f"{sys.executable} -c {shlex.quote(ASKS + code)} {{model}} {{instruction}}"


def tried(stage: Stage, agent: str, upstream: RawUpstream, **asked: Any) -> list[Row]:
    """Return the rows of a bench of this agent, whose trials run in this process."""
    settings = {"base_url": f"{upstream.url}/v1", **asked.pop("settings", {})}
    given: dict[str, Any] = {"models": ("openai/sim",), "strategies": ("full",)} | asked
    environ = {**os.environ, "OPENAI_API_KEY": KEY}
    plan = make_plan(SuiteRequest(agent=agent, settings=settings, **given), ROOT, environ)
    place = str(stage.root / "bench")
    return [
        run_trial(Job(trial, place, plan.price, plan.latency_seconds, "all"), environ=environ) for trial in trials(plan)
    ]


def said(stage: Stage, row: Row) -> str:
    """Return the output of the agent's command."""
    return events(stage.root / "bench" / row["run"], ToolReturned)[0].text


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_third_party_agent_solves_a_world_under_two_strategies_and_verifies(stage: Stage):
    with RawUpstream(answer=SimulatedUpstream().answer) as upstream:
        made = tried(
            stage, OF_OTHERS, upstream, worlds=("spec_map",), horizons=(20,), strategies=("full", "mask:2,poll=2")
        )
        keys = {headers["authorization"] for _, headers, _ in upstream.seen}
    assert [row["outcome"] for row in made] == ["solved", "solved"]
    assert made[0]["steps"] == 20
    assert made[1]["peak_context_tokens"] < made[0]["peak_context_tokens"] * 2 / 3
    assert keys == {f"Bearer {KEY}"}
    place = stage.root / "bench"
    for row in made:
        assert verify(RunReader(place / row["run"])).same_rules
        verified = verify_gateway_run(place / row["conversations"])
        assert (verified.not_followed, verified.cuts > 0) == (0, row["strategy"] != "full")
    assert KEY.encode() not in everything(place)


def test_its_provider_is_all_that_it_reaches_and_its_key_is_none(stage: Stage, upstream: RawUpstream):
    code = f"""
print(os.environ["OPENAI_API_KEY"], "Done." in ask_provider())
for address in ({upstream.url + "/v1/chat/completions"!r}, "http://other.test/"):
    for opener in (urllib.request.ProxyHandler({{}}), urllib.request.ProxyHandler({{"http": "http://127.0.0.1:3128"}})):
        urllib.request.install_opener(urllib.request.build_opener(opener))
        try:
            print("REACHED", ask(address))
        except OSError as error:
            print("refused", error)
"""
    (row,) = tried(stage, small_agent(code), upstream, tasks=(str(stage.task()),))
    assert row["outcome"] == "solved"
    assert said(stage, row).startswith("stackmem True\nrefused")
    assert "REACHED" not in said(stage, row)
    assert len(upstream.seen) == 1
    assert (row["steps"], row["output_tokens"]) == (1, 2)


def test_the_instruction_comes_as_one_word_whatever_it_holds(stage: Stage, upstream: RawUpstream):
    hostile = "a'b\"; echo owned > owned; $(echo x) `y` {model} \\ \n-- é 漢字"
    code = "print(sys.argv[1:], os.listdir())\nask_provider()"
    (row,) = tried(stage, small_agent(code), upstream, tasks=(str(stage.task(text=hostile)),))
    assert said(stage, row).startswith(f"{['sim', hostile.strip()]!r} []") or said(stage, row).startswith(
        f"{['sim', hostile]!r} []"
    )


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "sys.exit('I want an account')",
            "the agent sent no requests to its provider; its command ended with: I want an account",
        ),
        ("print('begun', flush=True); import time; time.sleep(600)", "ended with: begun"),
        ("os.kill(os.getppid(), 9); os.kill(os.getpid(), 9)", "the agent sent no requests to its provider"),
    ],
)
def test_an_agent_that_asks_for_nothing_is_an_error_with_its_last_words(
    stage: Stage, upstream: RawUpstream, code, says
):
    (row,) = tried(stage, small_agent(code), upstream, tasks=(str(stage.task()),), settings={"max_seconds": 1})
    assert (row["outcome"], row["solved"], row["conversations"]) == ("error", None, "")
    assert says in row["error"]


def test_the_gateway_limits_its_spending(stage: Stage, upstream: RawUpstream):
    code = """
for _ in range(3):
    try:
        print(len(ask_provider()) > 0)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""
    (row,) = tried(
        stage, small_agent(code), upstream, tasks=(str(stage.task()),), models=("openai/gpt-6.1-sol",),
        settings={"max_usd": 0.01},
    )  # fmt: skip
    assert "400" in said(stage, row)
    assert len(upstream.seen) == 1


def test_a_memory_server_in_the_sandbox_seals_its_marks_with_the_key_of_the_gateway(
    stage: Stage, upstream: RawUpstream
):
    code = """
import hashlib, hmac, pathlib
def say(call, output, program):
    shown = {"role": "assistant", "content": "", "tool_calls": [
        {"id": call, "type": "function", "function": {"name": "exec", "arguments": json.dumps({"code": program})}}]}
    return [shown, {"role": "tool", "tool_call_id": call, "content": output}]
(key,) = pathlib.Path.home().rglob("frames.key")
print(oct(key.stat().st_mode & 0o777), len(key.read_bytes()))
seals = [hmac.new(with_, b"push_frame " + b"0" * 16, hashlib.sha256).hexdigest()[:16] for with_ in
         (b"0" * 64, key.read_bytes())]
for seal in seals:
    mark = "[stackmem: frame " + "0" * 16 + "." + seal + " begins]"
    messages = [{"role": "user", "content": "Go."}, *say("a", "early", "ls"), *say("b", mark, "push_frame()")]
    body = json.dumps({"model": "sim", "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, headers)
    urllib.request.urlopen(request, timeout=100).read()
"""
    (row,) = tried(stage, small_agent(code), upstream, tasks=(str(stage.task()),), strategies=("stackheap",))
    assert said(stage, row).startswith("0o600 64\n")
    assert [b"early" in body for _, _, body in upstream.seen] == [True, False]


def test_variables_before_its_program_are_its_own(stage: Stage, upstream: RawUpstream):
    code = "print(os.environ['GREETING'])\nask_provider()"
    agent = f"GREETING='a b' OPENAI_API_KEY=hers {small_agent(code)}"
    (row,) = tried(stage, agent, upstream, tasks=(str(stage.task()),))
    assert said(stage, row).startswith("a b")
    assert upstream.seen[0][1]["authorization"] == f"Bearer {KEY}"


def test_unreadable_requests_are_reported(stage: Stage, upstream: RawUpstream):
    code = """
address = os.environ["OPENAI_BASE_URL"] + "/responses"
urllib.request.urlopen(urllib.request.Request(address, b'{"input": [3]}', {"content-type": "a/b"}), timeout=100)
"""
    (row,) = tried(stage, small_agent(code), upstream, tasks=(str(stage.task()),))
    assert row["outcome"] == "error"
    assert row["error"].startswith("the agent's requests could not be recorded: ")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"agent": "no-such-agent {instruction}"}, "no program 'no-such-agent' on your PATH"),
        ({"agent": "sh -c true"}, "needs a command with {instruction}"),
        ({"agent": "{instruction}"}, "needs a command with {instruction}"),
        ({"agent": "A=1 B={instruction}"}, "needs a command with {instruction}"),
        ({"agent": "sh 'x {instruction}"}, "is not a valid command"),
        ({"strategies": ("adaptive",)}, "adaptive"),
        ({"models": ("sim/bounded-reader",)}, "write anthropic/NAME, openai/NAME or gemini/NAME"),
        ({"settings": {"max_steps": 4}}, "max_steps does not apply to other agents"),
        ({"settings": {"network": "host"}}, "the agent can reach only the gateway"),
        ({"settings": {"isolation": "landlock"}}, "use --isolation bubblewrap or namespaces"),
    ],
)
def test_impossible_plans_are_refused_before_any_file_is_created(stage: Stage, asked, says):
    given: dict[str, Any] = {
        "agent": "sh -c true {instruction}", "models": ("openai/sim",), "strategies": ("full",),
        "worlds": ("spec_map",),
    }  # fmt: skip
    with pytest.raises(UsageError) as refused:
        make_plan(SuiteRequest(**given | asked), stage.root, {**os.environ, "OPENAI_API_KEY": KEY})
    assert says in str(refused.value)


def test_a_suite_names_the_agent_and_another_agent_makes_other_trials(stage: Stage):
    suite = stage.root / "others.toml"
    suite.write_text('worlds = ["spec_map"]\nagent = "sh -c true {instruction}"\n', "utf-8")
    assert read_suite(suite, "").agent == "sh -c true {instruction}"

    def names(agent: str) -> set[str]:
        asked = SuiteRequest(agent=agent, models=("openai/sim",), strategies=("full",), worlds=("spec_map",))
        return {trial.id for trial in trials(make_plan(asked, stage.root, {**os.environ, "OPENAI_API_KEY": KEY}))}

    assert not names("sh -c true {instruction}") & names("sh -c false {instruction}")


MADE = 'test -e made.txt && echo 1 > "$VERIFIER_DIR/reward.txt"\n'
FAKE_HARBOR = {
    "models/agent/name.py": "from enum import Enum\nclass AgentName(str, Enum):\n    ASKER = 'asker'\n"
    "    @classmethod\n    def values(cls):\n        return {'asker'}\n",
    "models/agent/context.py": "class AgentContext: pass\n",
    "environments/base.py": "from dataclasses import dataclass\n@dataclass\nclass ExecResult:\n"
    "    return_code: int\n    stdout: str = ''\n    stderr: str = ''\n",
    "agents/factory.py": f"""
import json, os, shlex
class Asker:
    def __init__(self, logs_dir, model_name, skip_install=False):
        assert skip_install
        self.model = model_name
    async def install(self, environment):
        raise RuntimeError("nothing is installed in a sandbox")
    async def setup(self, environment):
        await environment.exec("mkdir -p /installed-agent", user="root")
    async def run(self, instruction, environment, context):
        assert instruction and self.model == "openai/sim", (instruction, self.model)
        code = {ASKS!r} + "print(ask_provider())"
        done = await environment.exec(
            "echo asked > /logs/agent/log && cat /logs/agent/log && touch $MADE && "
            f"python3 -c {{shlex.quote(code)}} sim x",
            env={{"MADE": "made.txt"}},
        )
        assert done.return_code == 0, done.stderr
class AgentFactory:
    @classmethod
    def get_agent_class(cls, name):
        return Asker
""",
}  # fmt: skip
"""The parts of Harbor's interface that one of its agents needs."""


def fake_harbor(stage: Stage) -> Path:
    """Create a Python environment with it; return the folder of its programs."""
    place = stage.root / "of-harbor"
    venv.create(place, with_pip=False, symlinks=True)
    (modules,) = place.glob("lib/python*/site-packages")
    for name, text in FAKE_HARBOR.items():
        path = modules / "harbor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    program = place / "bin" / "harbor"
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)
    return program.parent


def test_an_agent_of_harbor_works_in_the_trials_sandbox(
    stage: Stage, upstream: RawUpstream, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", f"{fake_harbor(stage)}{os.pathsep}{os.environ['PATH']}")
    (row,) = tried(stage, "harbor:asker", upstream, tasks=(str(stage.task(test=MADE)),))
    assert "asked\n" in said(stage, row)
    assert (row["outcome"], row["steps"], len(upstream.seen)) == ("solved", 1, 1)
    (row,) = tried(stage, "harbor:nobody", upstream, tasks=(str(stage.task(name="other")),))
    assert "Harbor has no agent 'nobody'; it has asker" in row["error"]


def test_without_harbor_or_a_program_of_its_agent_nothing_begins(stage: Stage):
    folder = fake_harbor(stage)
    with pytest.raises(UsageError, match=r"pip install harbor \(Python 3\.12 or later\)"):
        read_agent("harbor:codex", stage.root, str(stage.root))
    with pytest.raises(UsageError, match="no program 'nowhere'"):
        read_agent("harbor:codex nowhere", stage.root, str(folder))
    assert read_agent("A=1 harbor:codex harbor", stage.root, str(folder))[0] == "A=1"


@pytest.mark.campaign
@pytest.mark.skipif(
    "HARBOR_PYTHON" not in os.environ, reason="run scripts/harbor.sh, which creates the environment and prints its name"
)
def test_harbors_own_mini_swe_agent_works_in_the_trials_sandbox(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", f"{Path(os.environ['HARBOR_PYTHON']).parent}{os.pathsep}{os.environ['PATH']}")
    commands = iter(["touch made.txt", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"])

    def answer(_: Any) -> RawAnswer:
        call = {"name": "bash", "arguments": json.dumps({"command": next(commands)})}
        message = {
            "role": "assistant",
            "content": "So.",
            "tool_calls": [{"id": "c", "type": "function", "function": call}],
        }
        whole = ANSWER | {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}
        return RawAnswer((json.dumps(whole).encode(),), headers=(("content-type", "application/json"),))

    with RawUpstream(answer=answer) as upstream:
        task = str(stage.task(test=MADE))
        (row,) = tried(stage, "harbor:mini-swe-agent", upstream, tasks=(task,))
        assert (row["outcome"], row["steps"], len(upstream.seen)) == ("solved", 2, 2), said(stage, row)


@pytest.mark.campaign
def test_a_bench_of_a_third_party_agent_with_frames(stage: Stage):
    memory = Path(sys.executable).with_name("stackmem")
    with RawUpstream(answer=SimulatedUpstream().answer) as upstream:
        bare = tried(stage, OF_OTHERS, upstream, worlds=("spec_map",), horizons=(120,))
        framed = tried(
            stage, f"{OF_OTHERS} {memory}", upstream, worlds=("spec_map",), horizons=(120,), strategies=("stackheap",)
        )  # fmt: skip
    assert [row["outcome"] for row in (*bare, *framed)] == ["solved", "solved"]
    assert framed[0]["peak_context_tokens"] <= bare[0]["peak_context_tokens"] / 3
