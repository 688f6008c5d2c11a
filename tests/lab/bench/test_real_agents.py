"""``bench --agent`` with real agents, offline: each works on two worlds behind the gateway of its trial.

The provider refuses what a real one refuses, and its model is the simulated reader. One agent always runs; in a
campaign those of ``STACKMEM_CLIENTS`` do, which ``scripts/clients.sh`` installs.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from stackmem.doors.gateway.status import run_status
from stackmem.doors.gateway.verifying import verify_gateway_run
from stackmem.lab.bench.plan import trials
from stackmem.lab.bench.planning import make_plan
from stackmem.lab.bench.suite import SuiteRequest
from stackmem.lab.bench.trial import Job, run_trial
from tests.doors.gateway.clients.provider import FAREWELL
from tests.doors.gateway.clients.spelling import Reply
from tests.doors.gateway.clients.table import AGENTS, CLIENTS, place_of
from tests.doors.gateway.upstream import RawUpstream
from tests.lab.bench.reading_provider import ReadingProvider
from tests.lab.bench.test_agent import said
from tests.stage import ROOT, Stage

INSTALLED = Path(os.environ.get("STACKMEM_CLIENTS", "/nonexistent"))
NAMED = {client.name: client for client in CLIENTS}
STRATEGIES = ("full", "mask:2,poll=2")
_OPENCODE = NAMED["opencode"].variables["OPENCODE_CONFIG_CONTENT"]
_GEMINI = json.dumps(NAMED["gemini-cli"].files[".gemini/settings.json"])
_WITH_SETTINGS = 'mkdir ~/.gemini && echo "$0" > ~/.gemini/settings.json && exec "$@"'


class BenchAgent(Struct, frozen=True):
    """An agent as ``--agent`` names it; ``{bin}`` is the folder of its programs.

    Attributes:
        has_shell: Without one it cannot work on a world, so the trial must be unsolved and not an error.
    """

    command: str
    model: str
    last: Reply = FAREWELL
    has_shell: bool = True


BENCH_AGENTS = {
    "claude-code": BenchAgent(
        "IS_SANDBOX=1 {bin}/claude -p {instruction} --model {model} --dangerously-skip-permissions",
        "anthropic/claude-sonnet-5-5",
    ),
    "codex": BenchAgent(
        "{bin}/codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m {model} {instruction}",
        "responses/gpt-5.6-sol",
    ),
    "opencode": BenchAgent(
        f"OPENCODE_CONFIG_CONTENT={shlex.quote(_OPENCODE)} OPENCODE_DISABLE_MODELS_FETCH=1 "
        "{bin}/opencode run --print-logs --model {provider}/{model} {instruction}",
        "anthropic/claude-sonnet-5-5",
    ),
    "gemini-cli": BenchAgent(
        f"GEMINI_CLI_TRUST_WORKSPACE=true sh -c {shlex.quote(_WITH_SETTINGS)} {shlex.quote(_GEMINI)} "
        "{bin}/gemini --model {model} --yolo -p {instruction}",
        "gemini/gemini-3.8-flash",
    ),
    "mini-swe-agent": BenchAgent(
        "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True "
        "{bin}/mini --yolo --exit-immediately -m {provider}/{model} -t {instruction}",
        "anthropic/claude-sonnet-5-5",
        NAMED["mini-swe-agent"].last,
    ),
    "aider": BenchAgent(
        "LITELLM_LOCAL_MODEL_COST_MAP=True {bin}/aider --yes-always --no-git --no-check-update --no-analytics "
        "--no-show-model-warnings --no-show-release-notes --no-pretty --no-gitignore --map-tokens 0 "
        "--model {provider}/{model} --message {instruction}",
        "openai/gpt-5.6-sol",
        has_shell=False,
    ),
}  # fmt: skip


def worked(stage: Stage, name: str, agent: BenchAgent, place: Path, world: str, horizon: int) -> list[str]:
    """Let the agent work on a world under each strategy, check every trial, and return rows of a table."""
    provider = ReadingProvider(agent.last)
    command = agent.command.replace("{bin}", str(place))
    with RawUpstream(at=provider.answer) as upstream:
        environ = {**os.environ, "ANTHROPIC_BASE_URL": upstream.url, "OPENAI_BASE_URL": f"{upstream.url}/v1",
                   "GOOGLE_GEMINI_BASE_URL": upstream.url, "ANTHROPIC_API_KEY": "sk-ant-none-0123456789",
                   "OPENAI_API_KEY": "sk-none-0123456789abcdef", "GEMINI_API_KEY": "AIza" + "b" * 35}  # fmt: skip
        asked = SuiteRequest(agent=command, models=(agent.model,), strategies=STRATEGIES, worlds=(world,),
                             horizons=(horizon,), settings={"max_seconds": 500, "max_usd": 1.0})  # fmt: skip
        plan, root = make_plan(asked, ROOT, environ), str(stage.root / "bench")
        jobs = [Job(trial, root, plan.price, plan.latency_seconds, "all") for trial in trials(plan)]
        made = [run_trial(job, environ=environ) for job in jobs]
    assert [row["error"] for row in made] == [""] * len(STRATEGIES), said(stage, made[0])
    # under a strategy the reader may lose a fact for good
    assert made[0]["outcome"] == ("solved" if agent.has_shell else "unsolved"), said(stage, made[0])
    assert provider.refused == []
    folders = [stage.root / "bench" / one for row in made for one in row["conversations"].splitlines()]
    used = [run_status(folder).usage for folder in folders]
    written = sum(one.cache_write_5m + one.cache_write_1h for one in used)
    read = sum(one.cache_read for one in used)
    sums = [sum(one.uncached for one in used), read, written, sum(one.output for one in used)]
    assert sums == provider.billed
    assert all(verify_gateway_run(folder).not_followed == 0 for folder in folders)
    if made[1]["outcome"] == "solved":  # a reader that lost a fact looks for it until its time is over
        assert made[1]["peak_context_tokens"] < made[0]["peak_context_tokens"]
    return [
        f"| {name} | {world} | `{row['strategy']}` | {row['outcome']} | {row['steps']} | "
        f"{row['peak_context_tokens']:,} | {row['cost_usd'] or 0:.4f} | {row['wall_seconds']:.0f} |"
        for row in made
    ]


@pytest.mark.parametrize("world", ["env_trap"])
def test_an_agent_of_the_official_sdk_solves_a_world_against_a_strict_provider(stage: Stage, world: str):
    agent = BenchAgent(f"{sys.executable} {AGENTS / 'anthropic_sdk.py'} {{instruction}}", "anthropic/claude-sonnet-5-5")
    worked(stage, "anthropic", agent, Path(), world, 10)


@pytest.mark.campaign
@pytest.mark.parametrize("world", ["spec_map", "env_trap"])
@pytest.mark.parametrize("name", BENCH_AGENTS)
def test_a_real_agent_works_on_two_worlds(stage: Stage, name: str, world: str):
    agent, place = BENCH_AGENTS[name], place_of(NAMED[name], INSTALLED)
    if place is None:
        pytest.skip(f"{name} is not installed; run scripts/clients.sh and set STACKMEM_CLIENTS to its folder")
    print("\n".join(worked(stage, name, agent, place, world, 12)))  # noqa: T201 - rows for docs/experiments.md
