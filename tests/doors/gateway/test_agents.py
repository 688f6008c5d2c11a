"""Agents are routed to the gateway, and one that does not reach it is noticed."""

import json
import sys

import pytest

from stackmem.doors.gateway.agents import agent_command, program_of, route_of
from tests.stage import Stage

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("command", "place", "program"),
    [
        ("codex exec x", 0, "codex"),
        ("/usr/bin/codex exec x", 0, "codex"),
        ("env codex exec x", 1, "codex"),
        ("env -i A=1 B=2 codex exec x", 4, "codex"),
        ("npx @openai/codex exec x", 1, "codex"),
        ("npx -y @openai/codex@latest exec x", 2, "codex"),
        ("npm exec -- @openai/codex", 3, "codex"),
        ("pnpm dlx @openai/codex exec", 2, "codex"),
        ("timeout 60s nice -n 5 codex exec", 5, "codex"),
        ("npx @anthropic-ai/claude-code -p codex", 1, "claude"),
        ("claude -p codex", 0, "claude"),
        ("uvx --from aider-chat aider", 2, "aider"),  # the option's value names the same agent
        ("node /opt/codex/bin/codex.js exec x", 1, "codex"),
        ("npx --yes --package @openai/codex codex exec", 3, "codex"),
        ("poetry run aider", 2, "aider"),
        ("npx @google/gemini-cli -p x", 1, "gemini"),
        ("env", 0, "env"),
        ("env A=1", 1, "A=1"),
        ("@", 0, "@"),
    ],
)
def test_the_program_behind_wrappers_is_found(command, place, program):
    assert program_of(command.split()) == (place, program)


@pytest.mark.parametrize("command", ["codex exec x", "env A=1 codex exec x", "npx @openai/codex@0.171.0 exec x"])
def test_codex_gets_its_settings_behind_its_name(command):
    words, given = command.split(), agent_command(command.split(), URL)
    place, _ = program_of(words)
    assert given[: place + 2] == [*words[: place + 1], "-c"]
    assert given[-2:] == ["exec", "x"]
    assert any(f'base_url="{URL}/v1"' in word for word in given)


def test_other_agents_keep_their_command():
    assert agent_command(["claude", "-p", "codex"], URL) == ["claude", "-p", "codex"]


@pytest.mark.parametrize("program", ["codex", "claude", "opencode", "qwen", "aider", "mini", "something"])
def test_an_agent_is_told_how_to_be_routed(program):
    assert f"no request of {program} came through the gateway; to route it: " in route_of([program])


@pytest.mark.parametrize(
    ("script", "program"),
    [("cd /w && codex exec x", "codex"), ("npx @google/gemini-cli -p x; true", "gemini"), ("make test", "sh")],
)
def test_the_agent_in_a_script_is_named(script: str, program: str):
    assert route_of(["env", "A=1", "sh", "-c", script]).startswith(f"no request of {program} came through the gateway")


def test_an_agent_that_sends_nothing_is_noticed(stage: Stage):
    quiet = (sys.executable, "-c", "pass")
    failing = (sys.executable, "-c", "raise SystemExit(3)")
    noticed = stage.run("gateway", "run", "--upstream", URL, "--", *quiet)
    allowed = stage.run("gateway", "run", "--upstream", URL, "--allow-no-requests", "--json", "--", *quiet)
    failed = stage.run("gateway", "run", "--upstream", URL, "--", *failing)
    assert (noticed.returncode, allowed.returncode, failed.returncode) == (2, 0, 3)
    assert "came through the gateway; to route it: set its base URL to $ANTHROPIC_BASE_URL" in noticed.stderr
    assert "to route it" not in allowed.stderr
    assert json.loads(allowed.stdout)["requests"] == 0
