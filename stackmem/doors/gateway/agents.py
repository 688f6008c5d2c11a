"""Starts an agent behind the gateway: sets its environment and arguments, and waits for its end."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from stackmem.core.errors import UsageError
from stackmem.doors.listening.token import TOKEN_HEADER

from .isolation import AgentNetwork
from .serving import TOKEN_VARIABLE, ServedGateway

_LOCAL = "127.0.0.1,localhost,::1"
_WRAPPERS = {
    "env", "npx", "bunx", "pnpx", "uvx", "npm", "pnpm", "yarn", "bun", "uv", "timeout", "nice", "nohup", "setsid",
    "stdbuf", "time", "node", "deno", "poetry", "pdm", "pipx", "mise", "xvfb-run",
}  # fmt: skip
"""Programs that start the program named in their arguments."""
_SHELLS = {"sh", "bash", "dash", "zsh", "fish", "ksh"}
_BEFORE_PROGRAM = re.compile(r"-|[A-Za-z_][A-Za-z0-9_]*=|[0-9.]+[smhd]?$|(exec|dlx|x|run|tool)$")
"""Their options, variables, durations and subcommands."""
_PACKAGES = {
    "claude-code": "claude", "gemini-cli": "gemini", "qwen-code": "qwen", "opencode-ai": "opencode",
    "aider-chat": "aider", "mini-swe-agent": "mini",
}  # fmt: skip
_ROUTES = {
    "codex": "start codex itself after --, not from a script, so that it gets its settings for the gateway",
    "claude": "claude reads ANTHROPIC_BASE_URL; unset CLAUDE_CODE_USE_BEDROCK and CLAUDE_CODE_USE_VERTEX, and remove "
    "ANTHROPIC_BASE_URL from its settings files",
    "opencode": 'set provider.anthropic.options.baseURL to "{env:ANTHROPIC_BASE_URL}/v1" in opencode.json, or the same '
    'with provider.openai and "{env:OPENAI_BASE_URL}"',
    "gemini": 'set GEMINI_API_KEY, and put {"security": {"auth": {"selectedType": "gemini-api-key"}}} into '
    "~/.gemini/settings.json; it then reads GOOGLE_GEMINI_BASE_URL",
    "qwen": "pass --auth-type openai, so that it reads OPENAI_BASE_URL",
    "aider": "choose a model of OpenAI or Anthropic; it reads OPENAI_API_BASE and ANTHROPIC_API_BASE",
    "mini": "choose a model openai/NAME or anthropic/NAME; it reads OPENAI_API_BASE and ANTHROPIC_API_BASE",
}
_ROUTE = (
    "set its base URL to $ANTHROPIC_BASE_URL or $OPENAI_BASE_URL, which contain the gateway's address while it runs"
)


def agent_environ(environ: Mapping[str, str], url: str, token: str) -> dict[str, str]:
    """Return the environment for an agent, with the addresses that SDKs read and the gateway exempt from proxies.

    The token travels only in environment variables, because other users of the machine can read command lines.
    """
    variables = dict(environ)
    for name in ("NO_PROXY", "no_proxy"):
        variables[name] = ",".join(filter(None, (environ.get(name, ""), _LOCAL)))
    return variables | gateway_variables(url) | {TOKEN_VARIABLE: token}


def gateway_variables(url: str) -> dict[str, str]:
    """Return the variables that point SDKs and most agents to a gateway."""
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_BASE": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "GOOGLE_GEMINI_BASE_URL": url,
    }


def program_of(command: Sequence[str]) -> tuple[int, str]:
    """Return the position and the name of the program that a command runs, behind ``env``, ``npx`` and similar."""
    position = 0
    while position < len(command) - 1 and PurePath(command[position]).stem in _WRAPPERS:
        position += 1
        while position < len(command) - 1 and _BEFORE_PROGRAM.match(command[position]):
            position += 1
    return position, _program_name(command[position])


def _program_name(word: str) -> str:
    name = re.sub(r"(?<=.)@.*", "", PurePath(word).name)
    name = re.sub(r"(?<=.)\.(cmd|exe|js|mjs|cjs)$", "", name)
    return _PACKAGES.get(name, name)


def agent_command(command: Sequence[str], url: str) -> list[str]:
    """Return the command to start. Codex ignores these variables, so it gets settings that name one with the token."""
    position, program = program_of(command)
    if program != "codex":
        return list(command)
    brings = f'env_http_headers={{"{TOKEN_HEADER}"="{TOKEN_VARIABLE}"}}'
    provider = f'{{name="stackmem",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses",{brings}}}'
    settings = ["-c", "model_provider=stackmem", "-c", f"model_providers.stackmem={provider}"]
    return [*command[: position + 1], *settings, *command[position + 1 :]]


def route_of(command: Sequence[str]) -> str:
    """Return how to route an agent that sent nothing to the gateway."""
    position, program = program_of(command)
    if program in _SHELLS:  # name the agent that the script starts, as far as its words tell
        words = " ".join(command[position + 1 :]).replace(";", " ").replace("&", " ").split()
        program = next((name for word in words if (name := _program_name(word)) in _ROUTES), program)
    return f"no request of {program[:80]} came through the gateway; to route it: {_ROUTES.get(program, _ROUTE)}"


def run_agent(
    command: Sequence[str], environ: Mapping[str, str], served: ServedGateway, network: AgentNetwork | None = None
) -> int:
    """Start the agent, wait for it, and return its exit code; 128 plus the number of a signal that killed it.

    The gateway ignores Ctrl-C while the agent runs, because the terminal sends it to both.
    """
    if network and shutil.which(command[0], path=environ.get("PATH")) is None:
        raise UsageError(f"{command[0]} cannot be started (it does not exist); pass a command after --")
    words, fds = agent_command(command, served.bare), network.fds if network else ()
    try:
        agent = subprocess.Popen(
            network.command(words) if network else words, pass_fds=fds,
            env=agent_environ(environ, served.url, served.token),
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started ({error.strerror}); pass a command after --") from error
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    ended = signal.signal(signal.SIGTERM, lambda *_: agent.terminate())
    try:
        code = agent.wait()
    finally:
        for number, handler in (*before.items(), (signal.SIGTERM, ended)):
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code
